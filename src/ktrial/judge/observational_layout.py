# SPDX-License-Identifier: Apache-2.0
"""The layout of observational runs: the units, the order in which they ran, and what is confounded with the arm."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from ktrial.judge.model.question import Observation, Question
from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.stretches import lie_sorted, stretches
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction

Order = Literal["interleaved", "sequence", "unknown"]
Scale = Literal["log", "difference"]
Name = str | None
LARGEST = 1e60
#: The unit if neighbouring runs are alike, as samples of a log are.
STRETCH = "stretch of time"
#: The block of each run of the control, of each run of the arm, and the blocks that contain both.
Blocks = tuple[tuple[Name, ...], tuple[Name, ...], list[Name]]


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """One arm's runs with a finite value, and their scores (larger is better)."""

    scores: Array
    runs: Sequence[Observation]

    @property
    def places(self) -> tuple[int | None, ...]:
        return tuple(run.place for run in self.runs)

    @property
    def blocks(self) -> tuple[Name, ...]:
        return tuple(run.block for run in self.runs)

    @property
    def boots(self) -> tuple[Name, ...]:
        return tuple(run.boot for run in self.runs)

    @property
    def machines(self) -> tuple[Name, ...]:
        return tuple(run.machine for run in self.runs)

    def at(self, places: Sequence[int]) -> Runs:
        return Runs(scores=self.scores[list(places)], runs=[self.runs[place] for place in places])


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of control and arm, one for each unit; with blocks as units, both list the blocks in the same order.

    `confounded_by` names the condition (`boot`, `machine`) that cannot be separated from the arm. `runs` says how many
    runs of the control and how many of the arm the scores rest on.
    """

    control: Array
    arm: Array
    unit: str
    order: Order
    confounded_by: str | None = None
    covariates: tuple[Array, Array] | None = None
    findings: tuple[Finding, ...] = ()
    runs: tuple[int, int] = (0, 0)

    @property
    def blocked(self) -> bool:
        return self.unit == "block"


def is_usable(value: float) -> bool:
    """Return whether a value is a plausible measurement, small enough that its fourth power stays finite."""
    return -LARGEST < value < LARGEST


def scale_of(question: Question) -> Scale:
    """Return `log` (effects are ratios) if all values are above zero, otherwise `difference`."""
    usable = (run.value for runs in question.arms.values() for run in runs if is_usable(run.value))
    return "log" if all(value > 0 for value in usable) else "difference"


def read_runs(observations: Sequence[Observation], scale: Scale, direction: Direction | None) -> Runs:
    """Return the runs that have a usable value. If the direction is unknown, a larger value is a larger score."""
    kept = [run for run in observations if is_usable(run.value)]
    values = np.array([run.value for run in kept], dtype=np.float64)
    scores = np.log(values) if scale == "log" else values
    return Runs(scores=-scores if direction == "lower" else scores, runs=kept)


def lay_out(control: Runs, arm: Runs) -> Layout | None:
    """Return the layout of two arms with at least one run each; None if they were measured in separate blocks."""
    if not set(control.places).isdisjoint(arm.places):
        # Two runs at one place: each arm was numbered by itself, so their order is unknown.
        control = Runs(scores=control.scores, runs=[msgspec.structs.replace(run, place=None) for run in control.runs])
    confounded, unit = _nested(control, arm)
    declared = _shared((control.blocks, arm.blocks))
    if declared is not None and (not declared[2] or unit is None or _within_blocks(control, arm, unit)):
        return _in_shared(control, arm, declared, "block", confounded)
    if unit is not None:
        return _by_unit(control, arm, unit)
    for name in () if confounded else ("machine", "boot"):
        strata = _shared(_names(control, arm, name))
        if strata is not None and len(strata[2]) >= ENOUGH_BLOCKS:
            return _in_blocks(control, arm, strata, None)
        if strata is not None and not _spread_alike(strata):
            return _in_shared(control, arm, strata, name, None) if name == "machine" else _by_run(control, arm, name)
    return _by_run(control, arm, confounded)


#: Fewer machines or boots than this cannot decide anything as blocks; the runs within them are then the units.
ENOUGH_BLOCKS = 6


def _names(control: Runs, arm: Runs, name: str) -> tuple[tuple[Name, ...], tuple[Name, ...]]:
    return (control.machines, arm.machines) if name == "machine" else (control.boots, arm.boots)


def _within_blocks(control: Runs, arm: Runs, unit: str) -> bool:
    """Return whether each boot (or machine) lies within one block, so that blocks are as independent as boots."""
    return all(
        len(set(zip(names, blocks, strict=True))) == len(set(names))
        for names, blocks in zip(_names(control, arm, unit), (control.blocks, arm.blocks), strict=True)
    )


def _spread_alike(strata: Blocks) -> bool:
    """Return whether both arms have about the same share of their runs in each block."""
    of_control, of_arm, _ = strata
    here, there = Counter(of_control), Counter(of_arm)
    return all(abs(here[name] / len(of_control) - there[name] / len(of_arm)) <= 0.1 for name in here | there)


def _nested(control: Runs, arm: Runs) -> tuple[str | None, str | None]:
    """Return (name, None) for a condition confounded with the arm, (None, name) for a unit, otherwise (None, None).

    The name is `machine` or `boot`, and the arms share none of them. The condition is confounded if an arm has only one
    machine (or boot), and a unit if each arm has several.
    """
    for name in ("machine", "boot"):
        of_control, of_arm = _names(control, arm, name)
        here, there = set(of_control), set(of_arm)
        if None in here or None in there or here & there:
            continue
        return (name, None) if min(len(here), len(there)) == 1 else (None, name)
    return None, None


def _shared(names: tuple[tuple[Name, ...], tuple[Name, ...]]) -> Blocks | None:
    """Return the block of each run and the blocks that contain both arms; None if there are no blocks."""
    of_control, of_arm = names
    if None in of_control or None in of_arm or len({*of_control, *of_arm}) < 2:
        return None
    there = set(of_arm)
    return of_control, of_arm, [name for name in dict.fromkeys(of_control) if name in there]


def _gather(keys: Sequence[Name]) -> dict[Name, list[int]]:
    gathered: dict[Name, list[int]] = {}
    for index, key in enumerate(keys):
        gathered.setdefault(key, []).append(index)
    return gathered


def _middle(values: Sequence[float]) -> float:
    """Return the median, faster than numpy for the few runs of a unit."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _units(runs: Runs, groups: Sequence[list[int]]) -> tuple[Array, Array | None]:
    scores = runs.scores.tolist()
    known = [run.covariate for run in runs.runs if run.covariate is not None]
    if len(known) < len(runs.runs):
        known = []
    if len(groups) == len(scores):
        order = [group[0] for group in groups]
        return runs.scores[order], np.array(known)[order] if known else None
    middles = np.array([_middle([scores[index] for index in group]) for group in groups])
    return middles, np.array([sum(known[i] for i in group) / len(group) for group in groups]) if known else None


