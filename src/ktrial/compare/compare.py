# SPDX-License-Identifier: Apache-2.0
"""Comparison of arms: checks that they are comparable, asks one question per outcome and words the answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from ktrial.compare.arms import Arm, places, source_of
from ktrial.compare.comparability import Doubt, doubts, failures, findings_of
from ktrial.compare.exclusion import changed_verdicts, dependence_words, moved_intervals
from ktrial.compare.machines import machine_doubts, on_machines, places_there, scope_over
from ktrial.compare.missing import hole_rows, holes_sentence
from ktrial.compare.pairing import pair_sessions
from ktrial.compare.scope import scope_of
from ktrial.compare.sentences import answer_of, contrast_sentence
from ktrial.compare.series import (
    ComparedSeries,
    arm_values,
    coverage_findings,
    find_series,
    margin_of,
    question_of,
    series_of,
)
from ktrial.judge.model.comparison import Comparison, Contrast, Exclusion, OutcomeComparison, Role, StateChange
from ktrial.judge.model.question import Answer, Question
from ktrial.judge.model.verdict import Verdict
from ktrial.kit.errors import UnknownName
from ktrial.kit.finding import CONFOUNDED, Finding
from ktrial.kit.outcome import Outcome
from ktrial.kit.percentile import NOT_PRIMARY

Judge = Callable[[Sequence[Question]], Sequence[Answer]]
#: At least this many failures in one arm and none in the other count as an effect.
MANY_FAILURES = 6
#: Largest probability of all failures falling into one arm at which they count as an effect (one side of 5 %).
RARE = 0.025
_NAMED_CHANGES = 3


class CompareQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the user. `margin` is relative; `declared` are keys that are meant to differ.

    `excluded` maps each run that is left out to the reason. `keep_repeats` also shows outcomes that repeat another
    outcome. With `tiers`, each arm builds on the arm before it and is compared with that arm too. With `pool`, ktrial
    judges the runs of each machine, and the runs of all machines together.
    """

    margin: float | None = None
    primary: str | None = None
    accepted: str | None = None
    declared: tuple[str, ...] = ()
    excluded: Mapping[str, str] = {}
    keep_repeats: bool = False
    tiers: bool = False
    pool: bool = False
    reproduce: tuple[str, ...] = ()
    versions: Mapping[str, str] = {}


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Context of a comparison: outcomes as tools declare them, differences of tunable state, and findings."""

    outcomes: Mapping[tuple[str, str], Outcome] = {}
    state_changes: tuple[StateChange, ...] = ()
    findings: tuple[Finding, ...] = ()


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison that `compare` is working on."""

    control: Arm
    arms: Sequence[Arm]
    asked: CompareQuery
    about: About
    primary: str | None
    order: Mapping[str, int]
    doubts: Sequence[Doubt]
    step_doubts: Sequence[Doubt]

    @property
    def tiers(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.arms) if self.asked.tiers else ()

    def role(self, series: ComparedSeries) -> Role:
        if self.primary is None:
            return "exploratory"
        return "primary" if series.name == self.primary else "secondary"

    def declared(self, series: ComparedSeries) -> Outcome | None:
        tool = series.tool or series.benchmark
        return self.about.outcomes.get((tool, series.outcome))


def foreign_judge(swing: float, *, assumptions: bool = True, alpha: float = 0.05) -> Judge:
    """Return the judge of observational data; it doubts arms whose spread exceeds `swing`.

    Without `assumptions`, the judge does not check the assumptions of its cross-checks.
    """
    from functools import partial

    from ktrial.judge.observational import judge_foreign

    return partial(judge_foreign, swing=swing, assumptions=assumptions, alpha=alpha)


def compare(control: Arm, arms: Sequence[Arm], asked: CompareQuery, about: About, judge: Judge) -> Comparison:
    """Return the comparison of the arms with the control.

    If runs are excluded, the result also holds the comparison of all runs, and the outcomes whose verdict or interval
    depends on the exclusion.
    """
    if asked.pool:
        (control, *arms), findings = on_machines((control, *arms))
    else:
        (control, *arms), paired = pair_sessions((control, *arms))
        findings = () if paired is None else (paired,)
    about = msgspec.structs.replace(about, findings=findings)
    if not asked.excluded:
        return _compare(control, arms, asked, about, judge)
    _check_excluded((control, *arms), asked.excluded)
    whole = _compare(control, arms, asked, about, judge)
    kept = _compare(
        _without_excluded(control, asked), [_without_excluded(arm, asked) for arm in arms], asked, about, judge
    )
    depends = changed_verdicts(kept, whole), moved_intervals(kept, whole)
    reasons = dict.fromkeys(asked.excluded.values())
    runs = {reason: tuple(run for run, why in asked.excluded.items() if why == reason) for reason in reasons}
    finding = Finding(
        kind="excluded-afterwards",
        level="suspect",
        sentence=f"runs excluded after they were measured: {len(asked.excluded)}; {dependence_words(*depends)}",
    )
    return msgspec.structs.replace(
        kept,
        exclusions=tuple(
            Exclusion(what=", ".join(runs[why]), reason=why, runs=runs[why], changed=depends[0], moved=depends[1])
            for why in runs
        ),
        without=whole,
        findings=(*kept.findings, finding),
    )


