# SPDX-License-Identifier: Apache-2.0
"""Render a comparison as text for a terminal: the answer, the verdicts, the figures of each arm, the doubts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from ktrial.bench.text import number, percent, scale_for
from ktrial.compare.missing import HoleRow, hole_rows
from ktrial.judge.model.comparison import ArmSource, Comparison, Contrast, OutcomeComparison, StateChange
from ktrial.judge.model.words import effect_text
from ktrial.kit.finding import LEVEL_WORDS, Finding
from ktrial.kit.tables import labelled, paragraph, shorten, table
from ktrial.reports.ladder import full_picture
from ktrial.reports.machines import HEADERS, machine_rows
from ktrial.reports.order import explored
from ktrial.reports.run_conditions import by_arm
from ktrial.reports.sections import tier_rows
from ktrial.reports.sentences import adjusted_words

_BETTER = {"lower": "less", "higher": "more", None: "?"}
#: The most state changes that are shown; --json has all.
_SHOWN_CHANGES = 10
_LONGEST = 40


def comparison_text(found: Comparison, *, width: int) -> str:
    """Return the report; numbers after a verdict refer to the doubts below the table."""
    notes = _NumberedNotes()
    parts = [
        paragraph(found.answer, width=width),
        _arms(found.arms, found.control, width),
        _verdicts(found, notes, width),
        full_picture(found, width=width),
        _machines(found, width),
        _tiers(found, notes, width),
        notes.text(width),
        _figures(found.outcomes, width),
        *(_pairs(outcome, width) for outcome in found.outcomes if len(outcome.arms) > 2),
        _conditions(found, width),
        _states(found.state_changes, width),
        _exclusions(found, width),
        _findings(found, width),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


class _NumberedNotes:
    """Numbers the findings of contrasts and outcomes in the order in which they first appear."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._levels: dict[str, str] = {}

    def marks(self, findings: Iterable[Finding]) -> str:
        """Return the numbers of findings, such as `1,3`."""
        numbers = []
        for one in findings:
            self._levels.setdefault(one.sentence, LEVEL_WORDS[one.level])
            numbers.append(self._numbers.setdefault(one.sentence, len(self._numbers) + 1))
        return ",".join(str(place) for place in sorted(set(numbers)))

    def text(self, width: int) -> str:
        return "\n".join(
            labelled(f"  {place}", f"{self._levels[sentence]}: {sentence}", width=width, label_columns=5)
            for sentence, place in self._numbers.items()
        )


def _arms(arms: Sequence[ArmSource], control: str, width: int) -> str:
    rows = []
    for one in arms:
        lost = [f"{count} {word}" for count, word in ((one.failed, "failed"), (one.void, "void")) if count]
        rows.append(
            (
                f"{one.arm} (control)" if one.arm == control else one.arm,
                ", ".join([f"{one.runs} good", *lost]),
                "?" if one.boots is None else str(one.boots),
                one.known.get("kernel", "?"),
                _some([name.rsplit("/", 1)[-1] for name in one.sources]),
            )
        )
    return table(("arm", "runs", "boots", "kernel", "from"), rows, width=width)


def _verdicts(found: Comparison, notes: _NumberedNotes, width: int) -> str:
    outcomes, holes, unasked = found.outcomes, hole_rows(found), explored(found)
    rows = []
    for outcome in outcomes:
        for place, contrast in enumerate(outcome.contrasts):
            findings = (*contrast.findings, *(outcome.findings if place == 0 else ()))
            word = "explored" if outcome in unasked else contrast.verdict
            row = _row(contrast, outcome, word)
            rows.append((_name(outcome) if place == 0 else "", *row, notes.marks(findings)))
    if not rows and not holes:
        return "The control and the other arms have no outcome in common."
    judged = len(rows)
    rows += [_hole(hole) for hole in holes]
    headers = ("outcome", "arm", "change", "interval", "verdict", "n", "doubts")
    lines = [table(headers, rows, width=width)]
    reasons: dict[str, list[str]] = {}
    for outcome in outcomes:
        for contrast in outcome.contrasts:
            reasons.setdefault(contrast.why, []).append(f"{outcome.name} {contrast.arm}")
    every = "all others" if holes else "all"
    lines += [
        paragraph(f"{every if len(names) == judged > 1 else _some(names)}: {why}", width=width, indent="  ")
        for why, names in reasons.items()
    ]
    lines += _hole_reasons(holes, width)
    lines += [
        paragraph(f"{one.name} says the same as these, not shown: {', '.join(one.same_as)}", width=width, indent="  ")
        for one in outcomes
        if one.same_as
    ]
    lines += [
        paragraph(f"{outcome.name} {words}", width=width, indent="  ")
        for outcome in outcomes
        for contrast in outcome.contrasts
        if (words := adjusted_words(contrast, outcome)) is not None
    ]
    return "\n".join(lines)


