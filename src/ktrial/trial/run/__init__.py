# SPDX-License-Identifier: Apache-2.0
"""Runs trials: blocks, visits and everything that guards them."""
