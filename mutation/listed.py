# SPDX-License-Identifier: Apache-2.0
"""The list of what is mutated, and by which tests: `functions.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from mutation.errors import CannotRun
from mutation.mutant import Mutant

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "mutation" / "functions.toml"
Side = Literal["agent", "head"]


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file, the functions of it that count (all where none is named), and the tests that concern it."""

    file: str
    functions: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    def named(self, mutants: Sequence[Mutant]) -> list[Mutant]:
        """Those of the functions that count. Raises CannotRun where one of them is not in the file."""
        if missing := sorted(set(self.functions) - {one.function for one in mutants}):
            raise CannotRun(f"{self.file} has no mutants in {', '.join(missing)}: correct mutation/functions.toml")
        return [one for one in mutants if not self.functions or one.function in self.functions]


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files with one bar for the share of mutants that must be caught."""

    name: str
    side: Side
    at_least: float
    files: tuple[Listed, ...]
    tests: tuple[str, ...] = ()
    #: Of the agent: what is run for those that the tests in Rust let live.
    then: tuple[str, ...] = ()

    def listed(self, file: str) -> Listed:
        return next(one for one in self.files if one.file == file)

    def tests_of(self, file: str) -> tuple[str, ...]:
        """The tests of a file of the group; its own come first, because the first failure ends the run."""
        return (*self.listed(file).tests, *self.tests)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    group: tuple[Group, ...]


def groups(side: Side, path: Path = LIST) -> tuple[Group, ...]:
    """The groups of one side."""
    found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File)
    return tuple(group for group in found.group if group.side == side)
