# SPDX-License-Identifier: Apache-2.0
"""Finds the commit of a kernel that made a difference."""
