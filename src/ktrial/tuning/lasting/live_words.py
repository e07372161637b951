# SPDX-License-Identifier: Apache-2.0
"""Compare kept kernel arguments with the command line of this boot."""

from __future__ import annotations

import posixpath
from typing import Literal

import msgspec

from ktrial.tuning.lasting.boot_words import REMOVED, name_of
from ktrial.tuning.lasting.model import LastingEntry


class LiveWord(msgspec.Struct, frozen=True):
    """The state of a kept kernel argument or kernel, its value in this boot, and a detail."""

    state: Literal["live", "pending", "differs"]
    now: str | None
    detail: str | None


def look_at_word(entry: LastingEntry, command_line: str, *, is_pending: bool) -> LiveWord:
    """Return the state of a kept argument or kernel in a boot with this command line.

    `is_pending` says that the argument or kernel was kept after this boot began.
    """
    texts = command_line.partition(" -- ")[0].split()
    if "kernel" in entry.holds:
        return _look_at_kernel(entry, texts, is_pending=is_pending)
    name = name_of(entry).replace("-", "_")
    words = [word.partition("=") for word in texts]
    if "removes" in entry.holds:
        left = [word for word in words if word[0].replace("-", "_") == name]
        left = [word for word in left if entry.holds.get("value") in {None, word[2]}]
        return _look_at_removal(["".join(word) for word in left], is_pending=is_pending)
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


def _look_at_removal(left: list[str], *, is_pending: bool) -> LiveWord:
    if not left:
        return LiveWord("live", REMOVED, None)
    if is_pending:
        return LiveWord("pending", " ".join(left), "from the next boot on")
    detail = "still on the kernel command line: does another file, boot loader or entry add it?"
    return LiveWord("differs", " ".join(left), detail)


def _look_at_kernel(entry: LastingEntry, words: list[str], *, is_pending: bool) -> LiveWord:
    image = next((word.partition("=")[2] for word in words if word.startswith("BOOT_IMAGE=")), None)
    now = None if image is None else f"/boot/{posixpath.basename(image)}"
    if now == entry.holds["kernel"]:
        return LiveWord("live", now, None)
    if is_pending:
        return LiveWord("pending", now, "from the next boot on")
    if now is None:
        return LiveWord("differs", None, "the kernel command line does not name the kernel (BOOT_IMAGE=)")
    return LiveWord("differs", now, "another kernel booted: chosen in the menu, or this one is no longer installed")