def _hole(row: HoleRow) -> tuple[str, ...]:
    name = row.benchmark if row.outcome is None else f"{row.benchmark} {row.outcome}"
    return (name, row.arm, "-", "-", "not comparable", f"{row.n_control}+{row.n_arm}", "")


def _hole_reasons(holes: Sequence[HoleRow], width: int) -> list[str]:
    """Return a line for each reason why values are missing, with the benchmarks that lack them."""
    reasons: dict[str, list[str]] = {}
    for row in holes:
        reasons.setdefault(row.why, []).append(row.benchmark)
    return [
        paragraph(f"{', '.join(dict.fromkeys(names))}: {why}", width=width, indent="  ")
        for why, names in reasons.items()
    ]


def _machines(found: Comparison, width: int) -> str:
    """Return each machine, their mean, and the prediction for a new machine."""
    parts = []
    for (name, arm), group in groupby(machine_rows(found), key=lambda row: (row.outcome, row.arm)):
        rows = list(group)
        parts.append(paragraph(f"{name}, {arm} against {found.control}, machine by machine:", width=width))
        parts.append(table(HEADERS[2:6], [row[2:6] for row in rows], width=width))
        parts += [paragraph(f"{row.machine}: {row.why}", width=width, indent="  ") for row in rows if row.why]
    return "\n".join(parts)


def _tiers(found: Comparison, notes: _NumberedNotes, width: int) -> str:
    """Return each tier against the one before it and the control, outcome by outcome."""
    steps = {(one.name, step.arm): step for one in found.outcomes for step in one.steps}
    headers = ("tier", "to", "step", "interval", "verdict", f"to {found.control}", "doubts")
    parts = []
    for name, group in groupby(tier_rows(found), key=lambda row: row.outcome):
        rows, why = [], []
        for row in group:
            total = "-" if row.total_verdict is None else f"{row.total} {row.total_verdict}"
            marks = notes.marks(steps[name, row.tier].findings)
            rows.append((row.tier, row.against, row.step, row.interval, row.verdict, total, marks))
            if row.against != found.control:
                why.append(paragraph(f"{row.tier} to {row.against}: {row.why}", width=width, indent="  "))
        parts += [paragraph(f"{name}, tier by tier:", width=width), table(headers, rows, width=width), *why]
    return "\n".join(parts)


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:3], f"{len(names) - 3} more"] if len(names) > 3 else names)


def _name(outcome: OutcomeComparison) -> str:
    star = "*" if outcome.role == "primary" else ""
    return f"{outcome.benchmark} {outcome.outcome}{star}"


def _row(contrast: Contrast, outcome: OutcomeComparison, word: str) -> tuple[str, ...]:
    effect = effect_text(contrast.effect, outcome.unit, outcome.direction)
    return (contrast.arm, *effect, word, f"{contrast.n_control}+{contrast.n_arm}")


def _figures(outcomes: Sequence[OutcomeComparison], width: int) -> str:
    rows = []
    for outcome in outcomes:
        largest = max((abs(arm.median) for arm in outcome.arms), default=0.0)
        scale = scale_for(largest, outcome.unit)
        unit = scale[1] or outcome.unit
        for place, arm in enumerate(outcome.arms):
            name = f"{_name(outcome)} ({unit}, {_BETTER[outcome.direction]})" if place == 0 else ""
            figures = (arm.mean, arm.median, arm.sd, arm.minimum, arm.maximum)
            mean, median, sd, low, high = ("-" if one is None else number(one, scale) for one in figures)
            rows.append((name, arm.arm, str(arm.n), mean, median, sd, percent(arm.cv), low, high))
    headers = ("outcome (unit, better)", "arm", "n", "mean", "median", "sd", "CV", "min", "max")
    return table(headers, rows, width=width) if rows else ""


