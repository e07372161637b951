# SPDX-License-Identifier: Apache-2.0
"""Comparison of runs that no trial collected."""
