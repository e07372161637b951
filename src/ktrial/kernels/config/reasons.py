# SPDX-License-Identifier: Apache-2.0
"""All symbols that a kernel tree's Kconfig files define, and why a symbol lacks the requested value."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ktrial.kernels.config.kconfig import IncludedFile, Kconfig, KconfigEntry, read_part
from ktrial.kernels.config.kconfig_expression import Expression, demands, level, read_expression, show_expression, words
from ktrial.kit.errors import BadInput, UnreadableOutput, nearest

#: The types of Kconfig symbols.
TYPES = ("bool", "tristate", "int", "hex", "string")
_TYPE = re.compile(rf"(?:def_)?({'|'.join(TYPES)})\b")
_PROMPT = re.compile(r"""(?=[^\n]*\Z)(?:(?:bool|tristate|int|hex|string|prompt)\s+)["'].*?["'](?:\s+if\s+(.*))?""")
_SELECT = re.compile(r"(?:select|imply)\s+([A-Z0-9a-z_]+)(?:\s+if\s+(.*))?")
_DEPENDS = re.compile(r"depends\s+on\s+(.*)")
_RANGE = re.compile(r"range\s+(\S+)\s+(\S+)(?:\s+if\s+.*)?")
_VARIABLE = re.compile(r"\$\(?(\w+)\)?")
#: How deeply files may include each other.
_DEEPEST_FILE = 40
_LEVELS = {"m": 1, "y": 2}
#: How many nested dependencies a reason follows.
_DEEPEST = 4
_MOST = 3


class Definition(NamedTuple):
    """A definition of a symbol in the tree, and the conditions that apply to it."""

    file: str
    line: int
    prompt: bool
    conditions: tuple[str, ...]
    #: The condition under which Kconfig offers the symbol.
    prompt_if: str | None
    choice: tuple[str, ...]
    ranges: tuple[tuple[str, str], ...]


class Selection(NamedTuple):
    """A symbol that selects or implies another symbol."""

    by: str
    condition: str | None


class KnownSymbols:
    """The symbols of the tree `folder`; make passes `variables`, such as `SRCARCH`, to Kconfig."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder.resolve()
        self._variables = variables
        self._seen: set[str] = set()
        self.definitions: dict[str, list[Definition]] = defaultdict(list)
        self.selections: dict[str, list[Selection]] = defaultdict(list)
        self.types: dict[str, str] = {}
        if not (self._folder / "Kconfig").is_file():
            hint = "use the top folder of a kernel source tree"
            raise BadInput("not a kernel tree: Kconfig is missing", file=str(folder), hint=hint)
        self._read("Kconfig", (), 0)

    def __contains__(self, name: str) -> bool:
        return name in self.definitions

    @property
    def names(self) -> Iterable[str]:
        return self.definitions.keys()

    def choice(self, name: str) -> tuple[str, ...]:
        """Return all symbols of the choice that a symbol belongs to; none if it belongs to no choice."""
        return next((one.choice for one in self.definitions.get(name, ()) if one.choice), ())

    def why(self, name: str, wanted: str, values: Mapping[str, str]) -> str:
        return reason(name, wanted, values, self)

    def _read(self, path: str, within: tuple[str, ...], depth: int) -> None:
        if path in self._seen or depth > _DEEPEST_FILE:
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
            raise BadInput(
                error.message, file=str(self._folder), hint="restore the file from the original tree"
            ) from None
        for entry in found.entries:
            self._add(path, entry, found, within)
        for included in found.sources:
            for inner in self._files(included):
                self._read(inner, (*within, *included.within), depth + 1)

    def _files(self, included: IncludedFile) -> list[str]:
        path = _VARIABLE.sub(lambda match: self._variables.get(match[1], match[0]), included.path)
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


def reason(name: str, wanted: str, values: Mapping[str, str], tree: KnownSymbols) -> str:
    """Return why a symbol lacks the wanted value, as a clause; `values` is the resulting configuration."""
    found = tree.definitions.get(name)
    if not found:
        near = nearest(name, tree.names)
        return "this tree has no such symbol" + (f"; did you mean {near[0]}?" if near else "")
    got = values.get(name, "n")
    if wanted == "n" or (got == "y" and wanted == "m"):
        return _too_high(name, values, tree)
    rival = next((one for one in tree.choice(name) if one != name and values.get(one) == "y"), None)
    unmet = _unmet(name, wanted, found, values, tree, 0)
    if unmet:
        return unmet
    if rival is not None and wanted in _LEVELS:
        return f"the choice is set to {rival}"
    if not any(one.prompt for one in found):
        return _no_prompt(name, tree)
    if wanted not in _LEVELS:
        return _value_reason(found, got)
    return "Kconfig gave it another value, although its dependencies are met"


def _too_high(name: str, values: Mapping[str, str], tree: KnownSymbols) -> str:
    by = [one.by for one in tree.selections.get(name, ()) if values.get(one.by) in _LEVELS]
    if by:
        return f"{_join_names(by)} {'select' if len(by) > 1 else 'selects'} it"
    if not any(one.prompt for one in tree.definitions[name]):
        return "only Kconfig sets it, because it has no prompt"
    others = [one for one in tree.choice(name) if one != name]
    if others:
        return f"its choice needs a value, such as {_join_names(others)}"
    return "Kconfig gave it another value; EXPERT may be needed"


def _no_prompt(name: str, tree: KnownSymbols) -> str:
    by = list(dict.fromkeys(one.by for one in tree.selections.get(name, ())))
    if by:
        return f"it has no prompt and cannot be set; {_join_names(by)} {'select' if len(by) > 1 else 'selects'} it"
    return "it has no prompt and cannot be set; Kconfig computes it"


def _value_reason(found: Sequence[Definition], got: str) -> str:
    ranges = [one for definition in found for one in definition.ranges]
    if ranges:
        return f"its range is {ranges[0][0]} to {ranges[0][1]}"
    return f"Kconfig set it to {got}"


def _unmet(
    name: str, wanted: str, found: Sequence[Definition], values: Mapping[str, str], tree: KnownSymbols, depth: int
) -> str:
    least = _LEVELS.get(wanted, 2)
    conditions = [_lacking(one, least, values) for one in found]
    if not all(conditions):
        return ""
    lacks = min(conditions, key=len)
    reasons = [_one(term, at, values, tree, depth) for term, at in lacks[:_MOST]]
    more = f" and {len(lacks) - _MOST} more" if len(lacks) > _MOST else ""
    return f"{'it' if depth == 0 else name} needs {'; and '.join(reasons)}{more}"


def _lacking(definition: Definition, least: int, values: Mapping[str, str]) -> list[tuple[Expression, int | None]]:
    texts = (*definition.conditions, *((definition.prompt_if,) if definition.prompt_if else ()))
    lacks: dict[Expression, int | None] = {}
    for text in texts:
        try:
            expression = read_expression(text)
        except UnreadableOutput:
            continue
        for term in demands(expression):
            at = level(term, values)
            if at is not None and at < least:
                lacks[term] = at
    return list(lacks.items())


def _one(term: Expression, at: int | None, values: Mapping[str, str], tree: KnownSymbols, depth: int) -> str:
    """Return a text about an unmet condition. If the condition is a symbol, add why that symbol is not set."""
    text = show_expression(term)
    if term.kind == "word":
        if term.text not in tree:
            return f"{text}, which this tree lacks"
        if at == 1:
            return f"{text}=y, but {text} is m"
        inner = tree.definitions[term.text]
        deeper = _unmet(term.text, "y", inner, values, tree, depth + 1) if depth < _DEEPEST else ""
        if not deeper and not any(one.prompt for one in inner):
            deeper = f"{term.text} {_no_prompt(term.text, tree).removeprefix('it ')}"
        return f"{text}, which is off" + (f" ({deeper})" if deeper else "")
    if term.kind == "not" and term.parts[0].kind == "word":
        return f"{term.parts[0].text} off, but it is {values.get(term.parts[0].text, 'n')}"
    details = ", ".join(f"{word} is {values.get(word, 'n')}" for word in words(term)[:6])
    return f"{text}{f' ({details})' if details else ''}"


def _join_names(names: Sequence[str]) -> str:
    shown_names = list(dict.fromkeys(names))
    more = len(shown_names) - _MOST
    return ", ".join(shown_names[:_MOST]) + (f" and {more} more" if more > 0 else "")
