# SPDX-License-Identifier: Apache-2.0
"""What every reader of foreign settings shares: its records, its one error, and lines that keep their numbers.

A reader is a pure function from text to records. It follows three rules:

- what is none of its business (comments, prose, other people's keys) is passed over;
- what it should understand and cannot is an `Unread` record: file, line, text and reason;
- a text with content in which nothing at all was recognised is a `ForeignFormatError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

TargetKind = Literal["sysctl", "path", "attribute", "boot", "module", "zram"]
"""What a foreign text names: a sysctl key, a file below /proc or /sys, an attribute of a matched device (udev), a
kernel command line parameter, a module parameter (`module.parameter`), or a key of zram-generator.
"""

SHOWN_CHARACTERS = 200
#: Longer lines stand in no file of settings: udev reads none that is longer, and a kernel's command line is shorter.
LONGEST_LINE_BYTES = 16_384


class ForeignFormatError(ValueError):
    """Nothing in the text could be recognised as the format it was read as.

    `reason` is one sentence; `hint` names the next step and may be None.
    """

    def __init__(self, file: str, reason: str, *, line_number: int | None = None, hint: str | None = None) -> None:
        self.file = file
        self.reason = reason
        self.line_number = line_number
        self.hint = hint
        place = file if line_number is None else f"{file}:{line_number}"
        super().__init__(f"{place}: {reason}")


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A line that should have been understood and was not."""

    file: str
    line_number: int
    text: str
    reason: str


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One value that a foreign text sets, with the place where it says so.

    `value` is as written (white space around it removed); None is a boot or module parameter without a value.
    `alternatives` holds all choices, `value` being the first, where the text takes the first one that is offered.
    `conditions` are what must hold for the line to act, as written there. `instance` is the device the text names
    (`zram0`). `direction` is "raise" or "lower" where the text only ever moves the value that way.
    """

    kind: TargetKind
    name: str
    value: str | None
    file: str
    line_number: int
    text: str
    alternatives: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    instance: str | None = None
    direction: Literal["raise", "lower"] | None = None
    ignore_failure: bool = False

    @property
    def place(self) -> str:
        """`file:line`, as messages show it."""
        return f"{self.file}:{self.line_number}"


class FileReading(msgspec.Struct, frozen=True, kw_only=True):
    """All that one text sets, in its own order, and every line that could not be read.

    `passed_over` are the numbers of lines that name no setting, where text around settings is expected.
    """

    file: str
    assignments: tuple[Assignment, ...] = ()
    unread: tuple[Unread, ...] = ()
    passed_over: tuple[int, ...] = ()


class Line(msgspec.Struct, frozen=True):
    """A line with its number (from 1), without its line end."""

    number: int
    text: str


def split_lines(data: str | bytes, file: str) -> tuple[list[Line], list[Unread]]:
    """Split at newlines only. Lines that are not UTF-8 text, hold a NUL, or are too long, come back as unread."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    lines: list[Line] = []
    unread: list[Unread] = []
    for number, ended in enumerate(raw.split(b"\n"), start=1):
        content = ended.removesuffix(b"\r")
        if len(content) > LONGEST_LINE_BYTES:
            shown = content[:LONGEST_LINE_BYTES].decode("utf-8", "backslashreplace")
            unread.append(unread_line(file, number, shown, f"longer than {LONGEST_LINE_BYTES} bytes"))
            continue
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            shown = content.decode("utf-8", "backslashreplace")
            unread.append(unread_line(file, number, shown, "not UTF-8 text"))
            continue
        if "\0" in text:
            unread.append(unread_line(file, number, text.replace("\0", "\\0"), "holds a NUL byte"))
            continue
        lines.append(Line(number, text))
    return lines, unread


def join_continued(lines: Iterable[Line]) -> list[Line]:
    """Join lines that end in a backslash with the next one; the result has the number of its first line."""
    joined: list[Line] = []
    parts: list[str] = []
    first = 0
    for line in lines:
        if not parts:
            first = line.number
        if line.text.endswith("\\"):
            parts.append(line.text[:-1])
            continue
        joined.append(Line(first, "".join([*parts, line.text])))
        parts = []
    if parts:
        joined.append(Line(first, "".join(parts)))
    return joined


def is_comment(text: str, marks: str = "#") -> bool:
    """Return whether a line holds nothing, or only a comment that begins with one of `marks`."""
    stripped = text.strip()
    return not stripped or stripped[0] in marks


def unread_line(file: str, number: int, text: str, reason: str) -> Unread:
    """Return an `Unread` record with its text cut to a length that fits a message."""
    shown = text.strip()
    if len(shown) > SHOWN_CHARACTERS:
        shown = shown[:SHOWN_CHARACTERS] + "…"
    return Unread(file=file, line_number=number, text=shown, reason=reason)


def require_something(file: str, recognised: int, unread: list[Unread], wanted: str) -> None:
    """Refuse a text that has content of which nothing was recognised."""
    if recognised or not unread:
        return
    first = min(unread, key=lambda item: item.line_number)
    raise ForeignFormatError(
        file,
        f"nothing here could be read as {wanted}; the first line in doubt says {first.text!r}: {first.reason}",
        line_number=first.line_number,
        hint="name the format with --format if it is another one",
    )


def in_order(unread: list[Unread]) -> tuple[Unread, ...]:
    """Unread lines in the order of the text."""
    return tuple(sorted(unread, key=lambda item: item.line_number))


def unquoted(value: str) -> str:
    """Return a value without one pair of quotes around it."""
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
