# SPDX-License-Identifier: Apache-2.0
"""Tiers, each measured against the last."""