def _make(control: Runs, arm: Runs, groups: tuple[list[list[int]], list[list[int]]], layout: Layout) -> Layout:
    scores, covariate = _units(control, groups[0])
    arm_scores, arm_covariate = _units(arm, groups[1])
    both = None if covariate is None or arm_covariate is None else (covariate, arm_covariate)
    counted = (sum(map(len, groups[0])), sum(map(len, groups[1])))
    return msgspec.structs.replace(layout, control=scores, arm=arm_scores, covariates=both, runs=counted)


def _empty(unit: str, order: Order, confounded_by: str | None, findings: Sequence[Finding]) -> Layout:
    nothing = np.empty(0)
    return Layout(
        control=nothing, arm=nothing, unit=unit, order=order, confounded_by=confounded_by, findings=tuple(findings)
    )


def _in_shared(control: Runs, arm: Runs, blocks: Blocks, name: str, confounded: str | None) -> Layout | None:
    """Return the layout within the shared blocks; None if there is none. A single block is compared run by run."""
    of_control, of_arm, shared = blocks
    if not shared:
        return None
    if len(shared) > 1:
        return _in_blocks(control, arm, blocks, confounded)
    here, there = (
        runs.at([place for place, held in enumerate(names) if held == shared[0]])
        for runs, names in ((control, of_control), (arm, of_arm))
    )
    found = lay_out(here, there)
    count = len({*of_control, *of_arm})
    told = Finding(
        kind="blocks-left-out",
        level="suspect",
        sentence=f"the two arms share one {name} of {count}, {shared[0]}: only its runs are compared",
    )
    return None if found is None else msgspec.structs.replace(found, findings=(told, *found.findings))