def _compare(control: Arm, arms: Sequence[Arm], asked: CompareQuery, about: About, judge: Judge) -> Comparison:
    everything = (control, *arms)
    series = series_of(everything)
    named = None if asked.primary is None else find_series(asked.primary, series.values())
    found = (
        *(machine_doubts(everything, asked.declared) if asked.pool else doubts(control, arms, asked.declared)),
        *_state_doubts(about.state_changes),
        *(doubt for arm in arms for doubt in failures(control, arm)),
    )
    case = _Case(
        control=control,
        arms=arms,
        asked=asked,
        about=about,
        primary=None if named is None or named.few_events is not None else named.name,
        order=places_there(everything) if asked.pool else places(everything),
        doubts=found,
        step_doubts=tuple(_step_doubts(everything, asked)),
    )
    ordered = sorted(series.values(), key=lambda one: one.name != case.primary)
    comparable = (one for one in ordered if one.mixed is None and control.name in one.runs and len(one.runs) > 1)
    questions = [_question(one, case) for one in comparable]
    answers = {answer.name: answer for answer in judge(questions)} if questions else {}
    outcomes = tuple(_outcome(one, case, answers.get(one.name)) for one in ordered)
    if not asked.keep_repeats:
        outcomes = _once(outcomes, questions)
    findings = (
        *findings_of((*found, *case.step_doubts)),
        *about.findings,
        *_not_primary(named),
        *coverage_findings(series.values(), everything),
    )
    names = [arm.name for arm in arms]
    scope = scope_over(everything) if asked.pool else scope_of(everything)
    made = Comparison(
        title=f"{' and '.join(names) if len(names) < 3 else f'{len(names)} arms'} against {control.name}",
        answer=answer_of(control.name, names, outcomes, findings, scope, asked.accepted),
        scope=scope,
        control=control.name,
        arms=tuple(source_of(arm) for arm in everything),
        outcomes=outcomes,
        findings=findings,
        state_changes=about.state_changes,
        accepted=asked.accepted,
        reproduce=asked.reproduce,
        versions=asked.versions,
    )
    return msgspec.structs.replace(made, answer=made.answer + holes_sentence(hole_rows(made)))


def _not_primary(named: ComparedSeries | None) -> Iterator[Finding]:
    """Yield a finding if the named primary is a percentile with too few events."""
    few = None if named is None else named.few_events
    if named is not None and few is not None:
        sentence = f"{named.name} was named as primary and is only exploratory: {few.sentence}"
        yield Finding(kind=NOT_PRIMARY, level="suspect", sentence=sentence, values=few.values)


def _question(series: ComparedSeries, case: _Case) -> Question:
    margin = margin_of(series, case.asked.margin)
    asked = question_of(series, case.control.name, case.role(series), margin, case.declared(series), case.order)
    tiers = tuple(tier for tier in case.tiers if tier in series.runs)
    few = series.few_events if case.primary is None else None
    explored = None if few is None else f"only exploratory, because it cannot decide anything: {few.sentence}"
    return msgspec.structs.replace(asked, tiers=tiers, explored=explored, pooled=case.asked.pool)


def _outcome(series: ComparedSeries, case: _Case, answer: Answer | None) -> OutcomeComparison:
    declared, few = case.declared(series), series.few_events
    told = (*(answer.contrasts if answer is not None else _mixed(series, case)), *_never(series, case))
    outcome = OutcomeComparison(
        benchmark=series.benchmark,
        outcome=series.outcome,
        unit=series.unit,
        direction=series.direction,
        role=case.role(series),
        margin=margin_of(series, case.asked.margin),
        arms=arm_values(series, case.order),
        contrasts=(),
        anova=() if answer is None else answer.anova,
        pairwise=() if answer is None else answer.pairwise,
        better="" if declared is None else declared.better,
        worse="" if declared is None else declared.worse,
        blind_spots="" if declared is None else declared.blind_spots,
        findings=(
            *(() if answer is None else answer.findings),
            *(one for one in (few, series.dependent) if one is not None),
        ),
    )
    worded = tuple(_worded(contrast, outcome, case) for contrast in told)
    steps = tuple(_worded(step, outcome, case) for step in (() if answer is None else answer.steps))
    if any(contrast.verdict == "not comparable" for contrast in worded):
        outcome = msgspec.structs.replace(outcome, anova=(), pairwise=())
    return msgspec.structs.replace(outcome, contrasts=worded, steps=steps)


