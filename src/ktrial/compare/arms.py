# SPDX-License-Identifier: Apache-2.0
"""Arms and their runs in the form that comparisons use, whether they come from the store or from files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from ktrial.judge.model.comparison import ArmSource
from ktrial.kit.moment import LOCAL, WALL
from ktrial.machine.gates import Reading
from ktrial.results.model import StoredMeasurement

#: Prefix of clocks that are only positions in a file; a file may be sorted by anything.
FILE = "file "
#: Readings that a report plots over time. The temperature at the start is stored separately.
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
    """One run that is not a warm-up. `name` is its name in `ktrial show`, or its file and number.

    Runs with the same `part_of` depend on each other, for example as values of one process. `clocks` maps each clock to
    the run's time on it; only runs that share a clock have an order. `session` is the session in the store, `trial_arm`
    the arm of the trial that made the run. With `by_host_name` only a host name identifies the machine: two names can
    stand for one machine, and one name for two machines. `events` counts the events behind each outcome, if known.
    `known` describes tool and machine under the keys of `comparability`; `other` holds a foreign file's other
    attributes.
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
        """Return the known numeric readings that a report shows beside the run's values, by name."""
        found = {name: self.readings.get(name) for name in SHOWN_READINGS}
        return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one arm. `states` has the newest document of its machine's tunable state, if there is any.

    `missing` maps each requested benchmark that could not run to the reason.
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
        runs = (run for run in self.runs if benchmark is None or run.benchmark == benchmark)
        return tuple(sorted({run.known[key] for run in runs if key in run.known}))


def source_of(arm: Arm) -> ArmSource:
    """Return the source of an arm.

    The number of boots is None if a run does not state its boot. The number of machines follows the same rule.
    """
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
    """Map each benchmark without a good run to the reason."""
    good = {run.benchmark for run in arm.good}
    lost: dict[str, list[ComparedRun]] = {}
    for run in arm.runs:
        if run.benchmark not in good:
            lost.setdefault(run.benchmark, []).append(run)
    return {benchmark: _lost(runs) for benchmark, runs in lost.items()}


def _lost(runs: Sequence[ComparedRun]) -> str:
    failed = [run.failure for run in runs if run.failure is not None]
    if not failed:
        return f"{len(runs)} of {len(runs)} runs are void"
    return f"{len(failed)} of {len(runs)} runs failed, the last: {failed[-1]}"


def places(arms: Sequence[Arm]) -> dict[str, int]:
    """Map each run to its place in the order of all runs, from 1; return an empty map if the runs share no clock.

    Runs with equal times are ordered by their place in the file. If runs of two arms have equal times in different
    files, there is no order. Without blocks, rows of a file give no order if their arms alternate or an outcome is
    sorted, because somebody may have sorted the file.
    """
    from ktrial.judge.stats.stretches import lie_sorted  # imports numpy

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
    found: dict[str, dict[tuple[str, str], list[float]]] = {}
    for arm, run in ordered:
        for one in run.measurements:
            found.setdefault(one.outcome, {}).setdefault((arm, run.benchmark), []).append(one.value)
    return (list(series.values()) for series in found.values())


def _alternate(arms: Sequence[str]) -> bool:
    return sum(one != other for one, other in pairwise(arms)) >= len(set(arms))


def _in_file(run: ComparedRun) -> tuple[str, float]:
    return next(((name, place) for name, place in run.clocks.items() if name.startswith(FILE)), ("", 0.0))
