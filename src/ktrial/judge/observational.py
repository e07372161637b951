# SPDX-License-Identifier: Apache-2.0
"""The judge of observational data (not collected in random blocks): all contrasts of all questions, judged together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from ktrial.judge.contrasts import ContrastResult, measure
from ktrial.judge.model.comparison import Check, Contrast, Pooled, TestResult
from ktrial.judge.model.question import Answer, Question
from ktrial.judge.model.verdict import Effect
from ktrial.judge.observational_layout import STRETCH, Layout, Runs, Scale, lay_out, read_runs, scale_of
from ktrial.judge.observational_verdict import Case, decide, order_check, worth
from ktrial.judge.outcome_series import OutcomeSeries, analyse, doubts, drift_check, read_series
from ktrial.judge.stats import covariate
from ktrial.judge.stats.diagnostics import equal_variance, normality
from ktrial.judge.stats.duplicates import duplicates
from ktrial.judge.stats.machines import Together, pool_machines
from ktrial.judge.stats.multiplicity import benjamini_hochberg, holm
from ktrial.kit.finding import Finding

#: A tier needs this many blocks in common with the control before its differences from the control can stand for it.
FEWEST_BLOCKS = 2
NO_SHARED_BLOCK = "the two share no block: differences between blocks would be attributed to the arm"
NOT_COMPARABLE = "the two tiers were measured in different sessions, and the control is not in the blocks of both"

_GRAVEST = ("unknown", "sequence", "interleaved")


def lay_out_step(control: Runs, before: Runs, tier: Runs) -> Layout | None:
    """Return the layout of a tier and the tier before it; None if neither shared blocks nor the control link them."""
    if None in (*before.blocks, *tier.blocks) or len(set(before.blocks) & set(tier.blocks)) >= FEWEST_BLOCKS:
        return lay_out(before, tier)
    of_before, of_tier = _to_control(control, before), _to_control(control, tier)
    if of_before is None or of_tier is None:
        return None
    sentence = (
        "the two tiers share no blocks: each is compared through its difference from the control in its own blocks"
    )
    return Layout(
        control=of_before.arm - of_before.control,
        arm=of_tier.arm - of_tier.control,
        unit="block difference",
        order=min(of_before.order, of_tier.order, key=_GRAVEST.index),
        confounded_by=of_before.confounded_by or of_tier.confounded_by,
        findings=(Finding(kind="through-control", level="note", sentence=sentence),),
        runs=(of_before.runs[1], of_tier.runs[1]),
    )


def _to_control(control: Runs, tier: Runs) -> Layout | None:
    """Return the layout of the tier against the control in the blocks that they share; None if these are too few."""
    if None in control.blocks or len(set(control.blocks) & set(tier.blocks)) < FEWEST_BLOCKS:
        return None
    found = lay_out(control, tier)
    return found if found is not None and found.blocked else None


#: Name of the question, arm, and the arm that it is compared with.
Key = tuple[str, str, str]


class ReadCase(msgspec.Struct, frozen=True, kw_only=True):
    """A question prepared for computing, with the scores of each arm that has a value.

    p-values are corrected within a `family`. If the outcome only repeats another outcome, `repeats` names the other.
    """

    question: Question
    scale: Scale
    runs: Mapping[str, Runs]
    family: str
    repeats: str | None

    @property
    def compared(self) -> list[str]:
        control = self.question.control
        return [arm for arm in self.runs if arm != control] if control in self.runs else []

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return all comparisons: each arm against the control, each tier against the tier before it."""
        control = self.question.control
        steps = [pair for pair in self.question.steps if pair[1] != control and {*pair} <= self.runs.keys()]
        return [*((arm, control) for arm in self.compared), *(steps if control in self.runs else ())]


class ForeignQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One contrast with its numbers, before the correction for the other contrasts."""

    read: ReadCase
    arm: str
    against: str
    layout: Layout
    measured: ContrastResult
    pooled: Pooled | None = None

    @property
    def key(self) -> Key:
        return self.read.question.name, self.arm, self.against


class Adjusted(msgspec.Struct, frozen=True, kw_only=True):
    """The p-value of one contrast and its smallest possible value, both corrected for the number of contrasts."""

    p: float
    floor: float
    family: int


#: With more contrasts than this in one call, the checks of single contrasts are skipped, and a finding says so.
DETAILED_CONTRASTS = 600


def judge_foreign(
    questions: Sequence[Question], *, alpha: float = 0.05, swing: float = 0.25, assumptions: bool = True
) -> tuple[Answer, ...]:
    """Return an answer to each question, in order. The names of the questions must differ.

    Without a primary question, p-values are corrected for all distinct questions together. An arm whose (max - min) /
    median is above `swing` gets a finding. Without `assumptions`, ktrial does not test the assumptions of the
    cross-checks.
    """
    repeated = duplicates(questions)
    declared = any(question.role == "primary" for question in questions)
    families = {question.name: _family(question, declared=declared) for question in questions}
    reads = [
        _read(question, families[repeated.get(question.name, question.name)], repeated.get(question.name))
        for question in questions
    ]
    together = {
        (read.question.name, arm, against): pool_machines(read.runs[against], read.runs[arm], read.scale, alpha)
        for read in reads
        if read.question.pooled
        for arm, against in read.pairs
    }
    asked = _ask(reads, together, alpha)
    adjusted = _adjust(asked)
    detailed = len(asked) <= DETAILED_CONTRASTS
    checked = detailed and assumptions
    contrasts: dict[Key, Contrast] = {}
    series = {read.question.name: read_series(read.runs) for read in reads}
    for one in asked:
        contrasts[one.key] = _contrast(one, adjusted[one.key], series[one.read.question.name], alpha, checked)
    for key, whole in together.items():
        if key not in contrasts:
            contrasts[key] = _side_by_side(key, whole, reads)
    return tuple(_answer(read, contrasts, alpha, swing, detailed) for read in reads)


def _family(question: Question, *, declared: bool) -> str:
    if question.explored is not None:
        return "exploratory"
    return question.role if declared else "all"


def _read(question: Question, family: str, repeats: str | None) -> ReadCase:
    scale = scale_of(question)
    runs = {arm: read_runs(values, scale, question.direction) for arm, values in question.arms.items()}
    return ReadCase(
        question=question,
        scale=scale,
        runs={arm: of_arm for arm, of_arm in runs.items() if len(of_arm.scores)},
        family=family,
        repeats=repeats,
    )


def _ask(reads: Sequence[ReadCase], together: Mapping[Key, Together], alpha: float) -> list[ForeignQuery]:
    pairs = [
        (read, arm, against, layout)
        for read in reads
        for arm, against in read.pairs
        if not read.question.pooled and (layout := _layout(read, arm, against)) is not None
    ]
    measured = measure([layout for *_, layout in pairs], [read.scale for read, *_ in pairs], alpha)
    by_name = {read.question.name: read for read in reads}
    return [
        *(
            ForeignQuery(read=read, arm=arm, against=against, layout=layout, measured=numbers)
            for (read, arm, against, layout), numbers in zip(pairs, measured, strict=True)
        ),
        *(
            ForeignQuery(
                read=by_name[name],
                arm=arm,
                against=against,
                layout=one.layout,
                measured=one.measured,
                pooled=one.pooled,
            )
            for (name, arm, against), one in together.items()
            if one.layout is not None and one.measured is not None
        ),
    ]


def _side_by_side(key: Key, together: Together, reads: Sequence[ReadCase]) -> Contrast:
    """Return a contrast without a verdict; its effects are shown side by side, because machines are too few to pool."""
    name, arm, against = key
    read = next(one for one in reads if one.question.name == name)
    silent = _silent(read, arm, against)
    return msgspec.structs.replace(silent, verdict="inconclusive", why=together.why, pooled=together.pooled)


def _layout(read: ReadCase, arm: str, against: str) -> Layout | None:
    control = read.question.control
    if against == control:
        return lay_out(read.runs[control], read.runs[arm])
    return lay_out_step(read.runs[control], read.runs[against], read.runs[arm])


def _adjust(asked: Sequence[ForeignQuery]) -> dict[Key, Adjusted]:
    """Return the corrected p of each contrast. An outcome that repeats another is not counted and shares its p."""
    families: dict[str, list[ForeignQuery]] = {}
    counted = {one.key for one in asked}
    for one in asked:
        if (one.read.repeats, one.arm, one.against) not in counted:
            families.setdefault(one.read.family, []).append(one)
    found: dict[Key, Adjusted] = {}
    for name, members in families.items():
        correct = benjamini_hochberg if name == "exploratory" else holm
        p = correct([one.measured.test.p for one in members]).tolist()
        floors = correct([one.measured.test.floor for one in members]).tolist()
        for one, of_p, of_floor in zip(members, p, floors, strict=True):
            found[one.key] = Adjusted(p=min(1.0, of_p), floor=min(1.0, of_floor), family=len(members))
    for one in asked:
        if one.key not in found:
            found[one.key] = found[str(one.read.repeats), one.arm, one.against]
    return found


def _contrast(one: ForeignQuery, adjusted: Adjusted, series: OutcomeSeries, alpha: float, checked: bool) -> Contrast:
    effect, layout = one.measured.effect, one.layout
    case = _case(one, adjusted, alpha)
    verdict, why, findings = decide(case)
    held = covariate.adjusted(layout, one.read.scale, alpha)
    drifted = drift_check(series, one.arm, one.against, effect.estimate)
    seen = (order_check(layout.order), drifted, series.dependence_of(one.arm, one.against))
    test = msgspec.structs.replace(
        one.measured.test,
        p_adjusted=adjusted.p,
        floor_adjusted=adjusted.floor,
        checks=tuple(check for check in seen if check is not None),
    )
    return Contrast(
        arm=one.arm,
        control=one.against,
        verdict=verdict,
        why=why if one.pooled is None else f"{why}, of {len(one.pooled.together)} machines together",
        effect=effect,
        worth=worth(effect, case.margin) if verdict in {"better", "worse"} else None,
        n_arm=layout.runs[1],
        n_control=layout.runs[0],
        blocks=len(layout.control) if layout.blocked else None,
        test=test,
        cross_checks=_cross_checks(one) if checked else one.measured.cross_checks,
        adjusted=held,
        adjusted_for=None if held is None else covariate.NAME,
        sentence="",
        findings=(*findings, *layout.findings, *_explained(effect, held, drifted), *_dependent(one, series)),
        pooled=one.pooled,
    )


_EXPLORED = "exploratory: only outcomes that were named beforehand are judged"


def _case(one: ForeignQuery, adjusted: Adjusted, alpha: float) -> Case:
    margin, resolution = _margins(one)
    return Case(
        effect=one.measured.effect,
        p_adjusted=adjusted.p,
        floor=one.measured.test.floor,
        floor_adjusted=adjusted.floor,
        family=adjusted.family,
        margin=margin,
        resolution=resolution,
        alpha=alpha,
        direction=one.read.question.direction,
        explored=(one.read.question.explored or _EXPLORED) if one.read.family == "exploratory" else None,
        order=one.layout.order,
        confounded_by=one.layout.confounded_by,
        stretches=f"{len(one.layout.control)}+{len(one.layout.arm)}" if one.layout.unit == STRETCH else None,
        varies=one.measured.varies,
    )


def _margins(one: ForeignQuery) -> tuple[float, float]:
    """Return the margin and the tool's resolution on the scale of the effect, at the median of the control."""
    question = one.read.question
    themselves = one.pooled is None and one.layout.unit != "block difference"
    middle = float(np.median(one.layout.control if themselves else one.read.runs[one.against].scores))
    resolution = question.resolution or 0.0
    if one.read.scale == "difference":
        return question.margin * abs(middle), resolution
    median = math.exp(-middle if question.direction == "lower" else middle)
    return math.log1p(question.margin), math.log1p(resolution / median)