def _worded(contrast: Contrast, outcome: OutcomeComparison, case: _Case) -> Contrast:
    doubted = _doubted(contrast, outcome.benchmark, case)
    return msgspec.structs.replace(doubted, sentence=contrast_sentence(doubted, outcome))


def _step_doubts(arms: Sequence[Arm], asked: CompareQuery) -> Iterator[Doubt]:
    """Yield the doubts on each tier after the first, compared with the tier before it."""
    for before, tier in pairwise(arms[1:]) if asked.tiers else ():
        found = doubts(before, [tier], asked.declared)
        yield from (one for one in found if one.arm == tier.name and one.finding.kind != "not-known")
        yield from failures(before, tier)


def _once(outcomes: Sequence[OutcomeComparison], questions: Sequence[Question]) -> tuple[OutcomeComparison, ...]:
    """Drop outcomes that repeat another outcome.

    The outcome that remains names its repeats, and has a doubt about each repeat that contradicts it.
    """
    from ktrial.judge.stats.duplicates import duplicates

    repeats = duplicates(questions) if len(questions) > 1 else {}
    same: dict[str, list[str]] = {}
    for name, first in repeats.items():
        same.setdefault(first, []).append(name)
    by_name = {one.name: one for one in outcomes}
    shown = []
    for one in outcomes:
        if one.name not in repeats:
            others = [by_name[name] for name in same.get(one.name, ())]
            doubted = (_other_way(one, other) for other in others if _contradict(one, other))
            names = tuple(other.name for other in others)
            shown.append(msgspec.structs.replace(one, same_as=names, findings=(*one.findings, *doubted)))
    return tuple(shown)


def _contradict(one: OutcomeComparison, other: OutcomeComparison) -> bool:
    """Return whether two equivalent outcomes disagree on which direction of change is better."""
    theirs = {contrast.arm: contrast.effect for contrast in other.contrasts}
    products = [
        contrast.effect.estimate * effect.estimate
        for contrast in one.contrasts
        if contrast.effect is not None and (effect := theirs.get(contrast.arm)) is not None
    ]
    known = one.direction is not None and other.direction is not None
    return known and bool(products) and all(product < 0 for product in products)


def _other_way(one: OutcomeComparison, other: OutcomeComparison) -> Finding:
    told = f"{one.direction} of {one.name}, {other.direction} of {other.name}"
    sentence = f"{other.name} repeats {one.name}, but their directions cannot both be right: {told}"
    return Finding(kind="contradicting-direction", level="suspect", sentence=sentence)


def _mixed(series: ComparedSeries, case: _Case) -> Iterator[Contrast]:
    """Yield a contrast with the verdict `not comparable` for each arm if the series has mixed units or directions."""
    if series.mixed is not None and case.control.name in series.runs:
        for arm in case.arms:
            if arm.name in series.runs:
                yield _bare(series, case, arm.name, "not comparable", series.mixed)


def _never(series: ComparedSeries, case: _Case) -> Iterator[Contrast]:
    """Yield a contrast for each arm in which the benchmark always fails, if it never fails in the control."""
    for doubt in case.doubts:
        fails = doubt.finding.kind == "fails-in-one-arm" and doubt.benchmark == series.benchmark
        if fails and doubt.arm not in series.runs and case.control.name in series.runs:
            never = _bare(series, case, doubt.arm, "inconclusive", doubt.finding.sentence)
            yield msgspec.structs.replace(never, findings=tuple(_order_doubts(series.benchmark, doubt.arm, case)))


def _order_doubts(benchmark: str, arm: str, case: _Case) -> Iterator[Finding]:
    """Yield reasons why an arm without values may not be the cause of its failures."""
    from ktrial.judge.observational_verdict import order_check  # imports numpy

    arms = {one.name: one for one in (case.control, *case.arms)}
    here, there = (
        [case.order.get(run.name) for run in arms[name].runs if run.benchmark == benchmark]
        for name in (case.control.name, arm)
    )
    known = [[place for place in places if place is not None] for places in (here, there)]
    if None in here or None in there:
        yield Finding(kind="order-unknown", level="suspect", sentence=order_check("unknown").sentence)
    elif max(known[0]) < min(known[1]) or max(known[1]) < min(known[0]):
        yield Finding(kind="time-and-arm-confounded", level="suspect", sentence=order_check("sequence").sentence)


