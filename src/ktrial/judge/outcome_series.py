# SPDX-License-Identifier: Apache-2.0
"""Analyses of one outcome over the runs of all arms: doubts, analyses of variance, comparisons of all pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from ktrial.judge.model.comparison import Anova, Check, Pairwise
from ktrial.judge.model.question import Question
from ktrial.judge.observational_layout import Runs, Scale, is_usable
from ktrial.judge.stats import diagnostics, factors, pairs
from ktrial.judge.stats.arrays import Array
from ktrial.judge.stats.machines import within_machines
from ktrial.judge.stats.modes import APART_FACTOR, apart, two_modes, within_blocks
from ktrial.kit.finding import Finding, FindingLevel
from ktrial.kit.outcome import Direction
from ktrial.kit.units import three_digits


class SeriesSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of finite values. `spread` is (maximum - minimum) / median, null if the median is zero.

    `cv` is null if the mean is zero.
    """

    n: int
    mean: float
    median: float
    sd: float | None
    cv: float | None
    minimum: float
    maximum: float
    spread: float | None


def summarise(values: Iterable[float]) -> SeriesSummary | None:
    """Return the summary of the finite values; None if there are none."""
    kept = sorted(value for value in values if math.isfinite(value))
    if not kept:
        return None
    finite = np.array(kept, dtype=np.float64)
    minimum, maximum = float(kept[0]), float(kept[-1])
    # After division by this no square exceeds one, whatever the unit.
    unit = max(abs(minimum), abs(maximum)) or 1.0
    mean = float((finite / unit).mean()) * unit
    median = kept[(len(kept) - 1) // 2] / 2 + kept[len(kept) // 2] / 2
    sd = float((finite / unit).std(ddof=1)) * unit if len(finite) > 1 else None
    return SeriesSummary(
        n=len(finite),
        mean=mean,
        median=median,
        sd=sd,
        cv=None if sd is None else _share(sd, mean),
        minimum=minimum,
        maximum=maximum,
        spread=_share(maximum - minimum, median),
    )


def _share(size: float, middle: float) -> float | None:
    share = size / abs(middle) if middle else math.inf
    return share if math.isfinite(share) else None


#: With more arms than this, a table of all pairs is too long to read.
PAIRED_ARMS = 30


class OfArm(msgspec.Struct, frozen=True, kw_only=True):
    """Drift, dependence and span of one arm's runs; the runs of all arms together may hide them."""

    drift: diagnostics.Drift | None
    dependence: Check | None
    span: float


class OutcomeSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Drift and dependence over the runs of all arms, and in `alone` over the runs of each arm.

    `places` holds each arm's mean place in each block; it is empty if the order of the runs is unknown.
    """

    drift: diagnostics.Drift | None
    dependence: Check | None
    places: Mapping[str, Mapping[str | None, float]]
    alone: Mapping[str, OfArm] = {}

    def dependence_of(self, arm: str, control: str) -> Check | None:
        """Return the check of all runs for dependence, or the check of one arm if only its runs are dependent.

        Return None if the check of all runs is missing.
        """
        found = (self.alone[name].dependence for name in (arm, control) if name in self.alone)
        alike = next((check for check in found if check is not None and not check.holds), None)
        return self.dependence if self.dependence is None or not self.dependence.holds else alike or self.dependence


_UNKNOWN = OutcomeSeries(drift=None, dependence=None, places={})
#: ktrial checks two single arms and all runs together; each check gets this part of the error rate.
_LOOKS = 3


def read_series(runs: Mapping[str, Runs]) -> OutcomeSeries:
    """Return drift and dependence; both are unknown unless the place of every run is known.

    If there are blocks, both are computed within them, because a difference between hosts is not drift.
    """
    everything = [place for of_arm in runs.values() for place in of_arm.places]
    if None in everything or not everything or len(set(everything)) < len(everything):
        return _UNKNOWN
    blocks = {name for of_arm in runs.values() for name in of_arm.blocks}
    blocked = None not in blocks and len(blocks) > 1
    ordered: list[tuple[Array, Array]] = []
    alone: dict[str, OfArm] = {}
    mean_places: dict[str, dict[str | None, float]] = {}
    for arm, of_arm in runs.items():
        cells: dict[str | None, list[tuple[float, float]]] = {}
        for block, place, score in zip(of_arm.blocks, of_arm.places, of_arm.scores.tolist(), strict=True):
            cells.setdefault(block if blocked else None, []).append((float(place or 0), score))
        mean_places[arm] = {block: sum(place for place, _ in held) / len(held) for block, held in cells.items()}
        mine = [_in_order(held) for held in cells.values() if len(held) > 2]
        if mine:
            alone[arm] = _of_arm(arm, mine)
            ordered += mine
    if not ordered:
        return _UNKNOWN
    return OutcomeSeries(
        drift=diagnostics.drift(ordered),
        dependence=diagnostics.autocorrelation(_residuals(ordered)),
        places=mean_places,
        alone=alone,
    )


def _in_order(held: Sequence[tuple[float, float]]) -> tuple[Array, Array]:
    places, scores = np.array(sorted(held)).T
    return places, scores


def _residuals(ordered: Sequence[tuple[Array, Array]]) -> Array:
    """Return the scores minus the median of their own series, in the order of all runs."""
    residuals = np.concatenate([scores - np.median(scores) for _, scores in ordered])
    return np.asarray(residuals[np.argsort(np.concatenate([places for places, _ in ordered]))], dtype=np.float64)


def _of_arm(arm: str, mine: Sequence[tuple[Array, Array]]) -> OfArm:
    return OfArm(
        drift=diagnostics.drift(mine),
        dependence=diagnostics.autocorrelation(_residuals(mine), f"runs of {arm}", looks=_LOOKS),
        span=sum(float(places[-1] - places[0]) for places, _ in mine) / len(mine),
    )


def drift_check(series: OutcomeSeries, arm: str, control: str, estimate: float) -> Check | None:
    """Return the check of how much of the effect `estimate` the drift explains; None if the drift is unknown."""
    if series.drift is None:
        return None
    of_arm, of_control = series.places[arm], series.places[control]
    shared = [block for block in of_arm if block in of_control]
    if not shared:
        return None
    made = series.drift.slope * sum(of_arm[block] - of_control[block] for block in shared) / len(shared)
    if series.drift.p >= 0.05:
        if (found := _drift_alone(series, (arm, control), estimate)) is not None:
            return found
        sentence = f"no drift over the runs (Theil-Sen, p = {series.drift.p:.2g})"
        return Check(name="no drift", holds=True, value=made, sentence=sentence)
    share = abs(made / estimate) if estimate else math.inf
    size = f"explains {_times(share)} this effect" if math.isfinite(share) else "exceeds the effect, which is zero"
    sentence = f"the runs drifted (Theil-Sen, p = {series.drift.p:.2g}): the drift alone {size}"
    return Check(name="no drift", holds=share < 0.25, value=made, sentence=sentence)


def _times(factor: float) -> str:
    """Return `2.5 times`: a factor with two digits, without an exponent if it is large."""
    return f"{three_digits(float(f'{factor:.2g}'))} times"


def _drift_alone(series: OutcomeSeries, arms: tuple[str, str], estimate: float) -> Check | None:
    """Return the check for an arm that drifts although all runs together do not; None if neither arm drifts."""
    for name in arms:
        found = series.alone.get(name)
        if found is None or found.drift is None or found.drift.p >= 0.05 / len(arms):
            continue
        made = found.drift.slope * found.span
        share = abs(made / estimate) if estimate else math.inf
        size = f"by {_times(share)} this effect" if math.isfinite(share) else "but the effect is zero"
        sentence = (
            f"the runs of {name} drifted, although all arms together did not (Theil-Sen, p = {found.drift.p:.2g})"
        )
        return Check(name="no drift", holds=share < 0.25, value=made, sentence=f"{sentence}: {size}, first to last")
    return None


def doubts(question: Question, runs: Mapping[str, Runs], scale: Scale, swing: float) -> list[Finding]:
    found = _missing(question, runs)
    if scale == "difference":
        sentence = "values of zero or below: effects are differences, not ratios"
        found.append(Finding(kind="difference-scale", level="note", sentence=sentence))
        found.extend(_count_findings(question, runs))
    if question.direction is None:
        sentence = "it is unknown whether higher or lower is better: differences get no verdict; above zero means more"
        found.append(Finding(kind="no-direction", level="note", sentence=sentence))
    found.extend(_of_values(question, runs, swing))
    scores = within_blocks(
        {arm: within_machines(of_arm) if question.pooled else of_arm.scores for arm, of_arm in runs.items()},
        {arm: of_arm.blocks for arm, of_arm in runs.items()},
    )
    seen = {arm: two_modes(of_arm) for arm, of_arm in scores.items()}
    modes = {
        arm: found_two.low_share
        for arm, found_two in seen.items()
        if found_two is not None and found_two.clear and not _is_within_steps(question, arm)
    }
    if modes:
        sentence = (
            f"two modes in {_join_arms(modes)}: arms may differ in how often each occurs (share of the worse mode)"
        )
        found.append(Finding(kind="two-modes", level="suspect", sentence=sentence, values=modes))
    if scale == "log":
        found.extend(_apart({arm: of_arm for arm, of_arm in scores.items() if arm not in modes}, question.direction))
    return found


#: Values that span at most this many steps of their tool form groups anyway.
_STEPS = 3


def _is_within_steps(question: Question, arm: str) -> bool:
    """Return whether an arm's values differ by only a few steps of the tool.

    A step is the resolution of the tool or, if that is unknown, the smallest difference between values.
    """
    values = np.array([run.value for run in question.arms[arm] if is_usable(run.value)])
    steps = np.diff(np.unique(values))
    if (
        not len(steps)
        or values.max() >= APART_FACTOR * values.min()
        or not diagnostics.coarse(values, question.resolution)
    ):
        return False
    return float(steps.sum()) <= _STEPS * (question.resolution or float(steps.min())) * (1 + 1e-9)


def _apart(scores: Mapping[str, Array], direction: Direction | None) -> Iterator[Finding]:
    """Yield a finding for each short series in which a gap separates a few runs from the rest of the arm."""
    logs = {arm: -of_arm if direction == "lower" else of_arm for arm, of_arm in scores.items()}
    seen = {arm: found for arm, of_arm in logs.items() if (found := apart(of_arm)) is not None}
    for arm, few in seen.items():
        runs = f"{few.runs} of {few.of} runs {'lies' if few.runs == 1 else 'lie'} apart"
        sentence = (
            f"two modes in {arm}, or a disturbance: {runs}, at {_times(few.factor)} the others; run {arm} more often"
        )
        yield Finding(kind="two-modes", level="suspect", sentence=sentence, values={arm: few.factor})


#: With more arms than this the finding on counts is left out.
_COUNTED_ARMS = 6


def _count_findings(question: Question, runs: Mapping[str, Runs]) -> list[Finding]:
    """Return totals by arm and how many runs counted zero, which a mean hides.

    Return nothing if a value is negative, or if there are many arms.
    """
    values_by_arm = {arm: [run.value for run in question.arms[arm] if is_usable(run.value)] for arm in runs}
    if len(values_by_arm) > _COUNTED_ARMS or min(min(values) for values in values_by_arm.values()) < 0:
        return []
    rates = {arm: sum(values) / len(values) for arm, values in values_by_arm.items()}
    base = rates.get(question.control)
    counts = [
        f"{arm}: {three_digits(sum(values))} in {len(values)} runs"
        + (f", {rates[arm] / base:.3g} times as many per run" if base and arm != question.control else "")
        + f", none in {values.count(0.0)}"
        for arm, values in values_by_arm.items()
    ]
    return [Finding(kind="counts", level="note", sentence=f"in all, {'; '.join(counts)}", values=rates)]


def _join_arms(arms: Mapping[str, float]) -> str:
    names = list(arms)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more arms" if len(names) > 5 else "")


def _missing(question: Question, runs: Mapping[str, Runs]) -> list[Finding]:
    lost = {
        arm: float(lacking)
        for arm, values in question.arms.items()
        if (lacking := len(values) - (len(runs[arm].scores) if arm in runs else 0))
    }
    found = []
    if lost:
        sentence = f"{sum(lost.values()):g} values are not finite or implausibly large and are left out"
        found.append(Finding(kind="not-finite", level="suspect", sentence=sentence, values=lost))
    if question.control not in runs:
        sentence = f"the control {question.control} has no value, so nothing can be compared with it"
        found.append(Finding(kind="no-control", level="suspect", sentence=sentence))
    if len(question.arms) < 2:
        sentence = "there is only one group, and nothing to compare it with"
        found.append(Finding(kind="one-group", level="suspect", sentence=sentence))
    return found


def _of_values(question: Question, runs: Mapping[str, Runs], swing: float) -> list[Finding]:
    swings: dict[str, float] = {}
    endless: dict[str, float] = {}
    single: dict[str, float] = {}
    equal: dict[str, float] = {}
    steps: dict[str, float] = {}
    for arm in runs:
        values = np.array([run.value for run in question.arms[arm] if is_usable(run.value)])
        summary = summarise(values.tolist())
        if summary is None or summary.n == 1:
            single[arm] = 1.0
            continue
        spread = _widest(question, arm) if question.pooled else summary.spread
        if spread is not None and spread > swing:
            swings[arm] = spread
        elif spread is None and summary.minimum < summary.maximum:
            endless[arm] = summary.maximum - summary.minimum
        if summary.minimum == summary.maximum:
            equal[arm] = summary.median
        elif diagnostics.coarse(values, question.resolution):
            steps[arm] = float(len(np.unique(values)))
    kinds: tuple[tuple[str, FindingLevel, dict[str, float], str], ...] = (
        ("single-run", "suspect", single, "a single run shows no spread"),
        ("swing", "note", swings, f"(max - min) / median is above {100 * swing:g} %"),
        ("swing", "note", endless, "the median is 0, so (max - min) / median has no bound"),
        ("no-spread", "suspect", equal, "all values are equal: either nothing varies or the tool is too coarse"),
        ("quantised", "note", steps, "the steps of the tool are as large as the differences between runs"),
    )
    return [
        Finding(kind=kind, level=level, sentence=f"{_join_arms(arms)}: {sentence}", values=arms)
        for kind, level, arms, sentence in kinds
        if arms
    ]


def _widest(question: Question, arm: str) -> float | None:
    """Return the largest (max - min) / median within one machine; None if no machine has one."""
    held: dict[str | None, list[float]] = {}
    for run in question.arms[arm]:
        if is_usable(run.value):
            held.setdefault(run.machine, []).append(run.value)
    spreads = [found.spread for values in held.values() if (found := summarise(values)) is not None]
    return max((spread for spread in spreads if spread is not None), default=None)


def analyse(
    runs: Mapping[str, Runs], control: str, scale: Scale, alpha: float, with_pairs: bool
) -> tuple[tuple[Anova, ...], tuple[Pairwise, ...], tuple[Finding, ...]]:
    """Return analyses of variance, tables of pairs, and findings.

    With blocks, the analysis is two-way with Tukey's test of pairs, otherwise one-way with all usual tables. Two arms
    get no tables.
    """
    names = list(runs)
    if len(names) < 2:
        return (), (), ()
    model, why_not = _in_blocks(list(runs.values()))
    if why_not is not None:
        # Without blocks, differences between them would be attributed to the arms.
        return (), (), (Finding(kind="left-out", level="note", sentence=why_not),)
    analysed = model or factors.one_way([of_arm.scores for of_arm in runs.values()])
    if analysed is None:
        return (), (), ()
    found = _interaction(analysed.anova)
    if len(names) < 3:
        return (analysed.anova,), (), found
    if not with_pairs or len(names) > PAIRED_ARMS:
        sentence = "too many comparisons at once: tables of all pairs and checks of normality are left out"
        return (analysed.anova,), (), (*found, Finding(kind="left-out", level="note", sentence=sentence))
    tables = [pairs.tukey(analysed, names, scale, alpha)]
    if model is None:
        groups = [of_arm.scores for of_arm in runs.values()]
        tables.append(pairs.games_howell(groups, names, scale, alpha))
        if control in runs:
            tables.append(pairs.dunnett(groups, names, control, scale, alpha))
    return (analysed.anova,), tuple(table for table in tables if table is not None), found


#: Arms behave differently from block to block if the p of the interaction is below this.
_INTERACTS = 0.01


def _interaction(anova: Anova) -> tuple[Finding, ...]:
    """Return a finding if the difference between arms changes from block to block."""
    row = next((one for one in anova.rows if one.source == factors.INTERACTION), None)
    if row is None or row.f is None or row.p is None or row.p >= _INTERACTS:
        return ()
    test = f"F({row.df:g}, {anova.rows[-1].df:g}) = {row.f:.3g}, p = {row.p:.2g}"
    sentence = f"the difference between arms changes from block to block by more than the noise within blocks ({test})"
    return (Finding(kind="interaction", level="suspect", sentence=sentence, values={"f": row.f, "p": row.p}),)


def _in_blocks(runs: Sequence[Runs]) -> tuple[factors.Model | None, str | None]:
    names = [name for of_arm in runs for name in of_arm.blocks]
    number = {name: index for index, name in enumerate(dict.fromkeys(names))}
    if None in number or len(number) < 2:
        return None, None
    arms = np.repeat(np.arange(len(runs)), [len(of_arm.scores) for of_arm in runs])
    blocks = np.array([number[name] for name in names], dtype=np.int64)
    model = factors.two_way(np.concatenate([of_arm.scores for of_arm in runs]), arms, blocks)
    return (None, model) if isinstance(model, str) else (model, None)
