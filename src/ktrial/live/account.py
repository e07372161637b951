# SPDX-License-Identifier: Apache-2.0
"""Adds carry-over after undo, effects at equal covariates, and the cost of switches to a live trial's verdicts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.log import Event, OutcomeRule, Protocol, protocol_in
from ktrial.judge.model.words import effect_text
from ktrial.kit.finding import Finding
from ktrial.live.carry_over import PeriodScore, estimate_carry_over
from ktrial.live.model import Sample
from ktrial.live.period import SeenMetric, SeenPeriod
from ktrial.trial.protocol.live import LIVE, LiveFile

#: Fewer periods with a switch are too few to estimate the cost of switches.
_FEWEST_SWITCHES = 3
#: A smaller cost is reported as no difference.
_LEAST_COST = 0.02


class LivePeriod(msgspec.Struct, frozen=True):
    """A period of a valid block, with its primary score (larger is better) and the observations of its sources."""

    block: int
    arm: str
    score: float
    seen: SeenPeriod


def with_account(found: Comparison, live: LiveFile, log: Sequence[Event], seen: Mapping[int, SeenPeriod]) -> Comparison:
    """Add carry-over, effects at equal covariates, and the cost of switches to a comparison.

    `seen` maps run numbers to periods.
    """
    protocol = protocol_in(log)
    periods = _periods(log, protocol, seen)
    costs = _switch_cost(periods, protocol) if live.disturbing else ()
    outcomes = tuple(
        _with_findings(one, live, protocol, periods) if one.name == protocol.primary else one
        for one in (_at_equal(one, protocol) for one in found.outcomes)
    )
    return msgspec.structs.replace(found, outcomes=outcomes, findings=(*found.findings, *costs))


def _at_equal(outcome: OutcomeComparison, protocol: Protocol) -> OutcomeComparison:
    """Return the outcome with the names of the covariates that it is adjusted for."""
    rule = protocol.outcomes.get(outcome.name)
    is_level = rule is not None and rule.scale == "log"
    return msgspec.structs.replace(outcome, at_equal=protocol.adjust) if is_level else outcome


def _periods(log: Sequence[Event], protocol: Protocol, seen: Mapping[int, SeenPeriod]) -> list[LivePeriod]:
    """Return the periods of complete blocks in order, without periods whose value the scale does not allow."""
    from ktrial.judge.collect_log import collect, score

    trial = collect(log)
    rule = protocol.outcomes[protocol.primary]
    return [
        LivePeriod(run.block, run.arm, value, seen[run.run])
        for run in trial.runs
        if run.block is not None and run.block in trial.complete and run.run in seen
        if math.isfinite(value := score(run.measurements.get(protocol.primary, math.nan), rule))
    ]


def _with_findings(
    outcome: OutcomeComparison, live: LiveFile, protocol: Protocol, periods: Sequence[LivePeriod]
) -> OutcomeComparison:
    rule = protocol.outcomes[protocol.primary]
    scores = [_period_score(one, outcome.outcome, rule) for one in periods]
    contrasts = []
    for contrast in outcome.contrasts:
        told = _with_carry_over(contrast, scores, live.washout_s or 0.0)
        contrasts.append(_with_covariates(told, outcome, periods, is_judged=bool(live.adjust)))
    return msgspec.structs.replace(outcome, contrasts=tuple(contrasts))


def _with_carry_over(contrast: Contrast, scores: Sequence[PeriodScore], washout_s: float) -> Contrast:
    """Return the contrast with the estimated carry-over of the arm, which replaces the judge's short note on it."""
    carried = estimate_carry_over(scores, contrast.arm, contrast.control, washout_s)
    if carried is None or not carried.findings:
        return contrast
    others = [one for one in contrast.findings if one.kind != "carry-over"]
    return msgspec.structs.replace(contrast, findings=(*others, *carried.findings))


