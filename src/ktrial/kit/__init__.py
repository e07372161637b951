# SPDX-License-Identifier: Apache-2.0
"""What every package stands on: errors, units, tables, texts, JSON, TOML."""
