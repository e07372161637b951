# SPDX-License-Identifier: Apache-2.0
"""Comparing runs that no trial has collected."""
