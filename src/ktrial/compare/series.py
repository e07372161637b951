# SPDX-License-Identifier: Apache-2.0
"""One outcome over all arms of a comparison: its values, the question about them, and findings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ktrial.bench.record import variation
from ktrial.compare.arms import Arm, ComparedRun
from ktrial.judge.model.comparison import ArmValues, Point, Role
from ktrial.judge.model.question import Observation, Question
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction, Outcome, Unit
from ktrial.kit.percentile import (
    FEW_EVENTS,
    events_needed,
    events_text,
    longer,
    margin_of_tail,
    quantile_of,
    typical_events,
)

#: Separators of the words of a name.
_BETWEEN = "._-/ "


class ComparedSeries(msgspec.Struct, kw_only=True):
    """One outcome of one benchmark. `runs` maps each arm to its runs and their values, in order of appearance."""

    benchmark: str
    outcome: str
    tool: str | None = None
    units: dict[str, set[Unit]] = msgspec.field(default_factory=dict)
    directions: dict[str, set[Direction]] = msgspec.field(default_factory=dict)
    runs: dict[str, list[tuple[ComparedRun, float]]] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.benchmark}.{self.outcome}"

    @property
    def unit(self) -> Unit:
        """Return the unit; if units are mixed, return a unit of the first arm."""
        return sorted(next(iter(self.units.values())))[0]

    @property
    def direction(self) -> Direction | None:
        """Return the better direction; None if no run states one or runs disagree."""
        told = {one for some in self.directions.values() for one in some}
        return told.pop() if len(told) == 1 else None

    def independent(self, arm: str) -> list[tuple[ComparedRun, float]]:
        """Return the independent runs of an arm; values of one process count as one run with their mean."""
        parts: dict[str, list[tuple[ComparedRun, float]]] = {}
        for run, value in self.runs[arm]:
            parts.setdefault(run.name if run.part_of is None else f"part {run.part_of}", []).append((run, value))
        return [(held[0][0], math.fsum(value for _, value in held) / len(held)) for held in parts.values()]

    @property
    def dependent(self) -> Finding | None:
        """Return a note on how many values of one process were averaged in each arm; None if none were averaged."""
        counts = {arm: (len(runs), len(self.independent(arm))) for arm, runs in self.runs.items()}
        if all(values == units for values, units in counts.values()):
            return None
        told = ", ".join(f"{values} become {units} in {arm}" for arm, (values, units) in counts.items())
        return Finding(
            kind="values-of-a-process",
            level="note",
            sentence=f"values of one process depend on each other and are replaced by their mean: {told}",
            values={arm: float(units) for arm, (_, units) in counts.items()},
        )

    @property
    def mixed(self) -> str | None:
        """Return why the values cannot be compared (mixed units or directions); None if they can."""
        for what, sides in (("units", self.units), ("directions", self.directions)):
            if len({one for some in sides.values() for one in some}) > 1:
                told = ", ".join(f"{' and '.join(sorted(some))} in {arm}" for arm, some in sides.items())
                return f"{what} are mixed: {told}"
        return None

    @property
    def few_events(self) -> Finding | None:
        """Return a finding if the outcome is a percentile for which the typical run of an arm has too few events."""
        quantile = quantile_of(self.outcome)
        arms = (
            [run.events[self.outcome] for run, _ in runs if self.outcome in run.events] for runs in self.runs.values()
        )
        events = typical_events(arms)
        if quantile is None or events is None or events >= events_needed(quantile):
            return None
        return Finding(
            kind=FEW_EVENTS,
            level="suspect",
            sentence=f"too few events for this percentile ({events_text(events, quantile)});"
            f" make {longer(events, quantile)}",
            values={"events": float(events), "needed": float(events_needed(quantile))},
        )


def series_of(arms: Sequence[Arm]) -> dict[str, ComparedSeries]:
    """Return all outcomes by `benchmark.outcome`, in order of appearance. Raise BadInput for infinities and NaN."""
    found: dict[str, ComparedSeries] = {}
    for arm in arms:
        for run in arm.good:
            for one in run.measurements:
                if not math.isfinite(one.value):
                    raise BadInput(
                        f"{run.name}: {one.outcome} is {one.value}, which is not a finite number",
                        hint="correct the value in the file, or remove the run from it",
                    )
                name = f"{run.benchmark}.{one.outcome}"
                series = found.get(name) or ComparedSeries(benchmark=run.benchmark, outcome=one.outcome, tool=run.tool)
                found[name] = series
                series.units.setdefault(arm.name, set()).add(one.unit)
                if one.direction is not None:
                    series.directions.setdefault(arm.name, set()).add(one.direction)
                series.runs.setdefault(arm.name, []).append((run, one.value))
    return found


def find_series(wanted: str, found: Iterable[ComparedSeries]) -> ComparedSeries:
    """Return the outcome that the user names as `benchmark.outcome`, as `outcome`, or by its last words.

    `p50` means `pipe.wakeup_p50` if nothing else matches. Raise BadInput if several outcomes match or none does.
    """
    every = list(found)
    ends = tuple(f"{between}{wanted}" for between in _BETWEEN)
    fitting = (
        [one for one in every if one.name == wanted]
        or [one for one in every if one.outcome == wanted]
        or [one for one in every if wanted and one.name.endswith(ends)]
    )
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        several = ", ".join(one.name for one in fitting)
        raise BadInput(f"{wanted!r} matches several outcomes", hint=f"write one of: {several}")
    names = [one.name for one in every]
    raise UnknownName("outcome", wanted, names, hint=f"use one of: {', '.join(names)}")


def margin_of(series: ComparedSeries, asked: float | None) -> float:
    """Return `asked`, or the default margin: 2 %, but 5 % for p95 and above, and 10 % for p99 and above."""
    if asked is not None:
        return asked
    return margin_of_tail(quantile_of(series.outcome))


def question_of(
    series: ComparedSeries, control: str, role: Role, margin: float, about: Outcome | None, order: Mapping[str, int]
) -> Question:
    arms = {
        arm: tuple(
            Observation(
                value=value,
                place=order.get(run.name),
                block=run.block,
                boot=run.boot,
                machine=run.machine,
                covariate=run.temperature_c,
            )
            for run, value in series.independent(arm)
        )
        for arm in series.runs
    }
    return Question(
        name=series.name,
        direction=series.direction,
        arms=arms,
        control=control,
        margin=margin,
        role=role,
        resolution=None if about is None else about.resolution,
    )


def arm_values(series: ComparedSeries, order: Mapping[str, int]) -> tuple[ArmValues, ...]:
    """Return each arm's figures, in the order of the arms; none if units or directions are mixed."""
    if series.mixed is not None:
        return ()
    return tuple(_values(arm, found, order) for arm, found in series.runs.items())


