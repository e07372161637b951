# SPDX-License-Identifier: Apache-2.0
"""Simulated recordings: a machine's own activity, and stutters with or without a planted cause."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from ktrial.recordings.model import Event, Frames, Recording, Series, Source

Array = npt.NDArray[np.float64]
LENGTH_S = 300.0
FRAME_S = 1 / 30
#: Kinds of background events: number per minute, and duration.
BACKGROUND: Mapping[str, tuple[float, float]] = {
    "direct-reclaim": (2, 0.004),
    "compaction": (2, 0.003),
    "block-io": (6, 0.012),
    "run-delay": (8, 0.004),
    "dirty-pause": (1, 0.02),
    "kswapd": (1, 0.1),
    "softirq": (3, 0.002),
}
#: Series that wander: the usual value, and the value during a planted cause.
LEVELS: Mapping[str, tuple[float, float]] = {
    "vmstat.pswpin": (0.0, 4000.0),
    "vmstat.allocstall_normal": (0.0, 50.0),
    "cpu.steal": (0.01, 0.4),
    "frequency.policy0": (4.0e9, 1.2e9),
    "gpu.card0.busy": (0.8, 0.1),
    "trace.tlb-shootdown.count": (50.0, 5000.0),
    "vmstat.workingset_refault_file": (0.0, 9000.0),
    "vmstat.thp_split_page": (0.0, 20.0),
}


def recording(
    seed: int, cause: str | None, *, stutters: int = 30, shuffled: bool = False, share: float = 1.0
) -> Recording:
    """Return five minutes at 30 frames per second; a share of the stutters comes with the cause.

    `cause` is a kind of event or the name of a series. With `shuffled` the cause occurs as often, but at other times.
    """
    generator = np.random.default_rng(seed)
    at = np.sort(generator.choice(np.arange(5.0, LENGTH_S - 5, 0.5), size=stutters, replace=False))
    planted = (
        at[generator.random(stutters) < share]
        if not shuffled
        else np.sort(generator.uniform(5, LENGTH_S - 5, size=stutters))
    )
    events = _background(generator)
    if cause is not None and cause in BACKGROUND:
        took_s = BACKGROUND[cause][1] * 3
        events += [_event(cause, float(begin_s), took_s) for begin_s in planted]
    series = {name: _level(generator, name, planted if name == cause else ()) for name in LEVELS}
    series["vmstat.pgscan_kswapd"] = _level(generator, "vmstat.pgscan_kswapd", ())
    return Recording(
        name="simulated",
        begin_s=0.0,
        end_s=LENGTH_S,
        sources=(
            *(Source(name=f"trace.{kind}", state="active") for kind in BACKGROUND),
            Source(name="samples", state="active"),
            Source(name="frames", state="active"),
        ),
        series=series,
        events=tuple(sorted(events, key=lambda event: event.begin_s)),
        frames=frames_with(generator, at),
    )


def frames_with(generator: np.random.Generator, at: Array) -> Frames:
    """Return even frames, except that none ends within 60 to 200 ms after each of these moments."""
    ends = np.cumsum(generator.normal(FRAME_S, 0.0004, size=int(LENGTH_S / FRAME_S)))
    kept = np.ones(len(ends), dtype=bool)
    for begin_s, took_s in zip(at, generator.uniform(0.06, 0.2, size=len(at)), strict=True):
        kept &= (ends < begin_s) | (ends > begin_s + took_s)
    ends = ends[kept]
    return Frames(
        kind="frame",
        source="frames",
        ends_s=array("d", ends),
        durations_s=array("d", np.diff(ends, prepend=ends[0] - FRAME_S)),
    )


def _background(generator: np.random.Generator) -> list[Event]:
    found = []
    for kind, (per_minute, took_s) in BACKGROUND.items():
        count = generator.poisson(per_minute * LENGTH_S / 60)
        begins = generator.uniform(0, LENGTH_S, size=count)
        found += [_event(kind, float(begin_s), took_s * float(generator.exponential())) for begin_s in begins]
    return found


def _event(kind: str, begin_s: float, took_s: float) -> Event:
    return Event(
        kind=kind, source=f"trace.{kind}", begin_s=begin_s, duration_s=took_s, pid=7, thread="Main Thread", cpu=0
    )


def _level(generator: np.random.Generator, name: str, planted: Sequence[float] | Array) -> Series:
    """Return ten samples per second: the usual value with noise, and the planted value for half a second at times."""
    times = np.arange(0, LENGTH_S, 0.1)
    usual, other = LEVELS.get(name, (3000.0, 20000.0))
    values = usual * (1 + 0.05 * generator.standard_normal(len(times)))
    strays = generator.choice(len(times) - 5, size=12, replace=False)
    for place in [*strays, *(int(float(at) * 10) for at in planted)]:
        values[place : place + 4] = other
    return Series(
        name=name,
        source="samples",
        unit="1",
        kind="gauge",
        times_s=array("d", times),
        values=array("d", values),
    )
