# SPDX-License-Identifier: Apache-2.0
"""All symbols that a kernel tree's Kconfig files define: what they depend on, and who selects them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ktrial.kernels.config.kconfig import Kconfig, KconfigEntry, Sourced, read_part
from ktrial.kit.errors import BadInput, UnreadableOutput

#: How a symbol of Linux is typed.
TYPES = ("bool", "tristate", "int", "hex", "string")
_TYPE = re.compile(rf"(?:def_)?({'|'.join(TYPES)})\b")
_PROMPT = re.compile(r"""(?=[^\n]*\Z)(?:(?:bool|tristate|int|hex|string|prompt)\s+)["'].*?["'](?:\s+if\s+(.*))?""")
_SELECT = re.compile(r"(?:select|imply)\s+([A-Z0-9a-z_]+)(?:\s+if\s+(.*))?")
_DEPENDS = re.compile(r"depends\s+on\s+(.*)")
_RANGE = re.compile(r"range\s+(\S+)\s+(\S+)(?:\s+if\s+.*)?")
_VARIABLE = re.compile(r"\$\(?(\w+)\)?")
_DEEPEST = 40


class Definition(NamedTuple):
    """A symbol as one place of the tree defines it, with all that this place asks for."""

    file: str
    line: int
    prompt: bool
    conditions: tuple[str, ...]
    #: Further conditions of its being offered at all.
    prompt_if: str | None
    choice: tuple[str, ...]
    ranges: tuple[tuple[str, str], ...]


class Selection(NamedTuple):
    """A symbol that switches another one on."""

    by: str
    condition: str | None


class KconfigTree:
    """Reads the files once, from the tree's own top; `variables` stand for what make tells Kconfig (`SRCARCH`)."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder.resolve()
        self._variables = variables
        self._seen: set[str] = set()
        self.definitions: dict[str, list[Definition]] = defaultdict(list)
        self.selections: dict[str, list[Selection]] = defaultdict(list)
        self.types: dict[str, str] = {}
        if not (self._folder / "Kconfig").is_file():
            hint = "give the folder that a kernel's sources were unpacked into"
            raise BadInput("is not a kernel tree: Kconfig is missing", file=str(folder), hint=hint)
        self._read("Kconfig", (), 0)

    def __contains__(self, name: str) -> bool:
        return name in self.definitions

    @property
    def names(self) -> Iterable[str]:
        return self.definitions.keys()

    def choice(self, name: str) -> tuple[str, ...]:
        """The symbols of which only one can be chosen, this one among them; none if it belongs to no choice."""
        return next((one.choice for one in self.definitions.get(name, ()) if one.choice), ())

    def _read(self, path: str, within: tuple[str, ...], depth: int) -> None:
        if path in self._seen or depth > _DEEPEST:
            return
        self._seen.add(path)
        place = self._folder / path
        if not place.is_file() or not place.resolve().is_relative_to(self._folder):
            return
        data = place.read_bytes().decode(errors="replace").encode()
        if not data.strip():
            return
        try:
            found = read_part(data, path)
        except UnreadableOutput as error:
            raise BadInput(error.message, file=str(self._folder)) from None
        for entry in found.entries:
            self._add(path, entry, found, within)
        for sourced in found.sources:
            for inner in self._files(sourced):
                self._read(inner, (*within, *sourced.within), depth + 1)

    def _files(self, sourced: Sourced) -> list[str]:
        path = _VARIABLE.sub(lambda match: self._variables.get(match[1], match[0]), sourced.path)
        if "$" in path or path.startswith("/") or ".." in path.split("/"):
            return []
        if not set("*?[") & set(path):
            return [path]
        return sorted(str(found.relative_to(self._folder)) for found in self._folder.glob(path))

    def _add(self, path: str, entry: KconfigEntry, file: Kconfig, within: tuple[str, ...]) -> None:
        choice = () if entry.choice is None else file.choices[entry.choice].symbols
        depends = tuple(match[1] for line in entry.lines if (match := _DEPENDS.fullmatch(line)))
        prompts = [match for line in entry.lines if (match := _PROMPT.fullmatch(line))]
        self.definitions[entry.name].append(
            Definition(
                file=path,
                line=entry.first,
                prompt=bool(prompts),
                conditions=(*within, *entry.within, *depends),
                prompt_if=prompts[0][1] if prompts else None,
                choice=choice,
                ranges=tuple((match[1], match[2]) for line in entry.lines if (match := _RANGE.fullmatch(line))),
            )
        )
        for line in entry.lines:
            if match := _SELECT.fullmatch(line):
                self.selections[match[1]].append(Selection(entry.name, match[2]))
            elif (match := _TYPE.match(line)) and entry.name not in self.types:
                self.types[entry.name] = match[1]