def _values(arm: str, found: Sequence[tuple[ComparedRun, float]], order: Mapping[str, int]) -> ArmValues:
    points = (
        Point(
            value=value,
            run=run.name,
            place=order.get(run.name),
            block=run.block,
            temperature_c=run.temperature_c,
            conditions=run.conditions,
        )
        for run, value in found
    )
    return values_of_points(arm, points)


def values_of_points(arm: str, found: Iterable[Point]) -> ArmValues:
    """Return an arm's figures from one or more measurements."""
    points = tuple(found)
    values = [point.value for point in points]
    return ArmValues(
        arm=arm,
        n=len(values),
        mean=math.fsum(values) / len(values),
        median=statistics.median(values),
        sd=statistics.stdev(values) if len(values) > 1 else None,
        cv=variation(values),
        minimum=min(values),
        maximum=max(values),
        points=points,
    )


def coverage_findings(found: Iterable[ComparedSeries], arms: Sequence[Arm]) -> tuple[Finding, ...]:
    """Return findings on outcomes that an arm lacks or whose units or directions are mixed."""
    told = []
    names = [arm.name for arm in arms]
    for series in found:
        missing = [name for name in names if name not in series.runs]
        if missing:
            told.append(
                Finding(
                    kind="outcome-missing",
                    level="note",
                    sentence=f"{series.name} was measured in {', '.join(series.runs)} and not in {', '.join(missing)}",
                    values={name: float(len(series.runs.get(name, ()))) for name in names},
                )
            )
        if series.mixed is not None:
            told.append(Finding(kind="mixed-units", level="suspect", sentence=f"{series.name}: {series.mixed}"))
    return tuple(told)
