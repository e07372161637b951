# SPDX-License-Identifier: Apache-2.0
"""What a store keeps, as its readers see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.domain.benchmark import Direction, Unit

#: `running` has a writer that is alive; one whose writer is gone becomes `interrupted`.
RunState = Literal["running", "ok", "failed", "void", "interrupted"]


class StoredMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """One number; `direction` is None where an imported file does not tell it."""

    outcome: str
    value: float
    unit: Unit
    direction: Direction | None
    original: str


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of one command, or of one group of an imported file, have in common.

    `origin` is `bench`, `import:FORMAT` or `bundle`; `runs` counts them by state; `document` is the session of
    `ktrial.run/1`, or what an importer knew.
    """

    session: str
    suite: str
    label: str | None
    origin: str
    kernel_release: str | None
    boot_id: str | None
    started_unix_ms: int
    runs: Mapping[RunState, int]
    document: Mapping[str, Any]


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `document` is its record without its session; null while it runs and when its writer was killed."""

    session: str
    number: int
    benchmark: str
    state: RunState
    warm_up: bool
    started_unix_ms: int
    measurements: tuple[StoredMeasurement, ...]
    raw: Mapping[str, str]
    document: Mapping[str, Any] | None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome of one benchmark under one label, over all good runs that count."""

    benchmark: str
    outcome: str
    unit: Unit
    direction: Direction | None
    label: str | None
    n: int
    mean: float
    minimum: float
    maximum: float
