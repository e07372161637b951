# SPDX-License-Identifier: Apache-2.0
"""Compare kept kernel arguments with the command line of this boot."""

from __future__ import annotations

from typing import Literal

import msgspec

from ktrial.tuning.lasting.model import LastingEntry


class LiveWord(msgspec.Struct, frozen=True):
    """How a kept kernel argument stands: its state, its value in this boot, and a detail."""

    state: Literal["live", "pending", "differs"]
    now: str | None
    detail: str | None


def look_at_word(entry: LastingEntry, command_line: str, *, is_pending: bool) -> LiveWord:
    """Compare a kept word with the command line of this boot; `is_pending` if it was kept during this boot."""
    name = entry.holds["name"].replace("-", "_")
    words = [word.partition("=") for word in command_line.partition(" -- ")[0].split()]
    same = [(equals, value) for key, equals, value in words if key.replace("-", "_") == name]
    wanted = ("=", entry.holds["value"]) if "value" in entry.holds else ("", "")
    now = None if not same else same[-1][1] or "1"
    if same and same[-1] == wanted:
        return LiveWord("live", next(iter(entry.values.values()), now), None)
    if is_pending:
        return LiveWord("pending", now, "from the next boot on")
    if now is None:
        return LiveWord("differs", None, "not on the kernel command line: does another boot loader or entry boot?")
    return LiveWord("differs", now, "the kernel command line has another value")
