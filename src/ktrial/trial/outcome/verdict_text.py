# SPDX-License-Identifier: Apache-2.0
"""Shows the result of a trial on a terminal: the verdict of each arm, then the reasons, then everything else."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.trial_summary import ToldArm, ToldTrial
from ktrial.judge.model.words import effect_text
from ktrial.kit.finding import LEVEL_WORDS
from ktrial.kit.tables import clean, labelled, paragraph, table
from ktrial.reports.ladder import full_picture
from ktrial.reports.order import asked_only, by_level, by_weight, explored
from ktrial.reports.sentences import adjusted_words, blocks_words, count_words, ended_words, notices
from ktrial.trial.outcome.live_view import interval_picture, reach_of

_WORTH = {"yes": "; the change matters", "likely": "; the change is likely to matter", "unclear": ""}
_PICTURE = 23
#: Minimum width in columns of the text beside a picture.
_BESIDE = 64
_LABEL = 10
#: Maximum number of settings of an arm that are named.
_SHOWN = 6


def trial_text(found: Comparison, *, width: int) -> str:
    """Return the trial on one screen; `comparison_text` returns all figures."""
    trial = found.trial
    assert trial is not None, "a comparison that is a trial"
    primary = next((one for one in found.outcomes if one.role == "primary"), None)
    others = explored(found)
    picture = full_picture(found, width=width)
    found = asked_only(found)
    parts = [
        _head(found, trial, primary, width),
        _verdicts(primary, trial, width) if primary is not None else paragraph(found.answer, width=width),
        _noticed(found, width),
        _others(found, width),
        picture or _explored(others, width),
        _rest(found, trial, width),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(found: Comparison, trial: ToldTrial, primary: OutcomeComparison | None, width: int) -> str:
    ended = ended_words(found, trial) or "it is not over"
    lines = [paragraph(f"{found.title}: {blocks_words(trial)}; {ended}", width=width)]
    if primary is not None:
        lines.append(paragraph(f"{primary.name}, {primary.rules}", width=width))
    if any(finding.kind == "guest-clock" for finding in found.findings):
        lines.append(paragraph(f"measured {found.scope}", width=width))
    return "\n".join(lines)


def _verdicts(outcome: OutcomeComparison, trial: ToldTrial, width: int) -> str:
    """Return a line for each arm against the control, with a picture if there is room; then the reasons."""
    placebos = {one.arm for one in trial.arms if one.placebo}
    margin = math.log1p(outcome.margin)
    reach = reach_of(margin, (one.effect for one in outcome.contrasts))
    rows = []
    for one in outcome.contrasts:
        change, interval = effect_text(one.effect, outcome.unit, outcome.direction)
        name = f"{one.arm} (placebo)" if one.arm in placebos - {"placebo"} else one.arm
        row = [name, one.verdict, change, interval]
        rows.append(
            (*row, interval_picture(one.effect, margin, reach, _PICTURE)) if width >= _BESIDE + _PICTURE else row
        )
    headers = ["arm", "verdict", "change", "interval"]
    if width >= _BESIDE + _PICTURE:
        headers.append("worse      0     better")
    lines = [table(headers, rows, width=width)]
    lines += _reasons([(one, one.arm) for one in outcome.contrasts], width)
    adjusted = [words for one in outcome.contrasts if (words := adjusted_words(one, outcome)) is not None]
    lines += [paragraph(words, width=width, indent="  ") for words in adjusted]
    steps = [step for step in outcome.steps if step not in outcome.contrasts]
    if steps:
        lines += ["", _table_of(((outcome, step) for step in steps), width), *_reasons(_with_names(steps), width)]
    return "\n".join(lines)


def _with_names(steps: Sequence[Contrast]) -> list[tuple[Contrast, str]]:
    return [(one, f"{one.arm} to {one.control}") for one in steps]


def _reasons(contrasts: Iterable[tuple[Contrast, str]], width: int) -> list[str]:
    """Return the reasons of the verdicts; arms with the same reason share a line."""
    told: dict[str, list[str]] = {}
    for one, name in contrasts:
        worth = "" if one.worth is None else _WORTH[one.worth]
        told.setdefault(f"{one.why}{worth}", []).append(name)
    return [paragraph(f"{', '.join(names)}: {why}", width=width, indent="  ") for why, names in told.items()]


def _noticed(found: Comparison, width: int) -> str:
    lines = [paragraph(f"{one.arm}: {one.kind}: {one.sentence}", width=width, indent="  ") for one in notices(found)]
    return "\n".join(["What you would notice:", *lines]) if lines else ""


def _others(found: Comparison, width: int) -> str:
    asked = [one for one in by_weight(found.outcomes) if one.role in ("secondary", "guard")]
    pairs = [(outcome, contrast) for outcome in asked for contrast in outcome.contrasts]
    if not pairs:
        return ""
    reasons = [(contrast, f"{outcome.outcome} of {contrast.arm}") for outcome, contrast in pairs]
    return "\n".join(["Also asked:", _table_of(pairs, width), *_reasons(reasons, width)])


def _table_of(pairs: Iterable[tuple[OutcomeComparison, Contrast]], width: int) -> str:
    rows = []
    for outcome, one in pairs:
        shown = outcome.outcome if outcome.role != "guard" else f"{outcome.outcome} (guard)"
        rows.append(
            (
                shown,
                f"{one.arm} to {one.control}",
                one.verdict,
                *effect_text(one.effect, outcome.unit, outcome.direction),
            )
        )
    return table(("outcome", "arm", "verdict", "change", "interval"), rows, width=width)


def _explored(others: Sequence[OutcomeComparison], width: int) -> str:
    if not others:
        return ""
    names = ", ".join(one.outcome for one in others)
    return paragraph(
        f"also recorded, not part of the question (no verdict): {names} (`ktrial trial show --all`)", width=width
    )


def _rest(found: Comparison, trial: ToldTrial, width: int) -> str:
    """Return the skipped settings of each arm, the findings, the scope, and the next commands."""
    lines = [
        labelled(one.arm, told, width=width, label_columns=max(_LABEL, len(one.arm) + 2))
        for one in trial.arms
        if (told := arm_words(one))
    ]
    findings = [
        *found.findings,
        *(one for outcome in found.outcomes for each in outcome.judged for one in each.findings),
    ]
    once = {one.sentence: one for one in by_level(findings)}
    lines += [
        labelled(LEVEL_WORDS[one.level], one.sentence, width=width, label_columns=_LABEL) for one in once.values()
    ]
    void = sum(one.void is not None for one in trial.drawn)
    if void:
        lines.append(
            labelled(
                "void",
                count_words(void, "block does not count", "blocks do not count") + _void_reasons(found, trial),
                width=width,
                label_columns=_LABEL,
            )
        )
    lines.append(labelled("scope", found.scope, width=width, label_columns=_LABEL))
    lines += [f"{label.ljust(_LABEL)}{clean(command)}" for label, command in _next_commands(found, trial)]
    return "\n".join(lines)


def _void_reasons(found: Comparison, trial: ToldTrial) -> str:
    """Return why blocks of a live trial do not count, each reason with its number."""
    if not found.protocol.get("live"):
        return ""
    reasons = Counter(one.void for one in trial.drawn if one.void is not None)
    return ": " + "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in reasons.items())


def _next_commands(found: Comparison, trial: ToldTrial) -> Iterator[tuple[str, str]]:
    """Yield commands for what a person may do with the result, each with a label."""
    yield "page", f"ktrial trial report {trial.trial}"
    yield "check", f"ktrial trial recheck {trial.trial}"
    if trial.ended is None:
        return
    settable = {arm.arm for arm in trial.arms if arm.changes and arm.manual is None}
    judged = [one for outcome in found.outcomes if outcome.role == "primary" for one in outcome.contrasts]
    better = [one.arm for one in judged if one.verdict == "better" and one.arm in settable]
    if better and "[guest]" not in trial.text.splitlines():
        named = trial.trial if len(better) == 1 else f"{trial.trial}/{better[0]}"
        yield "keep", f"ktrial keep {named}"
    yield "again", f"ktrial retest {trial.trial}"
    yield "share", f"ktrial publish {trial.trial} -o FOLDER"


def arm_words(arm: ToldArm) -> str:
    """Return the settings that an arm did not change, because they were in force already or were skipped."""
    refused = [f"{name}: {reason}" for name, reason in arm.refused.items()]
    parts = {"in force already": _first_of(arm.same, ", "), "skipped": _first_of(refused, "; ")}
    return "; ".join(f"{what}: {told}" for what, told in parts.items() if told)


def _first_of(told: Sequence[str], gap: str) -> str:
    more = len(told) - _SHOWN
    return gap.join(told) if more <= 1 else f"{gap.join(told[:_SHOWN])}{gap}and {more} more (the page lists them)"