def _cross_checks(one: ForeignQuery) -> tuple[TestResult, ...]:
    """Return the cross-checks; the t-test comes with the checks of its assumptions."""
    if not one.measured.cross_checks:
        return ()
    layout = one.layout
    if layout.blocked:
        seen = [normality("block differences", layout.arm - layout.control)] if one.measured.varies else []
    else:
        seen = [
            normality(one.against, layout.control),
            normality(one.arm, layout.arm),
            equal_variance([layout.control, layout.arm]),
        ]
    checks = tuple(check for check in seen if check is not None)
    return tuple(
        msgspec.structs.replace(test, checks=checks) if test.statistic == "t" else test
        for test in one.measured.cross_checks
    )


def _explained(effect: Effect, held: Effect | None, drifted: Check | None) -> list[Finding]:
    """Return findings on the covariate and on drift, if they may have caused the effect."""
    found = []
    if held is not None and effect.excludes_zero and not held.excludes_zero:
        sentence = f"after correction for {covariate.NAME} no difference beyond chance remains"
        found.append(Finding(kind="covariate-explains", level="suspect", sentence=sentence))
    if drifted is not None and not drifted.holds:
        found.append(Finding(kind="drift", level="suspect", sentence=drifted.sentence))
    return found


def _dependent(one: ForeignQuery, series: OutcomeSeries) -> list[Finding]:
    # Neighbouring runs that are alike count for fewer runs than there are, unless they are paired.
    check = series.dependence_of(one.arm, one.against)
    if check is None or check.holds or one.layout.unit != "run":
        return []
    return [Finding(kind="dependent-runs", level="note", sentence=check.sentence)]


