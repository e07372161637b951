# SPDX-License-Identifier: Apache-2.0
"""Lines put into a text between marks, taken out again exactly, and both as a unified diff. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

BEGIN, END = "ktrial-uarch: begin", "ktrial-uarch: end"
_BEGIN = re.compile(rf"\s*(?:#|/\*) {BEGIN}(?: \*/)?\n?")
_END = re.compile(rf"\s*(?:#|/\*) {END}(?: \*/)?\n?")


def insert(text: str, after: Mapping[int, str], *, comment: str = "# {}") -> str:
    """The text with more lines after the lines of these numbers, counted from 1; 0 is before the first."""
    lines = text.splitlines(keepends=True)
    result: list[str] = []
    for number in range(len(lines) + 1):
        if number:
            result.append(lines[number - 1])
        if number in after:
            result += [comment.format(BEGIN) + "\n", after[number].rstrip("\n") + "\n", comment.format(END) + "\n"]
    return "".join(result)


def is_marked(text: str) -> bool:
    """Whether there are marks in it."""
    return BEGIN in text


def without(text: str) -> str:
    """The text without what stands between marks. Raises ValueError with the reason where marks do not pair."""
    kept: list[str] = []
    inside = 0
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        if _BEGIN.fullmatch(line):
            if inside:
                raise ValueError(f"line {number}: a mark begins within the one of line {inside}")
            inside = number
        elif _END.fullmatch(line):
            if not inside:
                raise ValueError(f"line {number}: a mark ends that never began")
            inside = 0
        elif not inside:
            kept.append(line)
    if inside:
        raise ValueError(f"line {inside}: a mark begins and never ends")
    return "".join(kept)


def unified(path: str, old: str, new: str) -> str:
    """The change of one file as a unified diff for `patch -p1`; empty where there is none."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}", n=3
    )
    return "".join(lines)
