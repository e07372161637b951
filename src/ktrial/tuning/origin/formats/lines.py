# SPDX-License-Identifier: Apache-2.0
"""What all readers of foreign settings share: records, an error, and lines with their numbers.

A reader is a pure function from text to records. It follows three rules:

- text that is not about settings (comments, prose, other programs' keys) is ignored;
- a line that the reader should understand but cannot becomes an `Unread` record: file, line, text and reason;
- a text raises a `ForeignFormatError` if it has content and the reader recognises nothing in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

TargetKind = Literal["sysctl", "path", "attribute", "boot", "module", "zram"]
"""The kind of name in a foreign text: a sysctl key, a file below /proc or /sys, an attribute of a matched device
(udev), a kernel command line parameter, a module parameter (`module.parameter`), or a key of zram-generator.
"""

SHOWN_CHARACTERS = 200
#: Settings files have no longer lines: udev rejects them, and the kernel's command line is shorter.
LONGEST_LINE_BYTES = 16_384


class ForeignFormatError(ValueError):
    """No part of the text was recognised as the given format; `hint` names the next step, if there is one."""

    def __init__(self, file: str, reason: str, *, line_number: int | None = None, hint: str | None = None) -> None:
        self.file = file
        self.reason = reason
        self.line_number = line_number
        self.hint = hint
        place = file if line_number is None else f"{file}:{line_number}"
        super().__init__(f"{place}: {reason}")


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A line that the reader should have understood but did not."""

    file: str
    line_number: int
    text: str
    reason: str


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """One value that a foreign text sets, with its file and line.

    `value` is as written, without surrounding white space; None is a boot or module parameter without a value.
    `alternatives` lists all choices, `value` first, if the text uses the first one that is available. `conditions` are
    the conditions of the line as written. `instance` is the device that the text names (`zram0`). `direction` is set if
    the text only ever raises or lowers the value.
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
        return f"{self.file}:{self.line_number}"


class FileReading(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one text in order, its unread lines, and the numbers of lines `passed_over` as free text."""

    file: str
    assignments: tuple[Assignment, ...] = ()
    unread: tuple[Unread, ...] = ()
    passed_over: tuple[int, ...] = ()


class Line(msgspec.Struct, frozen=True):
    """A line without its line end, and its number, counted from 1."""

    number: int
    text: str


def split_lines(data: str | bytes, file: str) -> tuple[list[Line], list[Unread]]:
    """Return the lines, split at newlines only, and the unread lines: too long, with a NUL byte, or not UTF-8."""
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
            unread.append(unread_line(file, number, text.replace("\0", "\\0"), "contains a NUL byte"))
            continue
        lines.append(Line(number, text))
    return lines, unread


def join_continued(lines: Iterable[Line]) -> list[Line]:
    """Join lines that end in a backslash with the next one; the result has the number of the first line."""
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
    """Return whether a line is empty or only a comment that starts with one of `marks`."""
    stripped = text.strip()
    return not stripped or stripped[0] in marks


def unread_line(file: str, number: int, text: str, reason: str) -> Unread:
    """Return an `Unread` record with its text cut to the length of a message."""
    shown = text.strip()
    if len(shown) > SHOWN_CHARACTERS:
        shown = shown[:SHOWN_CHARACTERS] + "…"
    return Unread(file=file, line_number=number, text=shown, reason=reason)


def require_something(file: str, recognised: int, unread: list[Unread], wanted: str) -> None:
    """Raise ForeignFormatError if the text has unread lines and nothing in it was recognised."""
    if recognised or not unread:
        return
    first = min(unread, key=lambda item: item.line_number)
    raise ForeignFormatError(
        file,
        f"cannot read the text as {wanted}; the first unclear line is {first.text!r} ({first.reason})",
        line_number=first.line_number,
        hint="name the right format with `ktrial profile import --format FORMAT`",
    )


def in_order(unread: list[Unread]) -> tuple[Unread, ...]:
    return tuple(sorted(unread, key=lambda item: item.line_number))


def unquoted(value: str) -> str:
    """Return a value without one surrounding pair of quotes."""
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
