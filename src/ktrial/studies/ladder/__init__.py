# SPDX-License-Identifier: Apache-2.0
"""Ladders: tiers of settings, each measured against the tier below."""
