# SPDX-License-Identifier: Apache-2.0
"""Compare kept kernel arguments with the command line of this boot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ktrial.machine.transactions import Journaled, text_of
from ktrial.tuning.lasting.kept_text import read_kept
from ktrial.tuning.lasting.model import PLACES, LastingEntry


class LiveWord(msgspec.Struct, frozen=True):
    """How a kept kernel argument stands: its state, its value in this boot, and a detail."""

    state: Literal["live", "pending", "differs"]
    now: str | None
    detail: str | None


def look_at_word(entry: LastingEntry, command_line: str, transactions: Sequence[Journaled]) -> LiveWord:
    """Compare a kept word with the command line of this boot. `transactions`: those that keep, the newest first."""
    name = entry.holds["name"].replace("-", "_")
    words = [word.partition("=") for word in command_line.partition(" -- ")[0].split()]
    same = [(equals, value) for key, equals, value in words if key.replace("-", "_") == name]
    wanted = ("=", entry.holds["value"]) if "value" in entry.holds else ("", "")
    now = None if not same else same[-1][1] or "1"
    if same and same[-1] == wanted:
        return LiveWord("live", next(iter(entry.values.values()), now), None)
    if _is_of_this_boot(entry, transactions):
        return LiveWord("pending", now, "from the next boot on")
    if now is None:
        return LiveWord("differs", None, "not on the kernel command line: does another boot loader or entry boot?")
    return LiveWord("differs", now, "the kernel command line has another value")


def _is_of_this_boot(entry: LastingEntry, transactions: Sequence[Journaled]) -> bool:
    """Return whether the word came into its file during this boot."""
    for one in transactions:
        step = next((step for step in one.steps if step.path == PLACES["grub.d"]), None)
        if step is None:
            continue
        before = read_kept("grub.d", text_of(step.old) or "") if step.old is not None else ()
        if all(old.holds != entry.holds for old in before):
            return one.this_boot
    return False
