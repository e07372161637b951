# SPDX-License-Identifier: Apache-2.0
"""Knobs, profiles and facts as data, and their loader."""
