# SPDX-License-Identifier: Apache-2.0
"""Running a trial."""
