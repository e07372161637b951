# SPDX-License-Identifier: Apache-2.0
"""Knobs, profiles and their values."""
