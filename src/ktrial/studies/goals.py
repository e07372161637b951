# SPDX-License-Identifier: Apache-2.0
"""Goals: what a machine should be good at, where candidate settings come from, and how to measure whether they help."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from ktrial.tuning.knobs.knob import Evidence, Risk


class Measure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to measure values of knobs. The first measure with a pattern that matches a knob's id applies to it."""

    knobs: tuple[str, ...]
    suite: str
    primary: str


class GoalSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting that is worth a try although no profile contains it."""

    knob: str
    value: Any
    why: str


class Goal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A goal, `goals/<name>.toml`. Candidates are its own and those settings of its profiles that a measure covers."""

    name: str
    what: str
    measure: tuple[Measure, ...]
    profiles: tuple[str, ...] = ()
    candidate: tuple[GoalSetting, ...] = ()

    def measure_of(self, knob: str) -> Measure | None:
        """Return the measure for a knob; None if the knob is irrelevant to this goal."""
        return next((one for one in self.measure if any(fnmatchcase(knob, pattern) for pattern in one.knobs)), None)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A knob that could be changed on this machine, with all instances that would change, to the same value.

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