def _pairs(outcome: OutcomeComparison, width: int) -> str:
    """Return analyses of variance, and all pairs of arms."""
    lines = []
    for anova in outcome.anova:
        residual = next((row.df for row in anova.rows if row.f is None), None)
        factors = [
            f"{row.source} F({row.df:g}, {residual:g}) = {row.f:.4g}, p {_p(row.p)}"
            for row in anova.rows
            if row.f is not None and row.p is not None and residual is not None
        ]
        note = f" ({anova.note})" if anova.note else ""
        lines.append(paragraph(f"{_name(outcome)}, {anova.name}: {'; '.join(factors) or '-'}{note}", width=width))
    for pairwise in outcome.pairwise:
        rows = []
        for pair in pairwise.pairs:
            effect = effect_text(pair.effect, outcome.unit, outcome.direction)
            figures = (f"{pair.statistic:.4g}", _p(pair.p_adjusted), "yes" if pair.differs else "not shown")
            rows.append((f"{pair.second} to {pair.first}", *effect, *figures))
        lines.append(
            paragraph(f"{_name(outcome)}, all pairs by {pairwise.method} (a cross-check, no verdict):", width=width)
        )
        lines.append(table(("pair", "change", "interval", pairwise.statistic, "p", "differs"), rows, width=width))
    return "\n".join(lines)


def _p(value: float) -> str:
    return "<1e-6" if value < 1e-6 else f"{value:.2g}"


def _conditions(found: Comparison, width: int) -> str:
    """Return median, minimum and maximum of the conditions of each arm's runs."""
    rows = by_arm(found)
    return table(("conditions of runs", *(one.arm for one in found.arms)), rows, width=width) if rows else ""


def _states(changes: Sequence[StateChange], width: int) -> str:
    if not changes:
        return ""
    rows = [
        (one.arm, one.name, _side(one.control_value), _side(one.arm_value), one.declared or "nobody")
        for one in changes[:_SHOWN_CHANGES]
    ]
    lines = ["What else differs in the tunable state:"]
    lines.append(table(("arm", "what", "control", "arm's", "declared by"), rows, width=width))
    if len(changes) > _SHOWN_CHANGES:
        lines.append(f"… {len(changes) - _SHOWN_CHANGES} more (--json has all)")
    return "\n".join(lines)


def _side(text: str | None) -> str:
    if text is None:
        return "(absent)"
    return shorten(" ".join(text.split()), _LONGEST)


def _exclusions(found: Comparison, width: int) -> str:
    if found.without is None:
        return ""
    lines = [
        paragraph(f"Excluded after the runs: {one.what}, because {one.reason}", width=width) for one in found.exclusions
    ]
    whole = {(one.name, each.arm): (one, each) for one in found.without.outcomes for each in one.contrasts}
    rows = []
    for outcome in found.outcomes:
        for contrast in outcome.contrasts:
            other = whole.get((outcome.name, contrast.arm))
            sides = [(outcome, contrast), other] if other is not None else [(outcome, contrast)]
            for place, (one, each) in enumerate(sides):
                first = (_name(outcome), contrast.arm, "without these") if place == 0 else ("", "", "all")
                rows.append((*first, *effect_text(each.effect, one.unit, one.direction), each.verdict))
    lines.append(table(("outcome", "arm", "runs", "change", "interval", "verdict"), rows, width=width))
    return "\n".join(lines)


def _findings(found: Comparison, width: int) -> str:
    lines = [labelled("scope", found.scope, width=width)]
    if found.protocol_sha256 is not None:
        lines.append(labelled("protocol", f"SHA-256 {found.protocol_sha256}", width=width))
    if found.accepted is not None:
        lines.append(labelled("accepted", found.accepted, width=width))
    lines += [labelled(LEVEL_WORDS[one.level], one.sentence, width=width) for one in found.findings]
    return "\n".join(lines)