def _in_blocks(control: Runs, arm: Runs, blocks: Blocks, confounded: str | None) -> Layout:
    of_control, of_arm, shared = blocks
    in_control, in_arm = _gather(of_control), _gather(of_arm)
    groups = [in_control[name] for name in shared], [in_arm[name] for name in shared]
    order, findings = _order_of_blocks(control.places, arm.places, groups)
    lonely = len({*of_control, *of_arm}) - len(shared)
    if lonely:
        findings.append(
            Finding(
                kind="blocks-left-out",
                level="note",
                sentence=f"{lonely} of {lonely + len(shared)} blocks hold only one of the two arms and are left out",
            )
        )
    return _make(control, arm, groups, _empty("block", order, confounded, findings))


def _order_of_blocks(
    control: tuple[int | None, ...], arm: tuple[int | None, ...], groups: tuple[list[list[int]], list[list[int]]]
) -> tuple[Order, list[Finding]]:
    """Return `interleaved` if blocks follow each other in time, or if the order of arms differs between blocks.

    Otherwise return the order across blocks, or `unknown` if a place is unknown. Findings are on the order.
    """
    spans, control_first = [], 0
    for of_control, of_arm in zip(*groups, strict=True):
        here = [place for i in of_control if (place := control[i]) is not None]
        there = [place for i in of_arm if (place := arm[i]) is not None]
        if len(here) < len(of_control) or len(there) < len(of_arm):
            return "unknown", []
        spans.append((min(*here, *there), max(*here, *there)))
        control_first += sum(here) * len(there) < sum(there) * len(here)
    spans.sort()
    rounds = all(before[1] < after[0] for before, after in itertools.pairwise(spans))
    mixed = 4 * min(control_first, len(spans) - control_first) >= len(spans)
    if not rounds and not mixed:
        return _order_across_blocks(control, arm)
    fixed = control_first in {0, len(spans)} and len(spans) >= 4
    return "interleaved", [_FIXED_ORDER] if fixed else []


def _order_across_blocks(control: tuple[int | None, ...], arm: tuple[int | None, ...]) -> tuple[Order, list[Finding]]:
    """Return the order of the arms over blocks that overlap in time, where the arms may still have taken turns."""
    visits = _visits(_in_order(control, arm) or [])
    if len(visits) < _FEWEST_TURNS or _in_visits(visits):
        return "sequence", []
    strict = len(visits) == len(control) + len(arm)
    return "interleaved", [_STRICT_TURNS] if strict else []


#: The arms took turns only if there were at least this many visits.
_FEWEST_TURNS = 8

_FIXED_ORDER = Finding(
    kind="fixed-order",
    level="suspect",
    sentence="the same arm ran first in every block: the effect of running second is attributed to the arm",
)
_SORTED = Finding(
    kind="sorted",
    level="suspect",
    sentence="the values are sorted, so the order in which they were measured is lost: ktrial cannot see whether runs "
    "depend on each other, as samples of a log do",
)
_STRICT_TURNS = Finding(
    kind="fixed-order",
    level="suspect",
    sentence="the arms alternated strictly: the effect of a run on the next one is attributed to the arm",
)


def _in_order(control: tuple[float | None, ...], arm: tuple[float | None, ...]) -> list[tuple[float, int, int]] | None:
    """Return (place, 0 for control or 1 for arm, index) of all runs by place; None if a place is unknown or shared."""
    runs = [
        (place, which, index)
        for which, places in enumerate((control, arm))
        for index, place in enumerate(places)
        if place is not None
    ]
    if len(runs) < len(control) + len(arm) or len({place for place, _, _ in runs}) < len(runs):
        return None
    return sorted(runs)


