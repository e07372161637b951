# SPDX-License-Identifier: Apache-2.0
"""Comparison of runs that were not collected by a trial."""