def _answer(read: ReadCase, contrasts: Mapping[Key, Contrast], alpha: float, swing: float, detailed: bool) -> Answer:
    question = read.question
    findings = doubts(question, read.runs, read.scale, swing)
    if read.repeats is not None:
        sentence = f"carries the same information as {read.repeats} and is not counted a second time"
        findings.append(Finding(kind="same-as", level="note", sentence=sentence, values={"outcome": read.repeats}))
    anova, pairwise, left_out = analyse(read.runs, question.control, read.scale, alpha, detailed)
    silent = [arm for arm in question.arms if arm not in read.compared and arm != question.control]
    return Answer(
        name=question.name,
        contrasts=(
            *(
                contrasts.get((question.name, arm, question.control)) or _silent(read, arm, question.control)
                for arm in read.compared
            ),
            *(_silent(read, arm, question.control) for arm in silent),
        ),
        anova=anova,
        pairwise=pairwise,
        findings=(*findings, *left_out),
        steps=tuple(
            contrasts.get((question.name, arm, against)) or _silent(read, arm, against)
            for arm, against in question.steps
        ),
    )


def _silent(read: ReadCase, arm: str, against: str) -> Contrast:
    """Return a contrast that has no numbers, because one side has no value or no block links the two."""
    counts = {name: len(runs.scores) for name, runs in read.runs.items()}
    empty = next((name for name in (against, arm) if name not in counts), None)
    lost = read.question.control not in counts
    apart = NO_SHARED_BLOCK if against == read.question.control else NOT_COMPARABLE
    return Contrast(
        arm=arm,
        control=against,
        verdict="not comparable" if empty is None and not lost else "inconclusive",
        why="the control has no value" if lost else apart if empty is None else f"{empty} has no value",
        effect=None,
        worth=None,
        n_arm=counts.get(arm, 0),
        n_control=counts.get(against, 0),
        blocks=None,
        test=None,
        sentence="",
    )
