# SPDX-License-Identifier: Apache-2.0
"""Finds out which of many settings made a difference."""
