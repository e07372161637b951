# SPDX-License-Identifier: Apache-2.0
"""Runs as a comparison sees them, wherever they come from: numbers, order, and what else is known of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from ktrial.judge.model.comparison import ArmSource
from ktrial.kit.moment import LOCAL, WALL
from ktrial.machine.gates import Reading
from ktrial.results.model import StoredMeasurement

#: How the clocks begin that are no clocks but the order of a file, which may be sorted by anything.
FILE = "file "
#: Readings that a report shows over time; the temperature at the start has its own place.
SHOWN_READINGS = (
    "frequency_hz",
    "steal_share",
    "throttled_share",
    "kernel_warnings",
    "pressure_cpu_share",
    "pressure_memory_share",
    "pressure_io_share",
    "load",
    "battery_percent",
)


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run that was made to count. `name` is how `ktrial show` calls it, or its file and number.

    `part_of` is what it shares with runs that depend on it (a process). `clocks` gives its moment by the clock that
    told it: only runs of one clock have an order. `session` is the one of the store, `trial_arm` the arm of the trial
    that it was made for. `by_host_name` says that only a host name tells its machine: two of them can be one machine,
    and one can be two. `events` are how many events each outcome rests on, where that is known. `known` is what is
    known of its tool and machine, by the keys of `comparability`; `other` is what a foreign file says besides.
    """

    name: str
    benchmark: str
    measurements: tuple[StoredMeasurement, ...]
    part_of: str | None = None
    failure: str | None = None
    void: bool = False
    clocks: Mapping[str, float] = {}
    tool: str | None = None
    block: str | None = None
    boot: str | None = None
    session: str | None = None
    trial_arm: str | None = None
    machine: str | None = None
    by_host_name: bool = False
    known: Mapping[str, str] = {}
    other: Mapping[str, str] = {}
    readings: Mapping[str, Reading] = {}
    events: Mapping[str, int] = {}

    @property
    def counts(self) -> bool:
        return self.failure is None and not self.void

    @property
    def temperature_c(self) -> float | None:
        found = self.readings.get("temperature_c")
        return float(found) if isinstance(found, int | float) else None

    @property
    def conditions(self) -> dict[str, float]:
        """Numbers by the names of readings that a report shows beside the run's values, as far as they are known."""
        found = {name: self.readings.get(name) for name in SHOWN_READINGS}
        return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one arm. `states` are documents of its machine's tunable state, the newest first.

    `missing` are benchmarks that were wanted and could not run, and why.
    """

    name: str
    sources: tuple[str, ...]
    runs: tuple[ComparedRun, ...]
    states: tuple[bytes, ...] = ()
    missing: Mapping[str, str] = {}

    @property
    def good(self) -> tuple[ComparedRun, ...]:
        return tuple(run for run in self.runs if run.counts)

    def values_of(self, key: str, benchmark: str | None = None) -> tuple[str, ...]:
        """Return what is known of its runs under a key, each once."""
        runs = (run for run in self.runs if benchmark is None or run.benchmark == benchmark)
        return tuple(sorted({run.known[key] for run in runs if key in run.known}))


def source_of(arm: Arm) -> ArmSource:
    """Return where an arm comes from; a number of boots or machines is null when it is not known of every run."""
    boots = {run.boot for run in arm.runs}
    machines = {run.machine for run in arm.runs}
    names = sorted({key for run in arm.runs for key in run.known})
    return ArmSource(
        arm=arm.name,
        sources=arm.sources,
        runs=len(arm.good),
        failed=sum(run.failure is not None for run in arm.runs),
        void=sum(run.void for run in arm.runs),
        boots=None if None in boots or not boots else len(boots),
        machines=None if None in machines or not machines else len(machines),
        known={key: " and ".join(values) for key in names if (values := arm.values_of(key)) and len(values) <= 3},
        missing={**arm.missing, **_without_value(arm)},
    )


def _without_value(arm: Arm) -> dict[str, str]:
    """Return benchmarks of which no run is good, and why."""
    good = {run.benchmark for run in arm.good}
    lost: dict[str, list[ComparedRun]] = {}
    for run in arm.runs:
        if run.benchmark not in good:
            lost.setdefault(run.benchmark, []).append(run)
    return {benchmark: _lost(runs) for benchmark, runs in lost.items()}


def _lost(runs: Sequence[ComparedRun]) -> str:
    failed = [run.failure for run in runs if run.failure is not None]
    if not failed:
        return f"void: runs {len(runs)}/{len(runs)}"
    return f"failed: runs {len(failed)}/{len(runs)}, the last: {failed[-1]}"


def places(arms: Sequence[Arm]) -> dict[str, int]:
    """Run -> its place in the order of all runs, from 1; nothing if no clock has seen them all.

    What a clock shows alike has the order of its file; runs of two arms that nothing else tells apart have none. Rows
    of a file in which arms alternate, or that lie sorted by an outcome, are no order without blocks: somebody may have
    sorted them.
    """
    from ktrial.judge.stats.stretches import lie_sorted  # numpy

    runs = [(arm.name, run) for arm in arms for run in arm.runs]
    shared = set.intersection(*(set(run.clocks) for _, run in runs)) if runs else set()
    if not shared:
        return {}
    clock = min(shared, key=lambda name: (name.startswith(FILE), name in (WALL, LOCAL), name))
    ordered = sorted(runs, key=lambda one: (one[1].clocks[clock], *_in_file(one[1])))
    if clock.startswith(FILE) and any(run.block is None for _, run in runs):
        alternates = _alternate([name for name, _ in ordered])
        if alternates or any(lie_sorted(series) for series in _by_outcome(ordered)):
            return {}
    alike = (
        one[1].clocks[clock] == other[1].clocks[clock] and _in_file(one[1])[0] != _in_file(other[1])[0]
        for one, other in pairwise(ordered)
        if one[0] != other[0]
    )
    return {} if any(alike) else {run.name: place for place, (_, run) in enumerate(ordered, 1)}


def _by_outcome(ordered: Sequence[tuple[str, ComparedRun]]) -> Iterable[Sequence[Sequence[float]]]:
    """Return the values of each outcome, those of each arm and benchmark for themselves."""
    found: dict[str, dict[tuple[str, str], list[float]]] = {}
    for arm, run in ordered:
        for one in run.measurements:
            found.setdefault(one.outcome, {}).setdefault((arm, run.benchmark), []).append(one.value)
    return (list(series.values()) for series in found.values())


def _alternate(arms: Sequence[str]) -> bool:
    """Return whether an arm comes again after another one."""
    return sum(one != other for one, other in pairwise(arms)) >= len(set(arms))


def _in_file(run: ComparedRun) -> tuple[str, float]:
    return next(((name, place) for name, place in run.clocks.items() if name.startswith(FILE)), ("", 0.0))
