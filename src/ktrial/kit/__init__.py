# SPDX-License-Identifier: Apache-2.0
"""Foundations that every package uses: errors, units, tables, text, JSON, TOML."""