def _with_covariates(
    contrast: Contrast, outcome: OutcomeComparison, periods: Sequence[LivePeriod], *, is_judged: bool
) -> Contrast:
    """Return the contrast with its effect at equal covariates, from the blocks that have all covariates.

    If that effect was judged, the raw effect is beside it.
    """
    import numpy as np

    from ktrial.live.covariates import adjust_effect

    blocks: dict[int, dict[str, LivePeriod]] = {}
    for period in periods:
        blocks.setdefault(period.block, {})[period.arm] = period
    pairs = [
        (one[contrast.arm], one[contrast.control])
        for one in blocks.values()
        if {contrast.arm, contrast.control} <= one.keys()
    ]
    names = list(dict.fromkeys(name for period in periods for name in _covariates(period.seen)))
    whole = [pair for pair in pairs if all(name in _covariates(one.seen) for one in pair for name in names)]
    if not names or not whole:
        return contrast
    apart = {
        name: np.array([_covariates(arm.seen)[name] - _covariates(control.seen)[name] for arm, control in whole])
        for name in names
    }
    adjusted = adjust_effect(np.array([arm.score - control.score for arm, control in whole]), apart)
    if adjusted is None:
        return contrast
    if is_judged:
        raw, interval = effect_text(adjusted.raw, outcome.unit, outcome.direction)
        change = f"the change of {contrast.arm} is {raw} ({interval})"
        sentence = f"the verdict is at equal {' and '.join(names)}; as measured, {change}"
        values = {"raw": adjusted.raw.estimate, "raw_p": adjusted.raw_p}
        note = Finding(kind="equal-covariates", level="note", sentence=sentence, values=values)
        return msgspec.structs.replace(contrast, findings=(*contrast.findings, note, *adjusted.findings))
    return msgspec.structs.replace(
        contrast,
        adjusted=adjusted.adjusted,
        adjusted_for=" and ".join(names),
        findings=(*contrast.findings, *adjusted.findings),
    )


def _covariates(seen: SeenPeriod) -> dict[str, float]:
    return {
        name: one.reading.value for name, one in seen.metrics.items() if one.covariate and one.reading.value is not None
    }


def _period_score(period: LivePeriod, outcome: str, rule: OutcomeRule) -> PeriodScore:
    begin, end = period.seen.begin_unix_ms, period.seen.end_unix_ms
    middle = (begin + end) // 2
    samples = _samples(period.seen, outcome)
    early, late = _level(samples, begin, middle, rule), _level(samples, middle, end, rule)
    return PeriodScore(period.block, period.arm, period.score, early, late)


def _samples(seen: SeenPeriod, outcome: str) -> Sequence[Sample]:
    found = next((one for one in seen.metrics.values() if _is(one, outcome)), None)
    return () if found is None else found.samples


def _is(metric: SeenMetric, outcome: str) -> bool:
    return metric.outcome.name == outcome and not metric.covariate


def _level(samples: Iterable[Sample], begin_ms: int, end_ms: int, rule: OutcomeRule) -> float | None:
    """Return the score of the mean sample within a stretch; None without a sample, or if the mean is not above zero."""
    values = [one.value for one in samples if begin_ms <= one.at_ms < end_ms]
    if not values or (mean := statistics.fmean(values)) <= 0:
        return None
    return math.log(mean) if rule.direction == "higher" else -math.log(mean)


def _switch_cost(periods: Sequence[LivePeriod], protocol: Protocol) -> tuple[Finding, ...]:
    """Return a finding on how much worse the primary outcome is in washouts after a switch than in periods.

    Return no finding if there were too few switches.
    """
    rule, outcome = protocol.outcomes[protocol.primary], protocol.primary.removeprefix(f"{LIVE}.")
    losses: dict[bool, list[float]] = {True: [], False: []}
    for period in periods:
        seen, samples = period.seen, _samples(period.seen, outcome)
        after = _level(samples, seen.switched_unix_ms, seen.begin_unix_ms, rule)
        later = _level(samples, seen.begin_unix_ms, seen.end_unix_ms, rule)
        if after is not None and later is not None:
            losses[seen.is_switch].append(later - after)
    if len(losses[True]) < _FEWEST_SWITCHES:
        return ()
    usual = statistics.median(losses[False]) if losses[False] else 0.0
    cost = math.expm1(statistics.median(losses[True]) - usual)
    told = f"about {100 * cost:.0f} % worse than" if cost > _LEAST_COST else "about the same as"
    sentence = f"in the washout after a switch, {outcome} is {told} in the periods; washouts do not count"
    return (Finding(kind="switch-cost", level="note", sentence=sentence, values={"cost": cost}),)
