# SPDX-License-Identifier: Apache-2.0
"""Searches for the best of many settings, and believes only what fresh data confirm."""
