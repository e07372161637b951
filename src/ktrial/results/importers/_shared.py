# SPDX-License-Identifier: Apache-2.0
"""Helpers for importers: groups and labels, measurements, and recognising JSON from its beginning."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput
from ktrial.kit.formats.tool_output import Quantity
from ktrial.kit.outcome import Direction, Measurement, Unit
from ktrial.recordings.frames.statistics import (
    ONLY_SAMPLES,
    SAMPLED_FPS,
    SLOW_SAMPLES,
    FrameOutcome,
    FrameSamples,
    sampled_statistics,
)
from ktrial.results.foreign import ForeignResults, ForeignRun, stem
from ktrial.results.model import StoredMeasurement


def looks_like_json(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def has_keys(head: bytes, *keys: str) -> bool:
    """Return whether `head` begins like JSON and contains all of these keys, at any depth."""
    return looks_like_json(head) and all(re.search(rb'"%s"\s*:' % re.escape(key.encode()), head) for key in keys)


def has_schema(head: bytes, schema: str) -> bool:
    return looks_like_json(head) and re.search(rb'"schema"\s*:\s*"%s"' % re.escape(schema.encode()), head) is not None


def is_own_table(head: bytes) -> bool:
    """Return whether `head` begins with the header of ktrial's own tidy CSV."""
    return head.removeprefix(b"\xef\xbb\xbf").startswith(b"session,label,run,round,benchmark,outcome,value,")


def group_of(label: str | None, name: str) -> str:
    """Return the group of a file that names none: the user's label, or the file's name."""
    return label if label is not None else stem(name)


def measurement(outcome: str, found: Quantity, unit: Unit, direction: Direction | None) -> StoredMeasurement:
    return StoredMeasurement(
        outcome=outcome, value=found.value, unit=unit, direction=direction, original=found.original
    )


def labelled(runs: Sequence[ForeignRun], label: str | None, name: str) -> tuple[ForeignRun, ...]:
    """Return the runs of a file that names its groups. If the user gave a label, it replaces the group's name.

    Raise BadInput for a label if the file has several groups.
    """
    if label is None:
        return tuple(runs)
    groups = sorted({run.group for run in runs})
    if len(groups) > 1:
        raise BadInput(
            f"the {len(groups)} groups of the file cannot share one name: {', '.join(groups)}",
            file=name,
            hint="remove --label, or NAME= before the file in `compare` or `claim`",
        )
    return tuple(msgspec.structs.replace(run, group=label) for run in runs)


def framed(measured: Sequence[Measurement], outcomes: Sequence[FrameOutcome]) -> tuple[StoredMeasurement, ...]:
    """Return statistics of frames as measurements with the units and directions of `outcomes`."""
    known = {one.outcome.name: one.outcome for one in outcomes}
    return tuple(
        measurement(one.outcome, Quantity(one.value, one.original), about.unit, about.direction)
        for one in measured
        for about in (known[one.outcome],)
    )


def sampled_run(
    samples: FrameSamples, form: str, name: str, benchmark: str, options: ImportOptions, **attributes: str
) -> ForeignResults:
    """Return the single run of a log of samples, with notes, such as what a log of this kind lacks."""
    below_fps = None if options.below_fps is UNSET else options.below_fps
    version = {} if samples.version is None else {"tool_version": samples.version}
    rate = {} if below_fps is None else {"below_fps": f"{below_fps:g}"}
    whole = ForeignRun(
        group=group_of(options.label, name),
        benchmark=benchmark,
        number=1,
        measurements=framed(sampled_statistics(samples, below_fps), (SAMPLED_FPS, SLOW_SAMPLES)),
        attributes={**samples.attributes, **version, **attributes, "samples": str(len(samples.fps)), **rate},
    )
    notes = ("one file is one run: import several", ONLY_SAMPLES, *samples.notes)
    return ForeignResults(format=form, runs=(whole,), notes=notes)
