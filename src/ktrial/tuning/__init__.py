# SPDX-License-Identifier: Apache-2.0
"""Knobs, the plans that change them, and where their values come from."""