def _visits(ordered: Sequence[tuple[float, int, int]]) -> list[tuple[int, list[int]]]:
    """Split the ordered runs into groups of the same arm in a row, each as (0 for control or 1 for arm, indexes)."""
    return [
        (which, [index for _, _, index in group]) for which, group in itertools.groupby(ordered, key=lambda run: run[1])
    ]


def _order_of(visits: Sequence[tuple[int, list[int]]]) -> Order:
    count = Counter(which for which, _ in visits)
    return "interleaved" if min(count[0], count[1]) > 1 else "sequence"


def _by_unit(control: Runs, arm: Runs, unit: str) -> Layout:
    names = _names(control, arm, unit)
    groups = [*_gather(names[0]).values()], [*_gather(names[1]).values()]
    places = tuple(
        tuple(
            None if any(own[i] is None for i in group) else sum(own[i] or 0 for i in group) / len(group)
            for group in of_runs
        )
        for own, of_runs in zip((control.places, arm.places), groups, strict=True)
    )
    ordered = _in_order(places[0], places[1])
    order: Order = "unknown" if ordered is None else _order_of(_visits(ordered))
    return _make(control, arm, groups, _empty(unit, order, None, []))


def _by_run(control: Runs, arm: Runs, confounded: str | None) -> Layout:
    ordered = _in_order(control.places, arm.places)
    visits = [] if ordered is None else _visits(ordered)
    order: Order = _order_of(visits) if visits else "unknown"
    if order == "interleaved" and _in_visits(visits):
        groups = [group for which, group in visits if not which], [group for which, group in visits if which]
        finding = Finding(
            kind="visits",
            level="note",
            sentence="consecutive runs of one arm count as one: only the change of arms was repeated",
        )
        return _make(control, arm, groups, _empty("visit", order, confounded, [finding]))
    singles = [[i] for i in range(len(control.scores))], [[i] for i in range(len(arm.scores))]
    if order == "unknown" and lie_sorted([control.scores.tolist(), arm.scores.tolist()]):
        return _make(control, arm, singles, _empty("run", order, confounded, [_SORTED]))
    if order != "interleaved" and (found := _by_stretch(control, arm)) is not None:
        groups, told = found
        return _make(control, arm, groups, _empty(STRETCH, order, confounded, [told]))
    strict = order == "interleaved" and len(visits) == len(control.scores) + len(arm.scores) >= 8
    return _make(control, arm, singles, _empty("run", order, confounded, [_STRICT_TURNS] if strict else []))


def _by_stretch(control: Runs, arm: Runs) -> tuple[tuple[list[list[int]], list[list[int]]], Finding] | None:
    """Return each arm's stretches of consecutive runs with similar scores; None if each run is a unit."""
    both = []
    for runs in (control, arm):
        order = sorted(range(len(runs.scores)), key=lambda index: (runs.runs[index].place or 0, index))
        parts = stretches(runs.scores[order])
        both.append([[order[place] for place in part] for part in parts] if parts else [[place] for place in order])
    counts = [len(runs.scores) for runs in (control, arm)]
    units = [len(groups) for groups in both]
    if units == counts:
        return None
    told = Finding(
        kind="time-blocks",
        level="note",
        sentence=f"consecutive runs are alike, as samples of a log are: {counts[0]}+{counts[1]} runs count as "
        f"{units[0]}+{units[1]} stretches of time",
    )
    return (both[0], both[1]), told


def _in_visits(visits: Sequence[tuple[int, list[int]]]) -> bool:
    """Return whether arms changed too rarely for single runs to be units.

    Arms changed too rarely if no visit has a single run, or if a random order would give more visits (Wald-Wolfowitz).
    """
    if all(len(group) > 1 for _, group in visits):
        return True
    of_control = sum(len(group) for which, group in visits if not which)
    of_arm = sum(len(group) for which, group in visits if which)
    both = of_control + of_arm
    expected = 2 * of_control * of_arm / both + 1
    variance = (expected - 1) * (expected - 2) / (both - 1)
    return len(visits) < expected - 1.645 * math.sqrt(max(variance, 0.0))
