# SPDX-License-Identifier: Apache-2.0
"""One outcome over all arms of a comparison: its values, what is asked of them, and what is known of it."""

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

#: What parts the words of a name.
_BETWEEN = "._-/ "


class ComparedSeries(msgspec.Struct, kw_only=True):
    """One outcome of one benchmark. `runs` holds by arm its runs and their values, as they were met."""

    benchmark: str
    outcome: str
    tool: str | None = None
    units: dict[str, set[Unit]] = msgspec.field(default_factory=dict)
    directions: dict[str, set[Direction]] = msgspec.field(default_factory=dict)
    runs: dict[str, list[tuple[ComparedRun, float]]] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        """`benchmark.outcome`."""
        return f"{self.benchmark}.{self.outcome}"

    @property
    def unit(self) -> Unit:
        """The unit, of a mixed series that of its first value."""
        return sorted(next(iter(self.units.values())))[0]

    @property
    def direction(self) -> Direction | None:
        """Which way is better, if anybody said so and all who did agree."""
        told = {one for some in self.directions.values() for one in some}
        return told.pop() if len(told) == 1 else None

    def independent(self, arm: str) -> list[tuple[ComparedRun, float]]:
        """The runs of an arm that do not depend on each other: values of one process are one, with their mean."""
        parts: dict[str, list[tuple[ComparedRun, float]]] = {}
        for run, value in self.runs[arm]:
            parts.setdefault(run.name if run.part_of is None else f"part {run.part_of}", []).append((run, value))
        return [(held[0][0], math.fsum(value for _, value in held) / len(held)) for held in parts.values()]

    @property
    def dependent(self) -> Finding | None:
        """That values of one process are taken together, with their numbers."""
        counts = {arm: (len(runs), len(self.independent(arm))) for arm, runs in self.runs.items()}
        if all(values == units for values, units in counts.values()):
            return None
        told = ", ".join(f"{values} as {units} in {arm}" for arm, (values, units) in counts.items())
        return Finding(
            kind="values-of-a-process",
            level="note",
            sentence=f"values of one process depend on each other and are taken by its mean: {told}",
            values={arm: float(units) for arm, (_, units) in counts.items()},
        )

    @property
    def mixed(self) -> str | None:
        """In words, why its values are not of one kind; None when they are."""
        for what, sides in (("units", self.units), ("directions", self.directions)):
            if len({one for some in sides.values() for one in some}) > 1:
                told = ", ".join(f"{' and '.join(sorted(some))} in {arm}" for arm, some in sides.items())
                return f"{what} are mixed: {told}"
        return None

    @property
    def few_events(self) -> Finding | None:
        """That it is a percentile of which the typical run of some arm has too few events, with their number."""
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
            sentence=f"{events_text(events, quantile)} for so far a percentile: {longer(events, quantile)}",
            values={"events": float(events), "needed": float(events_needed(quantile))},
        )


def series_of(arms: Sequence[Arm]) -> dict[str, ComparedSeries]:
    """Return all outcomes by `benchmark.outcome`, in the order in which they are met."""
    found: dict[str, ComparedSeries] = {}
    for arm in arms:
        for run in arm.good:
            for one in run.measurements:
                if not math.isfinite(one.value):
                    raise BadInput(f"{run.name}: {one.outcome} is {one.value}, which is not a finite number")
                name = f"{run.benchmark}.{one.outcome}"
                series = found.get(name) or ComparedSeries(benchmark=run.benchmark, outcome=one.outcome, tool=run.tool)
                found[name] = series
                series.units.setdefault(arm.name, set()).add(one.unit)
                if one.direction is not None:
                    series.directions.setdefault(arm.name, set()).add(one.direction)
                series.runs.setdefault(arm.name, []).append((run, one.value))
    return found


def find_series(wanted: str, found: Iterable[ComparedSeries]) -> ComparedSeries:
    """Return the outcome that a user names: as `benchmark.outcome`, as `outcome`, or by its last words.

    `p50` is `pipe.wakeup_p50` where nothing else fits.
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
        raise BadInput(f"{wanted!r} fits several outcomes", hint=f"write one of: {several}")
    names = [one.name for one in every]
    raise UnknownName("outcome", wanted, names, hint=f"there are {', '.join(names)}")


def margin_of(series: ComparedSeries, asked: float | None) -> float:
    """Return the user's margin, else 2 %, 5 % of p95 and 10 % of p99."""
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
    """Return each arm's figures, in the order of the arms; none if they would be of several kinds."""
    if series.mixed is not None:
        return ()
    return tuple(_values(arm, found, order) for arm, found in series.runs.items())


def _values(arm: str, found: Sequence[tuple[ComparedRun, float]], order: Mapping[str, int]) -> ArmValues:
    values = [value for _, value in found]
    return ArmValues(
        arm=arm,
        n=len(values),
        mean=math.fsum(values) / len(values),
        median=statistics.median(values),
        sd=statistics.stdev(values) if len(values) > 1 else None,
        cv=variation(values),
        minimum=min(values),
        maximum=max(values),
        points=tuple(
            Point(
                value=value,
                run=run.name,
                place=order.get(run.name),
                block=run.block,
                temperature_c=run.temperature_c,
                conditions=run.conditions,
            )
            for run, value in found
        ),
    )


def coverage_findings(found: Iterable[ComparedSeries], arms: Sequence[Arm]) -> tuple[Finding, ...]:
    """Return outcomes that not every arm has, and those whose values are not of one kind."""
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
