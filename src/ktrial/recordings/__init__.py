# SPDX-License-Identifier: Apache-2.0
"""Readers of recordings of ktrial and other programs."""
