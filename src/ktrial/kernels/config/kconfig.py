# SPDX-License-Identifier: Apache-2.0
"""The structure of a Kconfig file: its choices and symbols with their lines, uninterpreted."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ktrial.kit.formats.tool_output import numbered, unreadable

_ENTRY = re.compile(r"\s*(config|menuconfig)\s+([A-Za-z0-9_]+)\s*(?:#.*)?", re.ASCII)
_WORD = re.compile(r"\s*(choice|endchoice|if|endif|menu|endmenu|source|comment|mainmenu)(?![\w-])\s*(.*)")
_HELP = re.compile(r"\s*(?:---help---|help)\s*")
_CONDITION = re.compile(r"(?:depends\s+on|visible\s+if)\s+(.*)")
_QUOTED = re.compile(r'"([^"]*)"')


class KconfigEntry(msgspec.Struct, frozen=True):
    """A definition of a symbol, on lines `first` to `last`, counted from 1.

    `lines` are its properties without indentation and help; `within` are the conditions of the enclosing menus, choices
    and ifs; `choice` is the index of its choice in the file.
    """

    name: str
    first: int
    last: int
    lines: tuple[str, ...]
    line_numbers: tuple[int, ...]
    within: tuple[str, ...] = ()
    choice: int | None = None


class Choice(msgspec.Struct, frozen=True):
    """A choice on lines `first` to `last`. `lines` are the properties of the choice, not of its symbols."""

    first: int
    last: int
    lines: tuple[str, ...]
    symbols: tuple[str, ...]


class IncludedFile(msgspec.Struct, frozen=True):
    """A file that the Kconfig file includes, and the conditions of the enclosing blocks."""

    path: str
    within: tuple[str, ...]


class Kconfig(msgspec.Struct, frozen=True):
    """All choices and symbols of a file, in file order."""

    choices: tuple[Choice, ...]
    entries: tuple[KconfigEntry, ...]
    sources: tuple[IncludedFile, ...] = ()

    def entry(self, name: str) -> KconfigEntry | None:
        return next((entry for entry in self.entries if entry.name == name), None)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.entries)


class _OpenBlock:
    """A block whose end has not been read yet."""

    def __init__(self, name: str, first: int) -> None:
        self.name = name
        self.first = first
        self.last = first
        self.lines: list[str] = []
        self.numbers: list[int] = []

    @property
    def conditions(self) -> tuple[str, ...]:
        found = (_CONDITION.fullmatch(line) for line in self.lines)
        return tuple(match[1] for match in found if match)


class _KconfigReader:
    """The state of the reader. `_around` holds the blocks around the current line, outermost first."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.choices: list[Choice] = []
        self.entries: list[KconfigEntry] = []
        self.sources: list[IncludedFile] = []
        self._entry: _OpenBlock | None = None
        #: The owner of properties outside a symbol: a choice or menu.
        self._block: _OpenBlock | None = None
        self._around: list[_OpenBlock] = []
        self._symbols: list[str] = []
        self._help: int | None = None

    def line(self, number: int, text: str) -> None:
        stripped = text.strip()
        if not stripped or stripped.startswith("#"):
            return
        if self._help is not None:
            indent = len(text.expandtabs()) - len(text.expandtabs().lstrip())
            if (self._help < 0 or indent >= self._help) and indent > 0:
                self._help = max(self._help, indent) if self._help < 0 else self._help
                self._touch(number)
                return
            self._help = None
        if match := _ENTRY.fullmatch(text):
            self._close()
            self._entry = _OpenBlock(match[2], number)
            if self._choice is not None:
                self._symbols.append(match[2])
        elif match := _WORD.match(text):
            self._word(match[1], match[2], number, stripped)
        else:
            self._property(number, stripped)

    @property
    def _choice(self) -> _OpenBlock | None:
        return next((block for block in self._around if block.name == "choice"), None)

    @property
    def _within(self) -> tuple[str, ...]:
        return tuple(condition for block in self._around for condition in block.conditions)

    def _word(self, word: str, rest: str, number: int, text: str) -> None:
        self._close()
        if word in ("choice", "if", "menu"):
            if word == "choice" and self._choice is not None:
                raise unreadable(self._source, number, text, "a line that a choice can contain")
            self._symbols = [] if word == "choice" else self._symbols
            block = _OpenBlock(word, number)
            self._around.append(block)
            if word == "if":
                block.lines.append(f"depends on {rest}")
            else:
                self._block = block
        elif word.startswith("end"):
            self._end(word.removeprefix("end"), number, text)
        elif word == "source" and (match := _QUOTED.match(rest)):
            self.sources.append(IncludedFile(match[1], self._within))

    def _end(self, kind: str, number: int, text: str) -> None:
        if not self._around or self._around[-1].name != kind:
            now = f"the open block is `{self._around[-1].name}`" if self._around else "no block is open"
            raise unreadable(self._source, number, text, f"in its place: {now}")
        block = self._around.pop()
        if kind == "choice":
            self.choices.append(Choice(block.first, number, tuple(block.lines), tuple(self._symbols)))

    def _property(self, number: int, text: str) -> None:
        block = self._entry or self._block
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
        self._block = None
        if (open_ := self._entry) is not None:
            choice = len(self.choices) if self._choice is not None else None
            lines, numbers = tuple(open_.lines), tuple(open_.numbers)
            self.entries.append(KconfigEntry(open_.name, open_.first, open_.last, lines, numbers, self._within, choice))
        self._entry = None

    def end(self) -> Kconfig:
        self._close()
        if self._around:
            block = self._around[0]
            raise unreadable(self._source, block.first, block.name, f"closed: `end{block.name}` is missing")
        return Kconfig(tuple(self.choices), tuple(self.entries), tuple(self.sources))


def read_kconfig(data: bytes, source: str = "Kconfig") -> Kconfig:
    """Parse a Kconfig file. Raise UnreadableOutput if it defines no symbol or a block does not end."""
    found = read_part(data, source)
    if not found.entries:
        raise unreadable(source, None, "", "a Kconfig file: it defines no symbol")
    return found


def read_part(data: bytes, source: str = "Kconfig") -> Kconfig:
    """Parse one file of a tree's Kconfig. It may define no symbol and only include other files."""
    reader = _KconfigReader(source)
    for number, text in _join_lines(data, source):
        reader.line(number, text)
    return reader.end()


def _join_lines(data: bytes, source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines, joining each line that ends in a backslash with the next."""
    begun: tuple[int, str] | None = None
    for number, text in numbered(data, source):
        first, before = begun if begun is not None else (number, "")
        whole = before + text
        if whole.endswith("\\"):
            begun = first, whole[:-1] + " "
            continue
        begun = None
        yield first, whole
    if begun is not None:
        yield begun
