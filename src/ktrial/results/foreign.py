# SPDX-License-Identifier: Apache-2.0
"""Results that another tool recorded, as importers hand them over, and names for what foreign files do not name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from ktrial.bench.record import RunRecord
from ktrial.judge.model.query import ImportOptions
from ktrial.results.model import StoredMeasurement


def stem(name: str) -> str:
    """Return a file's name without its folder and its ending."""
    base = name.rsplit("/", 1)[-1]
    return base.rsplit(".", 1)[0] or base


def slug(text: str) -> str:
    """Return a benchmark's name out of any text: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"


class ForeignRun(msgspec.Struct, frozen=True, kw_only=True):
    """One execution. `group` is what it is compared by; `block` the round that it shares with runs of other groups.

    `part_of` is what it shares with runs of its group that depend on it: they are values of one process.

    `number` is its place in the file, from 1: the only order that is known, and where `in_order` is false not even one
    (groups that lie beside each other). `attributes` are what else the file says of it, as text (command, host, kernel,
    parameters). `failure` says why it gave no measurement. `record` is all that is known of a run of ktrial's own.
    """

    group: str
    benchmark: str
    number: int
    measurements: tuple[StoredMeasurement, ...]
    block: str | None = None
    part_of: str | None = None
    in_order: bool = True
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
