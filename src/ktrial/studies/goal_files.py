# SPDX-License-Identifier: Apache-2.0
"""Reads goals from `goals/*.toml` and checks that everything they name exists."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.kit.toml_files import BUILT_IN, read_listed
from ktrial.studies.goals import Goal
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.address import parse_address
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.value import kernel_text


def load_goals(folders: Iterable[Path], catalog: Catalog, measurable: Iterable[str]) -> dict[str, Goal]:
    """Return the built-in goals and those in each folder. `measurable` are the names of suites and benchmarks."""
    known = tuple(measurable)
    goals: dict[str, Goal] = {}
    for folder in (BUILT_IN, *folders):
        for path in sorted((folder / "goals").glob("*.toml")):
            goal = read_listed(path, Goal)
            try:
                _check(goal, catalog, known)
            except KtrialError as error:
                raise BadInput(error.message, file=str(path), hint=error.hint) from None
            if goal.name in goals:
                raise BadInput(f"a goal named {goal.name} already exists", file=str(path), hint="rename it")
            goals[goal.name] = goal
    return goals


def _check(goal: Goal, catalog: Catalog, measurable: tuple[str, ...]) -> None:
    if not goal.measure:
        raise BadInput(
            f"the goal {goal.name} has no [[measure]]", hint="add a [[measure]] that its candidates can improve"
        )
    for name in goal.profiles:
        if name not in catalog.profiles:
            raise UnknownName("profile", name, catalog.profiles, hint="`ktrial profiles` lists them")
    for measure in goal.measure:
        if measure.suite not in measurable:
            raise UnknownName("suite or benchmark", measure.suite, measurable, hint="`ktrial bench --list` lists them")
        for pattern in measure.knobs:
            if not any(fnmatchcase(knob, pattern) for knob in catalog.knobs):
                raise BadInput(f"no knob matches {pattern!r}", hint="`ktrial knobs` lists them")
    for one in goal.candidate:
        knob = find_knob(one.knob, catalog.knobs)
        kernel_text(knob, one.value)
        if goal.measure_of(parse_address(one.knob).knob) is None:
            raise BadInput(f"no [[measure]] of {goal.name} covers {one.knob}", hint="add the knob to one of them")
