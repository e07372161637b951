# SPDX-License-Identifier: Apache-2.0
"""Goals: what a machine is to be good at, where candidates for it come from, and what tells whether they help."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from ktrial.tuning.knobs.knob import Evidence, Risk


class Measure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What tells values of knobs apart: the first measure with a pattern of the knob's id."""

    knobs: tuple[str, ...]
    suite: str
    primary: str


class GoalSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting that is worth a try though no profile holds it."""

    knob: str
    value: Any
    why: str


class Goal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`goals/<name>.toml`. Candidates are its own, and settings of its profiles as far as a measure is for them."""

    name: str
    what: str
    measure: tuple[Measure, ...]
    profiles: tuple[str, ...] = ()
    candidate: tuple[GoalSetting, ...] = ()

    def measure_of(self, knob: str) -> Measure | None:
        """Return what tells values of the knob apart for this goal; None if it has no bearing on it."""
        return next((one for one in self.measure if any(fnmatchcase(knob, pattern) for pattern in one.knobs)), None)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A knob that could be set otherwise on this machine: all its instances that would change, with the same value.

    `sources` are the profiles or the goal that propose it. `settings` are address -> value, `now` what is in force.
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
