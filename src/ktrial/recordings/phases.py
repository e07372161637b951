# SPDX-License-Identifier: Apache-2.0
"""The phases of work that a recording tells."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ktrial.bench.around.recording import TELLING
from ktrial.judge.stats.phases import Phases, find_phases
from ktrial.recordings.model import Recording
from ktrial.watch.diagnosis.causes import rate_of


def phases_of(recording: Recording) -> Phases:
    """The phases that rates of reclaim, allocation and faults tell."""
    told = [(name, *rate_of(series)) for name, series in recording.series.items() if is_telling(name)]
    return find_phases(told, recording.begin_s, recording.end_s)


def is_telling(name: str) -> bool:
    """Whether the series of that name tells phases."""
    return any(fnmatchcase(name, pattern) for pattern in TELLING)
