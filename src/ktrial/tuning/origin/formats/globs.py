# SPDX-License-Identifier: Apache-2.0
"""Patterns of names as files of settings have them."""

from __future__ import annotations

from fnmatch import fnmatchcase

#: No name in /proc, /sys or /dev is longer, and to read a long pattern takes time that grows with its square.
_LONGEST = 255


def fits(name: str, pattern: str) -> bool:
    """Whether the pattern (`*`, `?`, `[…]`) fits the whole name; one that is longer than any name fits none."""
    return len(pattern) <= _LONGEST and fnmatchcase(name, pattern)
