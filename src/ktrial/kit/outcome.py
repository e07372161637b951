# SPDX-License-Identifier: Apache-2.0
"""Outcomes: the quantities that a run measures, their units, and which direction is better."""

from __future__ import annotations

from typing import Literal

import msgspec

Unit = Literal["s", "1/s", "B/s", "B", "count", "score", "ratio", "J", "W"]
Direction = Literal["lower", "higher"]
OutcomeKind = Literal["time", "rate", "latency-quantile", "count", "size", "score", "energy", "power"]
#: Prefix of the failure of a run whose tool reports that it did something other than requested.
ANOTHER = "something else was measured"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity that a benchmark measures; `unit` is the base unit in which its values are stored.

    `direction` says whether lower or higher is better. The tool cannot distinguish values closer than `resolution`. A
    value outside `low` to `high` is a measurement error. `resolution`, `low` and `high` are in the base unit.
    `better`, `worse` and `blind_spots` are plain sentences for reports.
    """

    name: str
    unit: Unit
    direction: Direction
    kind: OutcomeKind
    low: float
    high: float
    better: str
    worse: str
    blind_spots: str
    resolution: float | None = None
    headline: bool = False


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """A number of a run: `value` in the outcome's base unit, `original` as the tool printed it, with its unit."""

    outcome: str
    value: float
    original: str
