# SPDX-License-Identifier: Apache-2.0
"""Runs trials: blocks, visits, and the guards around them."""