def _bare(series: ComparedSeries, case: _Case, arm: str, verdict: Verdict, why: str) -> Contrast:
    return Contrast(
        arm=arm,
        control=case.control.name,
        verdict=verdict,
        why=why,
        effect=None,
        worth=None,
        n_arm=len(series.runs.get(arm, ())),
        n_control=len(series.runs[case.control.name]),
        blocks=None,
        test=None,
        sentence="",
    )


def _doubted(contrast: Contrast, benchmark: str, case: _Case) -> Contrast:
    """Return the contrast as `not comparable` if a doubt refuses it, or corrected if only one arm had failures."""
    every = case.doubts if contrast.control == case.control.name else case.step_doubts
    concerned = [doubt.finding for doubt in every if doubt.concerns(contrast.arm, benchmark)]
    refused = [finding for finding in concerned if finding.level == "refuse"]
    if refused and case.asked.accepted is None:
        return msgspec.structs.replace(
            contrast,
            verdict="not comparable",
            why=refused[0].sentence,
            effect=None,
            worth=None,
            test=None,
            cross_checks=(),
            adjusted=None,
            adjusted_for=None,
            findings=(),
            pooled=None,
        )
    failed = next((finding for finding in concerned if finding.kind == "fails-in-one-arm"), None)
    return (
        contrast if failed is None else _with_failures(contrast, failed, _of_benchmark(case, contrast.arm, benchmark))
    )


def _of_benchmark(case: _Case, arm: str, benchmark: str) -> tuple[int, int]:
    arms = {one.name: one for one in (case.control, *case.arms)}
    mine, theirs = (sum(run.benchmark == benchmark for run in arms[name].runs) for name in (arm, case.control.name))
    return mine, theirs


def _with_failures(contrast: Contrast, failed: Finding, runs: tuple[int, int]) -> Contrast:
    """Return the contrast corrected for failures in only one arm, which then cannot be better.

    The arm is worse if it fails often, chance is an unlikely cause, and no other cause is possible.
    """
    mine, theirs = (int(failed.values[name]) for name in (contrast.arm, contrast.control))
    findings = (*contrast.findings, failed)
    count, of_side = max((mine, runs[0]), (theirs, runs[1]))
    chance = math.comb(of_side, count) / math.comb(sum(runs), count)
    told_apart = not any(one.kind in CONFOUNDED for one in contrast.findings)
    if count >= MANY_FAILURES and chance <= RARE and told_apart:
        verdict = "worse" if mine else "better"
        return msgspec.structs.replace(contrast, verdict=verdict, worth="yes", why=failed.sentence, findings=findings)
    if contrast.verdict == ("better" if mine else "worse"):
        return msgspec.structs.replace(
            contrast, verdict="inconclusive", worth=None, why=failed.sentence, findings=findings
        )
    return msgspec.structs.replace(contrast, findings=findings)


def _state_doubts(changes: Iterable[StateChange]) -> Iterator[Doubt]:
    """Yield undeclared differences of the tunable state, arm by arm."""
    undeclared: dict[str, list[StateChange]] = {}
    for change in changes:
        if change.declared is None:
            undeclared.setdefault(change.arm, []).append(change)
    for arm, found in undeclared.items():
        named = ", ".join(
            f"{one.name} {_side(one.control_value)} -> {_side(one.arm_value)}" for one in found[:_NAMED_CHANGES]
        )
        more = f" and {len(found) - _NAMED_CHANGES} more" if len(found) > _NAMED_CHANGES else ""
        sentence = f"the tunable state of {arm} has undeclared differences: {named}{more}"
        finding = Finding(kind="undeclared-state", level="suspect", sentence=sentence, values={arm: float(len(found))})
        yield Doubt(arm=arm, finding=finding)


def _side(text: str | None) -> str:
    if text is None:
        return "(absent)"
    flat = " ".join(text.split())
    return flat if len(flat) <= 30 else f"{flat[:29]}…"


def _check_excluded(arms: Sequence[Arm], excluded: Mapping[str, str]) -> None:
    names = [run.name for arm in arms for run in arm.runs]
    for name in excluded:
        if name not in names:
            raise UnknownName(
                "run of this comparison",
                name,
                names,
                hint=f"write run names like {names[0]}" if names else "leave out the excluded runs",
            )


def _without_excluded(arm: Arm, asked: CompareQuery) -> Arm:
    return msgspec.structs.replace(arm, runs=tuple(run for run in arm.runs if run.name not in asked.excluded))
