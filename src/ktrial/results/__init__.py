# SPDX-License-Identifier: Apache-2.0
"""Stored runs, and reading those of other programs."""
