# SPDX-License-Identifier: Apache-2.0
"""Watching a machine while it works, and finding what made it stutter."""
