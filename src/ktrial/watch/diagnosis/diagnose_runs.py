# SPDX-License-Identifier: Apache-2.0
"""Writes recordings as runs in a tidy CSV that `ktrial compare` reads: figures of the whole and of each phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from ktrial.compare.files import write_file
from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Measurement, Outcome
from ktrial.recordings.figures import PHASES, WATCH_OUTCOMES, watch_figures
from ktrial.recordings.frames.statistics import BELOW_FPS, LeftOut
from ktrial.recordings.model import Recording, phases_of
from ktrial.results.exporters import csv as runs_csv
from ktrial.results.model import SessionRuns, StoredMeasurement, StoredRun, StoredSession

BENCHMARK = "watch"


class RunLimits(msgspec.Struct, frozen=True):
    """The limit for late frames, and the frame rate below which frames are slow; None for the defaults."""

    late_s: float | None = None
    below_fps: float | None = None


def write_runs(
    file: Path, recordings: Sequence[Recording], label: str, limits: RunLimits, say: Callable[[str], None]
) -> None:
    """Write recordings to a CSV file, as runs that `ktrial compare` reads.

    Raise BadInput if there are no figures, KtrialError if the file cannot be written.
    """
    table, left_out = runs_table(recordings, label, limits)
    write_file(file, table)
    for why in left_out:
        say(f"not in {file}: {why}")
    say(f"written: {file}; `ktrial compare A B` compares two of these files")


def runs_table(recordings: Sequence[Recording], label: str, limits: RunLimits) -> tuple[bytes, tuple[str, ...]]:
    """Return the CSV, and each missing figure with the reason. Raise BadInput if a recording has no figures."""
    outcomes = {one.name: one for one in WATCH_OUTCOMES}
    runs, left_out = [], []
    for number, recording in enumerate(recordings, 1):
        measurements, missing = _figures(recording, limits)
        if not measurements:
            raise BadInput(
                f"the recording has no comparable figures ({'; '.join(_why(missing))})",
                file=recording.name,
                hint="record for longer with `ktrial watch`",
            )
        left_out += [f"{recording.name}: {why}" for why in _why(missing)]
        runs.append(_run(recording, number, label, [(one, outcomes[one.outcome]) for one in measurements]))
    session = StoredSession(
        session=label,
        suite=BENCHMARK,
        label=label,
        origin="recordings",
        kernel_release=None,
        boot_id=None,
        started_unix_ms=runs[0].started_unix_ms,
        runs={},
        document={},
    )
    return runs_csv.write([SessionRuns(session=session, runs=tuple(runs))]).data, tuple(left_out)


def _figures(recording: Recording, limits: RunLimits) -> tuple[list[Measurement], list[LeftOut]]:
    figures_of = partial(watch_figures, recording, limit_s=limits.late_s, below_fps=limits.below_fps or BELOW_FPS)
    found = [figures_of()]
    phases = phases_of(recording).phases
    for name, prefix in PHASES.items():
        spans = [(one.begin_s, one.end_s) for one in phases if one.name == name]
        if spans:
            found.append(figures_of(spans, prefix=prefix))
    return [one for figures in found for one in figures.measurements], list(found[0].left_out)


def _why(left_out: Sequence[LeftOut]) -> list[str]:
    return [f"{one.outcome}: {one.why}" for one in left_out]


def _run(recording: Recording, number: int, label: str, found: Sequence[tuple[Measurement, Outcome]]) -> StoredRun:
    return StoredRun(
        session=label,
        number=number,
        benchmark=BENCHMARK,
        state="ok",
        warm_up=False,
        started_unix_ms=round(1e3 * (recording.unix_at_zero_s or 0.0)),
        measurements=tuple(
            StoredMeasurement(
                outcome=one.outcome,
                value=one.value,
                unit=outcome.unit,
                direction=outcome.direction,
                original=one.original,
            )
            for one, outcome in found
        ),
        raw={},
        document={"round": number},
    )
