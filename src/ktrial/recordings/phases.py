# SPDX-License-Identifier: Apache-2.0
"""The phases of work that a recording tells."""

from __future__ import annotations

import numpy as np

from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.phases import Phases, find_phases
from ktrial.recordings.model import Recording, Series, is_telling, rates


def phases_of(recording: Recording) -> Phases:
    """The phases that rates of reclaim, allocation and faults tell."""
    told = [(name, *rate_of(series)) for name, series in recording.series.items() if is_telling(name)]
    return find_phases(told, recording.begin_s, recording.end_s)


def rate_of(series: Series) -> tuple[Array, Array]:
    """Moments and what a sign looks at: the value of a gauge, else the growth a second up to each moment."""
    values = series.values if series.kind == "gauge" else rates(series)
    return np.asarray(series.times_s), np.asarray(values)
