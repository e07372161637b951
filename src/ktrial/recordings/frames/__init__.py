# SPDX-License-Identifier: Apache-2.0
"""Frames of games: logs and statistics."""
