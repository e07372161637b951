# SPDX-License-Identifier: Apache-2.0
"""Results that another tool recorded, as importers hand them over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ktrial.bench.benchmark import Direction, Unit
from ktrial.bench.record import RunRecord


class ForeignMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """One number: `value` in the base unit, `original` as the file has it. `direction` is None where no file tells."""

    outcome: str
    value: float
    unit: Unit
    direction: Direction | None
    original: str


class ForeignRun(msgspec.Struct, frozen=True, kw_only=True):
    """One execution. `group` is what it is compared by; `block` the round that it shares with runs of other groups.

    `part_of` is what it shares with runs of its group that depend on it: they are values of one process.

    `number` is its place in the file, from 1: the only order that is known. `attributes` are what else the file says of
    it, as text (command, host, kernel, parameters). `failure` says why it gave no measurement. `record` is all that is
    known of a run of ktrial's own.
    """

    group: str
    benchmark: str
    number: int
    measurements: tuple[ForeignMeasurement, ...]
    block: str | None = None
    part_of: str | None = None
    attributes: Mapping[str, str] = {}
    failure: str | None = None
    record: RunRecord | None = None


class ForeignResults(msgspec.Struct, frozen=True, kw_only=True):
    """All of one file. `notes` say what the format cannot tell (order, single runs, units) or what was left out.

    `missing` are benchmarks that were wanted and could not run, of each group, and why.
    """

    format: str
    runs: tuple[ForeignRun, ...]
    notes: tuple[str, ...] = ()
    missing: Mapping[str, Mapping[str, str]] = {}


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says of a file.

    `below_fps` applies to logs of frames, all others but `label` to tables: columns by name, and what the file lacks.
    What is newer than the digests of published questions is absent unless it was given, so that they still fit.
    """

    label: str | None = None
    values: tuple[str, ...] = ()
    where: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    by: str | None = None
    block: str | None = None
    benchmark: str | None = None
    unit: str | None = None
    direction: Direction | None = None
    below_fps: float | msgspec.UnsetType = msgspec.UNSET

    @staticmethod
    def given(options: Mapping[str, Any]) -> ImportOptions:
        """Options by name, None where one was not given."""
        return ImportOptions(**{name: value for name, value in options.items() if value not in (None, ())})

    @property
    def of_frames(self) -> tuple[str, ...]:
        """The options of logs of frames that were given, likewise."""
        return () if self.below_fps is msgspec.UNSET else ("--below-fps",)

    @property
    def of_tables(self) -> tuple[str, ...]:
        """The options of tables that were given, as they are spelled on the command line."""
        given = {
            "--value": self.values,
            "--where": self.where,
            "--by": self.by,
            "--block": self.block,
            "--benchmark": self.benchmark,
            "--unit": self.unit,
            "--direction": self.direction,
        }
        return tuple(name for name, value in given.items() if value)


class Importer(msgspec.Struct, frozen=True, kw_only=True):
    """One format: `sniff` tells it from the first bytes and the name of a file, `read` reads the whole of it.

    `read` raises BadInput or BadRun. Only a format that `takes_columns` has the options of tables, and one
    that `takes_frames` those of logs of frames.
    """

    name: str
    what: str
    sniff: Callable[[bytes, str], bool]
    read: Callable[[bytes, str, ImportOptions], ForeignResults]
    takes_columns: bool = False
    takes_frames: bool = False


class BroughtSession(msgspec.Struct, frozen=True, kw_only=True):
    """One group of a file. `runs` counts all, `failed` those without a measurement."""

    session: str
    label: str
    benchmarks: tuple[str, ...]
    runs: int
    failed: int
    measurements: int


class BroughtFile(msgspec.Struct, frozen=True, kw_only=True):
    """What one file came to."""

    file: str
    format: str
    sha256: str
    sessions: tuple[BroughtSession, ...]
    notes: tuple[str, ...]
