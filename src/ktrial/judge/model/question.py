# SPDX-License-Identifier: Apache-2.0
"""What is asked of data that nobody collected in random blocks: one outcome, several arms, one control."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktrial.judge.model.comparison import Anova, Contrast, Pairwise, Role
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One value with what is known of its run; null where nothing tells.

    `place` is the run's place in the order of all runs. `block` is what it shares with runs of other arms (a round, a
    host). `boot` and `machine` say what was re-randomised between runs. `covariate` is a number that may explain the
    value (the temperature at the start).
    """

    value: float
    place: int | None = None
    block: str | None = None
    boot: str | None = None
    machine: str | None = None
    covariate: float | None = None


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome in all arms. `margin` is relative: 0.02 is 2 %. `resolution` is the step of its tool, if known.

    `tiers` are arms that build on each other: each is also asked about against the one before it. `pooled` asks every
    machine by itself, and all together. `explored` says why it is not judged even where nothing else was named.
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
        """Each tier with the one before it; that of the first one is the control."""
        return tuple(zip(self.tiers, (self.control, *self.tiers), strict=False))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the data say to one question, in numbers; the contrasts have no sentences yet. `steps` are of the tiers."""

    name: str
    contrasts: tuple[Contrast, ...]
    anova: tuple[Anova, ...]
    pairwise: tuple[Pairwise, ...]
    findings: tuple[Finding, ...]
    steps: tuple[Contrast, ...] = ()
