# SPDX-License-Identifier: Apache-2.0
"""Shows a comparison of commands: the times of each command, and a summary that names the faster command."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ktrial.judge.model.comparison import ArmValues, Comparison, Contrast, OutcomeComparison, Role
from ktrial.judge.model.words import effect_phrase, interval_phrase, times_range, times_words, value_log_ratio
from ktrial.kit.finding import LEVEL_WORDS, Finding
from ktrial.kit.tables import clean, labelled, paragraph
from ktrial.kit.units import show_bytes, show_seconds, three_digits
from ktrial.reports.order import by_level
from ktrial.trial.protocol.campaign import CampaignDecision
from ktrial.trial.protocol.from_commands import command_line, shown_name

_LABEL = 10


def commands_of(found: Comparison) -> dict[str, str]:
    """Return the displayed name of each arm that measures a command."""
    arms: Mapping[str, Mapping[str, Sequence[str]]] = (found.protocol or {})["arms"]
    control = arms[found.control]
    lines = {name: command_line(arm.get("command") or control["command"]) for name, arm in arms.items()}
    return {name: clean(shown_name(name, line)) for name, line in lines.items()}


def commands_text(found: Comparison, *, width: int) -> str:
    """Return the times of each command, the summary, and the doubts about the result."""
    called = commands_of(found)
    primary = next((one for one in found.outcomes if one.role == "primary"), None)
    parts = [_times_of(found, primary, values, called, width) for values in (primary.arms if primary else ())]
    summary = summary_lines(found) or ["no block is complete yet"]
    summary += summary_lines(found, role="secondary")
    parts.append("\n".join(["Summary", *(paragraph(line, width=width, indent="  ") for line in summary)]))
    parts.append("\n".join(_rest(found, width)))
    return "\n\n".join(part for part in parts if part) + "\n"


def _times_of(
    found: Comparison, primary: OutcomeComparison | None, values: ArmValues, called: Mapping[str, str], width: int
) -> str:
    assert primary is not None, "its values are shown"
    show = {"s": show_seconds, "B": show_bytes}.get(primary.unit, three_digits)
    spread = "" if values.sd is None else f" ± {show(values.sd)}"
    lines = [paragraph(called[values.arm], width=width)]
    runs = f"{values.n} run{'s'[: values.n != 1]}"
    lines.append(f"  {primary.outcome} (mean ± sd): {show(values.mean)}{spread}, {runs}")
    lines.append(f"  range: {show(values.minimum)} to {show(values.maximum)}, median {show(values.median)}")
    used = [
        f"{outcome.outcome} {show_seconds(statistics.fmean(point.value for point in each.points))}"
        for outcome in found.outcomes
        for each in outcome.arms
        if outcome.outcome in {"user", "system"} and each.arm == values.arm and outcome is not primary
    ]
    return "\n".join([*lines, f"  CPU time: {', '.join(sorted(used, reverse=True))}"] if used else lines)


def summary_lines(found: Comparison, *, reasons: bool = True, role: Role = "primary") -> list[str]:
    """Return a sentence for each command after the first, which compares the command with the first command."""
    called = commands_of(found)
    return [
        _sentence(one if reasons else msgspec.structs.replace(one, why=""), outcome, called)
        for outcome in found.outcomes
        if outcome.role == role
        for one in outcome.contrasts
    ]


def _sentence(one: Contrast, outcome: OutcomeComparison, called: Mapping[str, str]) -> str:
    arm, control = called[one.arm], called[one.control]
    both = f"`{arm}` and `{control}`"
    if one.arm != one.control and arm == control:
        both = f"`{control}` and the same again"
    blocks = f"{one.blocks} block{'s'[: one.blocks != 1]}"
    is_speed = outcome.role == "primary" and outcome.unit == "s"
    about = "" if outcome.role == "primary" else f"{outcome.outcome}: "
    if one.effect is None or one.verdict == "not comparable":
        return f"{about}{both}: {one.verdict} ({one.why})"
    interval = interval_phrase(one.effect, outcome.unit, outcome.direction)
    if one.verdict == "equivalent":
        same = "are equally fast" if is_speed else f"have the same {outcome.outcome}"
        return f"{about}{both} {same}: any difference is below {100 * outcome.margin:g} % ({interval}, {blocks})"
    if one.verdict not in {"better", "worse"}:
        told = f"{about}undecided: {both} ({interval + ', ' if interval else ''}{blocks})"
        return f"{told}; {one.why}" if one.why else told
    if not is_speed or one.effect.scale != "log" or one.effect.low is None or one.effect.high is None:
        phrase = effect_phrase(one.effect, outcome.unit, outcome.direction)
        return f"{about}`{arm}` is {one.verdict} than `{control}`: {phrase} ({interval}, {blocks})"
    faster, slower = (arm, control) if one.verdict == "better" else (control, arm)
    change = abs(value_log_ratio(one.effect.estimate, outcome.direction))
    name = f"{100 * one.effect.confidence:.4g} % interval"
    times = f"{name} {times_range(abs(one.effect.low), abs(one.effect.high))}"
    return f"`{faster}` ran {times_words(-change, 's')} as `{slower}` ({times}, {blocks})"


def _doubts(found: Comparison) -> Iterator[Finding]:
    """Yield the findings on the trial and its primary outcome, the gravest first, without notes."""
    judged = [one for outcome in found.outcomes if outcome.role == "primary" for one in outcome.judged]
    findings = [*found.findings, *(finding for one in judged for finding in one.findings)]
    for one in by_level({one.sentence: one for one in findings}.values()):
        if one.level != "note":
            yield one


def doubts_of(found: Comparison) -> list[str]:
    return [one.sentence for one in _doubts(found)]


def _rest(found: Comparison, width: int) -> Iterator[str]:
    for one in _doubts(found):
        yield labelled(LEVEL_WORDS[one.level], one.sentence, width=width, label_columns=_LABEL)
    if found.trial is not None:
        yield labelled("scope", found.scope, width=width, label_columns=_LABEL)
        yield labelled("page", f"ktrial trial report {found.trial.trial}", width=width, label_columns=_LABEL)
        yield labelled("check", f"ktrial trial recheck {found.trial.trial}", width=width, label_columns=_LABEL)


def decision_line(decision: CampaignDecision, found: Comparison) -> str:
    """Return the decision to keep or revert, its reason and its place in the campaign, in one line."""
    why = "; ".join(summary_lines(found, reasons=False)) or "no block is complete"
    place = f"decision {decision.number} of {decision.of} in campaign {decision.campaign}"
    return clean(f"{decision.decision}: {why}; {place}") + "\n"
