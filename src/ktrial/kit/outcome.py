# SPDX-License-Identifier: Apache-2.0
"""What a run measures: an outcome, its unit, and which way is better."""

from __future__ import annotations

from typing import Literal

import msgspec

Unit = Literal["s", "1/s", "B/s", "B", "count", "score", "ratio", "J", "W"]


Direction = Literal["lower", "higher"]


OutcomeKind = Literal["time", "rate", "latency-quantile", "count", "size", "score", "energy", "power"]


#: How the failure of a run begins whose tool says that it did something else than it was asked for.
ANOTHER = "something else was measured"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity that a benchmark measures: `unit` is the base unit in which its values are kept.

    `direction` says which way is better. `resolution` is the step below which the tool cannot tell values apart, `low`
    and `high` the range outside of which a value is an error of measurement; all three are in the base unit.
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
    """One number of one run: `value` in the outcome's base unit, `original` as the tool printed it, with its unit."""

    outcome: str
    value: float
    original: str
