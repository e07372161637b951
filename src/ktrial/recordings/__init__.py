# SPDX-License-Identifier: Apache-2.0
"""Reads recordings of ktrial and other programs."""
