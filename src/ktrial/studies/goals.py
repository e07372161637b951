# SPDX-License-Identifier: Apache-2.0
"""Goals: what a machine should be good at, the settings that may help, and how to measure their effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from ktrial.kit.errors import BadInput, KtrialError, UnknownName
from ktrial.kit.toml_files import BUILT_IN, read_listed
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.address import parse_address
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.knob import Evidence, Risk
from ktrial.tuning.knobs.value import kernel_text


class Measure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to measure the values of the knobs whose name matches a pattern in `knobs`.

    If several measures of a goal match a knob, the first of them applies.
    """

    knobs: tuple[str, ...]
    suite: str
    primary: str


class GoalSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting that is worth a try although no profile contains it."""

    knob: str
    value: Any
    why: str


class Goal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A goal, `goals/<name>.toml`.

    A goal proposes the settings in `candidate` and in its `profiles`, if a measure covers their knobs.
    """

    name: str
    what: str
    measure: tuple[Measure, ...]
    profiles: tuple[str, ...] = ()
    candidate: tuple[GoalSetting, ...] = ()

    def measure_of(self, knob: str) -> Measure | None:
        """Return the measure for a knob; None if the knob is irrelevant to this goal."""
        return next((one for one in self.measure if any(fnmatchcase(knob, pattern) for pattern in one.knobs)), None)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A knob that could be changed on this machine: all its instances that would change get the same value.

    `sources` are the profiles or the goal that propose it. `settings` maps addresses to new values, `now` to current
    ones.
    """

    knob: str
    settings: Mapping[str, str]
    now: Mapping[str, str | None]
    measure: Measure
    goal: str
    sources: tuple[str, ...]
    why: tuple[str, ...]
    price: str
    risk: Risk
    evidence: tuple[Evidence, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(f"{address}={value}" for address, value in self.settings.items())

    @property
    def try_line(self) -> tuple[str, ...]:
        return ("ktrial", "try", *self.words, "--suite", self.measure.suite, "--primary", self.measure.primary)


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
                raise BadInput(f"a goal named {goal.name} already exists", file=str(path), hint="rename this goal")
            goals[goal.name] = goal
    return goals


def _check(goal: Goal, catalog: Catalog, measurable: tuple[str, ...]) -> None:
    if not goal.measure:
        raise BadInput(f"the goal {goal.name} has no [[measure]]", hint="add a [[measure]] for the knobs of the goal")
    for name in goal.profiles:
        if name not in catalog.profiles:
            raise UnknownName("profile", name, catalog.profiles, hint="run `ktrial profiles` to list all profiles")
    for measure in goal.measure:
        if measure.suite not in measurable:
            raise UnknownName(
                "suite or benchmark", measure.suite, measurable, hint="use a name that `ktrial bench --list` lists"
            )
        for pattern in measure.knobs:
            if not any(fnmatchcase(knob, pattern) for knob in catalog.knobs):
                raise BadInput(f"no knob matches {pattern!r}", hint="run `ktrial knobs` to list all knobs")
    for one in goal.candidate:
        knob = find_knob(one.knob, catalog.knobs)
        kernel_text(knob, one.value)
        if goal.measure_of(parse_address(one.knob).knob) is None:
            raise BadInput(f"no [[measure]] of {goal.name} covers {one.knob}", hint="add the knob to a [[measure]]")
