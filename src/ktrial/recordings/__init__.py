# SPDX-License-Identifier: Apache-2.0
"""Readers of recordings from ktrial and other programs."""
