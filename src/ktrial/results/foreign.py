# SPDX-License-Identifier: Apache-2.0
"""Results of other tools as importers return them, and names for what foreign files leave unnamed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from ktrial.bench.record import RunRecord
from ktrial.judge.model.query import ImportOptions
from ktrial.results.model import StoredMeasurement


def stem(name: str) -> str:
    """Return a file's name without folder and extension."""
    base = name.rsplit("/", 1)[-1]
    return base.rsplit(".", 1)[0] or base


def slug(text: str) -> str:
    """Turn any text into a benchmark's name: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"


class ForeignRun(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a benchmark. Comparisons are between runs of different groups.

    `block` names a round that runs of several groups share. `part_of` names the process of the run; values of one
    process depend on each other. `number` is the place in the file, from 1, and gives the order of the runs unless
    `in_order` is false. `attributes` holds the file's other facts as text (command, host, kernel, parameters).
    `failure` says why there is no measurement. `record` is the full record of a ktrial run.
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
    """The contents of a file.

    `notes` says what the format lacks (order, single runs, units) or what the importer skipped. `missing` holds, for
    each group, the benchmarks that could not run, with reasons.
    """

    format: str
    runs: tuple[ForeignRun, ...]
    notes: tuple[str, ...] = ()
    missing: Mapping[str, Mapping[str, str]] = {}


class Importer(msgspec.Struct, frozen=True, kw_only=True):
    """A format: `sniff` recognises it by a file's first bytes and name, `read` reads the file.

    `read` raises BadInput or BadRun. `takes_columns` allows the options for tables, `takes_frames` the options for
    logs of frames.
    """

    name: str
    what: str
    sniff: Callable[[bytes, str], bool]
    read: Callable[[bytes, str, ImportOptions], ForeignResults]
    takes_columns: bool = False
    takes_frames: bool = False


class BroughtSession(msgspec.Struct, frozen=True, kw_only=True):
    """The session made from one group of a file; `failed` counts the runs without a measurement."""

    session: str
    label: str
    benchmarks: tuple[str, ...]
    runs: int
    failed: int
    measurements: int


class BroughtFile(msgspec.Struct, frozen=True, kw_only=True):
    """An imported file with its sessions."""

    file: str
    format: str
    sha256: str
    sessions: tuple[BroughtSession, ...]
    notes: tuple[str, ...]
