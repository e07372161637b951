# SPDX-License-Identifier: Apache-2.0
"""A question about observational data (not collected in random blocks): one outcome, several arms, one control."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktrial.judge.model.comparison import Anova, Contrast, Pairwise, Role
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One value with facts about its run; unknown facts are null.

    `place` is the run's place in the order of all runs. `block` is what the run shares with runs of other arms (a
    round, a host). `boot` and `machine` show what was repeated between runs. `covariate` is a number that may explain
    the value, such as the temperature at the start.
    """

    value: float
    place: int | None = None
    block: str | None = None
    boot: str | None = None
    machine: str | None = None
    covariate: float | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome in all arms.

    `margin` is relative (0.02 is 2 %), `resolution` the smallest step in which the tool reports values, if known.
    `tiers` are arms that build on each other; each tier is also compared with the tier before it. `pooled` compares on
    each machine and over all machines together. `explored` says why the outcome is exploratory even if no outcome is
    primary.
    """

    name: str
    direction: Direction | None
    arms: Mapping[str, tuple[Observation, ...]]
    control: str
    margin: float
    role: Role = "exploratory"
    resolution: float | None = None
    tiers: tuple[str, ...] = ()
    pooled: bool = False
    explored: str | None = None

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """Return each tier with the tier before it, the first tier with the control."""
        return tuple(zip(self.tiers, (self.control, *self.tiers), strict=False))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one question in numbers, without sentences. `steps` compare each tier with the tier before."""

    name: str
    contrasts: tuple[Contrast, ...]
    anova: tuple[Anova, ...]
    pairwise: tuple[Pairwise, ...]
    findings: tuple[Finding, ...]
    steps: tuple[Contrast, ...] = ()
