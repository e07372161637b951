# SPDX-License-Identifier: Apache-2.0
"""Many mutants of the agent in one build: a function has a body for each, and a file says which one runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: A mutant as cargo-mutants tells it: its function, what it replaces and by what.
Told = Mapping[str, Any]


class Piece(NamedTuple):
    """Some lines of a source, and the mutants that must go where they do not build."""

    text: str
    mutants: frozenset[int]


def planted(source: str, mutants: Mapping[int, Told], chosen: Path) -> list[Piece]:
    """A source with all these mutants; the number that stands in the file `chosen` says which one is alive.

    Of functions inside of others only the outer ones get theirs.
    """
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    functions = defaultdict(list)
    for number, told in mutants.items():
        functions[_places(lines, told["function"]["span"])].append(number)
    found, done = [], 0
    for (first, last), numbers in sorted(functions.items()):
        if first < done:
            continue
        name = mutants[numbers[0]]["function"]["function_name"].rpartition("::")[2]
        opening = source.index("{", source.index(f"fn {name}", first)) + 1
        found.append(Piece(source[done:opening], frozenset()))
        found.append(Piece(_ASKS.format(chosen=chosen), frozenset(numbers)))
        for number in numbers:
            begin, end = _places(lines, mutants[number]["span"])
            body = source[opening:begin] + mutants[number]["replacement"] + source[end : last - 1]
            found.append(Piece(f"\n{number} => {{{body}}}", frozenset({number})))
        found.append(Piece(f"\n_ => {{{source[opening : last - 1]}}}\n}}", frozenset(numbers)))
        done = last - 1
    return [*found, Piece(source[done:], frozenset())]


_ASKS = """
static PLANTED: ::std::sync::OnceLock<u32> = ::std::sync::OnceLock::new();
match *PLANTED.get_or_init(|| ::std::fs::read_to_string("{chosen}").map_or(0, |text| text.parse().unwrap_or(0))) {{"""


def _places(lines: Sequence[int], span: Mapping[str, Mapping[str, int]]) -> tuple[int, int]:
    """Where a span begins and ends in its source."""
    return tuple(lines[at["line"] - 1] + at["column"] - 1 for at in (span["start"], span["end"]))  # type: ignore[return-value]


def unbuilt(pieces: Sequence[Piece], first: int, last: int) -> frozenset[int]:
    """The mutants that have to do with some lines of a planted source."""
    found: set[int] = set()
    line = 1
    for piece in pieces:
        after = line + piece.text.count("\n")
        if line <= last and first <= after:
            found |= piece.mutants
        line = after
    return frozenset(found)
