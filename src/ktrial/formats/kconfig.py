# SPDX-License-Identifier: Apache-2.0
"""The structure of a Kconfig file: its choices and symbols with their lines. What they mean is Kconfig's own affair."""

from __future__ import annotations

import re

import msgspec

from ktrial.formats.tool_output import numbered, unreadable

_ENTRY = re.compile(r"\s*(config|menuconfig)\s+([A-Za-z0-9_]+)\s*(?:#.*)?", re.ASCII)
_WORD = re.compile(r"\s*(choice|endchoice|if|endif|menu|endmenu|source|comment|mainmenu)\b")
_HELP = re.compile(r"\s*(?:---help---|help)\s*")


class Entry(msgspec.Struct, frozen=True):
    """A symbol as one place defines it: `first` and `last` are the line numbers of its block, counted from 1.

    `lines` are its properties without indentation, its help left out.
    """

    name: str
    first: int
    last: int
    lines: tuple[str, ...]
    line_numbers: tuple[int, ...]


class Choice(msgspec.Struct, frozen=True):
    """A choice: its own properties, its symbols, and the lines that it begins and ends with."""

    first: int
    last: int
    lines: tuple[str, ...]
    symbols: tuple[str, ...]


class Kconfig(msgspec.Struct, frozen=True):
    """All choices and symbols of a file, in its order."""

    choices: tuple[Choice, ...]
    entries: tuple[Entry, ...]

    def entry(self, name: str) -> Entry | None:
        """The first definition of a symbol."""
        return next((entry for entry in self.entries if entry.name == name), None)

    @property
    def names(self) -> frozenset[str]:
        """All symbols."""
        return frozenset(entry.name for entry in self.entries)


class _Open:
    """A block that is being read."""

    def __init__(self, name: str, first: int) -> None:
        self.name = name
        self.first = first
        self.last = first
        self.lines: list[str] = []
        self.numbers: list[int] = []

    def entry(self) -> Entry:
        return Entry(self.name, self.first, self.last, tuple(self.lines), tuple(self.numbers))


class _Reader:
    """What was seen so far."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.choices: list[Choice] = []
        self.entries: list[Entry] = []
        self._entry: _Open | None = None
        self._choice: _Open | None = None
        self._symbols: list[str] = []
        self._help: int | None = None

    def line(self, number: int, text: str) -> None:
        stripped = text.strip()
        if not stripped or stripped.startswith("#"):
            return
        indent = len(text.expandtabs()) - len(text.expandtabs().lstrip())
        if self._help is not None and (self._help < 0 or indent >= self._help) and indent > 0:
            self._help = max(self._help, indent) if self._help < 0 else self._help
            self._touch(number)
            return
        self._help = None
        if match := _ENTRY.fullmatch(text):
            self._close()
            self._entry = _Open(match[2], number)
            if self._choice is not None:
                self._symbols.append(match[2])
        elif match := _WORD.match(text):
            self._word(match[1], number, stripped)
        else:
            self._property(number, stripped)

    def _word(self, word: str, number: int, text: str) -> None:
        self._close()
        if word == "choice":
            if self._choice is not None:
                raise unreadable(self._source, number, text, "no choice within a choice")
            self._choice, self._symbols = _Open("", number), []
        elif word == "endchoice":
            if self._choice is None:
                raise unreadable(self._source, number, text, "the end of a choice: none has begun")
            choice = self._choice
            self.choices.append(Choice(choice.first, number, tuple(choice.lines), tuple(self._symbols)))
            self._choice = None

    def _property(self, number: int, text: str) -> None:
        block = self._entry or (self._choice if not self._symbols else None)
        if block is None:
            return
        self._touch(number)
        if _HELP.fullmatch(text):
            self._help = -1
        else:
            block.lines.append(text)
            block.numbers.append(number)

    def _touch(self, number: int) -> None:
        if self._entry is not None:
            self._entry.last = number

    def _close(self) -> None:
        if self._entry is not None:
            self.entries.append(self._entry.entry())
        self._entry = None

    def end(self) -> Kconfig:
        self._close()
        if self._choice is not None:
            raise unreadable(self._source, self._choice.first, "choice", "a choice that ends")
        if not self.entries:
            raise unreadable(self._source, None, "the whole file", "a Kconfig file: it defines no symbol")
        return Kconfig(tuple(self.choices), tuple(self.entries))


def read_kconfig(data: bytes, source: str = "Kconfig") -> Kconfig:
    """Read a Kconfig file; one without symbols, or with a choice that does not end, is none."""
    reader = _Reader(source)
    for number, text in numbered(data, source):
        reader.line(number, text)
    return reader.end()
