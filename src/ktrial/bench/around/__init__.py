# SPDX-License-Identifier: Apache-2.0
"""What is made sure of and recorded around a run."""
