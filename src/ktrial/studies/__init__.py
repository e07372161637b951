# SPDX-License-Identifier: Apache-2.0
"""Studies: questions that take several trials, and the files with their answers."""
