# SPDX-License-Identifier: Apache-2.0
"""Shows a trial of sched_ext schedulers: a verdict on each scheduler in every outcome, and which one to use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.verdict import Verdict
from ktrial.judge.model.words import effect_text
from ktrial.kit.finding import LEVEL_WORDS, Finding
from ktrial.kit.tables import clean, labelled, paragraph, table
from ktrial.reports.order import by_level, by_weight, short_names
from ktrial.reports.sentences import blocks_words, ended_words
from ktrial.studies.schedulers import best_arm

_SHOWN: Mapping[Verdict, str] = {"inconclusive": "undecided", "no difference seen": "undecided"}
_LABEL = 10


class SchedulerAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """Which scheduler to use. `use` is the arm to use, or null to change nothing.

    `mode` is null unless scx_loader starts the scheduler.
    """

    line: str
    use: str | None = None
    scheduler: str | None = None
    mode: str | None = None


def advice_of(found: Comparison) -> SchedulerAdvice:
    """Recommend the best scheduler that makes the primary outcome better and no other outcome worse, or the control."""
    asked = _asked_outcomes(found)
    if not asked:
        return SchedulerAdvice(line=clean(f"stay with {found.control}: nothing has been measured yet"))
    names = short_names(asked)
    primary = asked[0]
    real = [one for one in primary.contrasts if one.arm not in _placebos(found)]
    prices = {one.arm: _worse_in(asked, one.arm, names) for one in real if one.verdict == "better"}
    best = best_arm(real, [arm for arm, price in prices.items() if price])
    if best is not None:
        scheduler, mode = _program_of(found, best)
        effect = next(one.effect for one in real if one.arm == best)
        change, _ = effect_text(effect, primary.unit, primary.direction)
        with_mode = f" with mode {mode}" if mode else ""
        why = f"{names[primary.name]} {change} against {found.control}, and worse in no other outcome"
        line = clean(f"use {scheduler}{with_mode}: {why}")
        return SchedulerAdvice(line=line, use=best, scheduler=scheduler, mode=mode)
    if prices:
        arm, price = next(iter(prices.items()))
        why = f"{arm} is better in {names[primary.name]}, but worse in {', '.join(price)}"
    else:
        why = f"no scheduler is shown to be better in {names[primary.name]}"
    return SchedulerAdvice(line=clean(f"stay with {found.control}: {why}"))


def schedulers_text(found: Comparison, failures: Mapping[str, Sequence[str]], *, width: int) -> str:
    """Return the table, the reasons of failed runs, the doubts, and the advice. `failures` has the reasons by arm."""
    trial = found.trial
    assert trial is not None, "a comparison that is a trial"
    asked = _asked_outcomes(found)
    ended = ended_words(found, trial) or "it is not over"
    notes = [(LEVEL_WORDS[one.level], one.sentence) for one in _doubts(found, asked)]
    notes += [("scope", found.scope), ("page", f"ktrial trial report {trial.trial}")]
    advice = advice_of(found)
    parts = [
        paragraph(f"{found.title}: {blocks_words(trial)}; {ended}", width=width),
        _table(found, asked, width),
        _failed(found, failures, width),
        "\n".join(labelled(name, text, width=width, label_columns=_LABEL) for name, text in notes),
        paragraph(advice.line, width=width),
        f"to make it last: `ktrial keep {trial.trial}/{advice.use}`" if advice.use is not None else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _asked_outcomes(found: Comparison) -> list[OutcomeComparison]:
    return [one for one in by_weight(found.outcomes) if one.role != "exploratory"]


def _placebos(found: Comparison) -> set[str]:
    return {one.arm for one in found.trial.arms if one.placebo} if found.trial is not None else set()


def _table(found: Comparison, asked: Sequence[OutcomeComparison], width: int) -> str:
    names = short_names(asked)
    rows = []
    for source in found.arms:
        if source.arm == found.control:
            continue
        name = f"{source.arm} (placebo)" if source.arm in _placebos(found) - {"placebo"} else source.arm
        for outcome in asked:
            contrast = next((one for one in outcome.contrasts if one.arm == source.arm), None)
            rows.append((name, names[outcome.name], *_cells(contrast, outcome)))
            name = ""
    return table(("scheduler", "outcome", "verdict", "change", "interval"), rows, width=width)


def _cells(contrast: Contrast | None, outcome: OutcomeComparison) -> tuple[str, str, str]:
    if contrast is None:
        return "no value", "-", "-"
    return _SHOWN.get(contrast.verdict, contrast.verdict), *effect_text(
        contrast.effect, outcome.unit, outcome.direction
    )


def _failed(found: Comparison, failures: Mapping[str, Sequence[str]], width: int) -> str:
    runs = {one.arm: one.runs for one in found.arms}
    lines = []
    for arm, reasons in failures.items():
        count = f"{arm}: {len(reasons)} failed run{'s'[: len(reasons) != 1]}"
        of = f" of {runs[arm]}" if runs.get(arm, 0) >= len(reasons) else ""
        lines.append(paragraph(f"{count}{of}; the last: {clean(reasons[-1])}", width=width))
    return "\n".join(lines)


def _worse_in(asked: Sequence[OutcomeComparison], arm: str, names: Mapping[str, str]) -> list[str]:
    """Return the outcomes in which the arm is worse, or breaks its guard."""
    return [
        names[outcome.name]
        for outcome in asked
        for one in outcome.contrasts
        if one.arm == arm and (one.verdict == "worse" or any(found.kind == "guard-broken" for found in one.findings))
    ]


def _program_of(found: Comparison, arm: str) -> tuple[str, str | None]:
    """Return the program of an arm's scheduler without its folder, and the mode in scx_loader or None."""
    scheduler = found.protocol["arms"][arm]["sched_ext"]
    return scheduler["run"][0].rpartition("/")[2], scheduler.get("mode")


def _doubts(found: Comparison, asked: Sequence[OutcomeComparison]) -> Iterator[Finding]:
    """Yield the findings on the trial and its primary outcome, the gravest first, without notes."""
    findings = [*found.findings, *(finding for one in (asked[0].judged if asked else ()) for finding in one.findings)]
    for one in by_level({one.sentence: one for one in findings}.values()):
        if one.level != "note":
            yield one
