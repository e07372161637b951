# SPDX-License-Identifier: Apache-2.0
"""Results that another tool recorded, as importers hand them over."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktrial.domain.benchmark import Direction, Unit


class ForeignMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """One number: `value` in the base unit, `original` as the file has it. `direction` is None where no file tells."""

    outcome: str
    value: float
    unit: Unit
    direction: Direction | None
    original: str


class ForeignRun(msgspec.Struct, frozen=True, kw_only=True):
    """One execution. `group` is what it is compared by; `block` the round that it shares with runs of other groups.

    `number` is its place in the file, from 1: the only order that is known. `attributes` are what else the file says of
    it, as text (command, host, kernel, parameters). `failure` says why it gave no measurement.
    """

    group: str
    benchmark: str
    number: int
    measurements: tuple[ForeignMeasurement, ...]
    block: str | None = None
    attributes: Mapping[str, str] = {}
    failure: str | None = None


class ForeignResults(msgspec.Struct, frozen=True, kw_only=True):
    """All of one file. `notes` say what the format cannot tell (order, single runs, units) or what was left out."""

    format: str
    runs: tuple[ForeignRun, ...]
    notes: tuple[str, ...] = ()
