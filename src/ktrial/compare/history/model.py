# SPDX-License-Identifier: Apache-2.0
"""One outcome over time, `ktrial.history/1`: a value for each session, and where its level changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.judge.model.verdict import Effect
from ktrial.kit.outcome import Direction, Unit


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One value: the median of the good runs of a session, or of all sessions with the kernel `name`.

    `known` holds the properties that all these runs share.
    """

    name: str
    sessions: tuple[str, ...]
    started_unix_ms: int
    runs: int
    median: float
    minimum: float
    maximum: float
    known: Mapping[str, str]


class Differs(msgspec.Struct, frozen=True, kw_only=True):
    """A property that differs before and after a change; an unknown value is None."""

    name: str
    before: str | None
    after: str | None


class LevelChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of level before the moment at `place` (from 1).

    `effect` compares the level after the change with the level before. Its interval ignores that ktrial chose the place
    from the same data. `p` comes from the permutation test.
    """

    place: int
    name: str
    before: int
    after: int
    p: float
    effect: Effect
    differs: tuple[Differs, ...]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome over time. ktrial looks for changes if there are at least `needed` moments."""

    schema: Literal["ktrial.history/1"] = "ktrial.history/1"
    outcome: str
    unit: Unit
    direction: Direction | None
    label: str | None
    by: Literal["session", "kernel"]
    moments: tuple[Moment, ...]
    changes: tuple[LevelChange, ...]
    needed: int
    notes: tuple[str, ...] = ()
