# SPDX-License-Identifier: Apache-2.0
"""One outcome over time, `ktrial.history/1`: a value for each session, and where its level changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.judge.model.verdict import Effect
from ktrial.kit.outcome import Direction, Unit


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One value: the median of the good runs of a session, or of all sessions of one `name` (a kernel).

    `known` is what is known of all of them alike.
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
    """What is another one after the change than before it; null where it was not known."""

    name: str
    before: str | None
    after: str | None


class LevelChange(msgspec.Struct, frozen=True, kw_only=True):
    """The level changed before the moment at `place` (from 1). `effect` is of the level after against that before.

    Its interval does not count that the place was looked for. `p` is that of the check by random orders.
    """

    place: int
    name: str
    before: int
    after: int
    p: float
    effect: Effect
    differs: tuple[Differs, ...]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome over time. `needed` moments at least are looked at for changes."""

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
