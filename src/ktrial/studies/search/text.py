# SPDX-License-Identifier: Apache-2.0
"""Shows a search as text: the space, its state after each trial, and the answer."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

from ktrial.bench.text import duration
from ktrial.judge.model.words import effect_text, percent_text, range_text, size_text, value_log_ratio
from ktrial.kit.tables import paragraph, table
from ktrial.studies.search.course import fewest_visits
from ktrial.studies.search.model import FrontPoint, SearchAnswer, SearchProgress, SearchQuestion
from ktrial.studies.search.space import Dimension, Scalar, plain

_ENDINGS: Mapping[str, str] = {
    "confirmed": "a fresh trial confirms the best settings",
    "nothing found": "nothing found",
    "budget too small": "the budget is too small",
    "nothing could be tried": "nothing could be tried",
}


#: Unconfirmed points that the text shows; the page has all.
_MOST_UNCONFIRMED = 4
FRONT_HEADERS = ("point", "outcome", "change", "interval", "the trial", "the search's estimate")
FRONT_NOTE = (
    "All verdicts of the trial share an error of 5 %, and its intervals hold together at 95 %. The search's estimates "
    "are not a result. The trial compares each point with the control, not with other points."
)


def space_text(question: SearchQuestion, *, width: int) -> str:
    """Return the dimensions, the rules and what is left out, and what the budget allows."""
    space = question.space
    rows = [(one.name, values_text(one), plain(one.default), conditions_text(one)) for one in space.dimensions]
    lines = [table(("dimension", "values", "control", "only if"), rows, width=width, whole=1), ""]
    if space.constraints:
        lines.append(paragraph(f"always: {'; '.join(rule.text for rule in space.constraints)}", width=width))
    lines += [paragraph(f"left out: {name}: {why}", width=width, indent="  ") for name, why in space.left_out.items()]
    size = space.size
    points = "an endless number of points" if size is None else f"at most {size} points"
    lines.append(f"{points}; budget {duration(question.budget_s)}")
    if question.visit_s:
        visits, fewest = int(question.budget_s / question.visit_s), fewest_visits(question.outcomes)
        lines.append(f"about {visits} visits of {duration(question.visit_s)}; a search needs at least {fewest}")
    else:
        lines.append("the time of a visit is unknown; the first trial shows it")
    if question.trial.guest is not None:
        lines.append("each visit boots a guest; checking a point first takes one more boot")
    return "\n".join(lines) + "\n"


def values_text(one: Dimension) -> str:
    """Return a list such as `a, b`, or a range such as `1 to 64 in steps of 2, logarithmic`."""
    if not one.is_range:
        return ", ".join(map(plain, one.values))
    assert one.low is not None, "a range has both ends"
    assert one.high is not None, "a range has both ends"
    step = f" in steps of {plain(one.step)}" if one.step is not None else ""
    return f"{plain(one.low)} to {plain(one.high)}{step}{', logarithmic' if one.log else ''}"


def conditions_text(one: Dimension) -> str:
    """Return when a dimension matters; `-` if always."""
    return " and ".join(rule.text for rule in one.when) or "-"


def settings_text(changes: Mapping[str, Scalar]) -> str:
    """Return settings as a user writes them."""
    return " ".join(shlex.quote(f"{name}={plain(value)}") for name, value in changes.items())


def progress_text(now: SearchProgress) -> str:
    """Return where a search is after a trial: the time spent, the time left, and the best point."""
    lines = [f"{now.points} point{'s'[: now.points != 1]} in {now.visits} visits"]
    left_s = max(0.0, now.budget_s - now.spent_s)
    lines.append(f"{duration(now.spent_s)} spent, at most about {duration(left_s)} left")
    if now.front:
        lines.append(f"{now.front} point{'s'[: now.front != 1]} on the front so far, unconfirmed")
        return "; ".join(lines)
    if now.best and now.estimate is not None:
        ends = range_text(*(value_log_ratio(end, now.direction) for end in now.estimate[1:]))
        lines.append(f"best so far, unconfirmed: {settings_text(now.best)} ({ends})")
    else:
        lines.append("the control is the best so far")
    return "; ".join(lines)


def search_text(found: SearchAnswer, *, width: int) -> str:
    """Return the answer, what the search estimated, what each dimension does, and the next steps."""
    if found.front:
        return _front_text(found, width)
    lines = [paragraph(f"{found.name}: {_ENDINGS[found.ending]}", width=width), ""]
    if found.ending != "confirmed":
        lines.append(paragraph(found.reason, width=width))
    if found.needed_s is not None:
        lines.append(paragraph(f"use --budget {_minutes(found.needed_s)} or more", width=width))
    lines += _candidate_lines(found, width)
    lines += _detail_lines(found, width)
    lines.append(paragraph(f"{found.runs} runs in {len(found.trials)} trials, {duration(found.seconds)}", width=width))
    lines += _next_lines(found)
    return "\n".join(lines) + "\n"


def _front_text(found: SearchAnswer, width: int) -> str:
    """Return the front: each point's settings, what the trial and the search say of it, and how to keep one."""
    lines = [paragraph(f"{found.name}: {found.reason}", width=width), ""]
    tried = [one for one in found.front if one.arm is not None]
    others = [one for one in found.front if one.arm is None]
    shown = [*tried, *others[:: max(1, math.ceil(len(others) / _MOST_UNCONFIRMED))]]
    rows = [(one.name, settings_text(one.changes), front_state(one)) for one in shown]
    lines += [table(("point", "settings", "state"), rows, width=width, whole=1), ""]
    lines += [table(FRONT_HEADERS, front_rows(found, shown), width=width, whole=1), ""]
    if len(shown) < len(found.front):
        lines.append(f"{len(found.front) - len(shown)} more unconfirmed points: see -o FILE.html or --json")
    lines.append(paragraph(FRONT_NOTE, width=width))
    lines += _detail_lines(found, width)
    lines.append(paragraph(f"{found.runs} runs in {len(found.trials)} trials, {duration(found.seconds)}", width=width))
    for one in found.front:
        if one.state == "confirmed" and (words := found.words_of(one.changes)):
            lines.append(f"apply {one.name}: ktrial apply {' '.join(map(shlex.quote, words))}")
            lines.append(f"keep {one.name}: ktrial keep {found.confirmed_by}/{one.arm}")
    return "\n".join(lines) + "\n"


def front_state(one: FrontPoint) -> str:
    """Return the state of a point of the front, and the reason if there is one."""
    if one.reason is None or one.state == "breaks a guard":
        return one.reason or one.state
    return f"{one.state}: {one.reason}"


def front_rows(found: SearchAnswer, points: Sequence[FrontPoint]) -> list[tuple[str, ...]]:
    """Return a row for each point and outcome: the trial's change, interval and verdict, and the search's estimate."""
    rows: list[tuple[str, ...]] = []
    for one in points:
        for outcome, direction in found.directions.items():
            mean, low, high = (value_log_ratio(value, direction) for value in one.estimates[outcome])
            change, interval = effect_text(one.effects.get(outcome), "count", direction)
            verdict = str(one.verdicts.get(outcome) or "-")
            rows.append(
                (one.name, outcome, change, interval, verdict, f"{percent_text(mean)} ({range_text(low, high)})")
            )
    return rows


def _candidate_lines(found: SearchAnswer, width: int) -> list[str]:
    if not found.candidate:
        return []
    rows = [(name, plain(value)) for name, value in found.candidate.items()]
    lines = [table(("best settings" if found.winner else "best candidate", "value"), rows, width=width, whole=1), ""]
    answers = []
    if found.effect is not None and found.confirmed_by is not None:
        ends = [found.effect.low, found.effect.high]
        shown = [
            _change(found, found.effect.estimate),
            _range(found, ends),
            f"{found.verdict}, by {found.confirmed_by}{_on_machines(found)}",
        ]
        answers.append(("the trial", *shown))
    if found.estimate is not None:
        mean, low, high = found.estimate
        answers.append(("the search's estimate", _change(found, mean), _range(found, [low, high]), "not a result"))
    lines += [table((str(found.outcome), "change", "interval", ""), answers, width=width), ""]
    for one in found.removals:
        what = "is removed" if one.removed else "stays"
        lines.append(f"without {one.dimension}: {one.verdict or 'undecided'}; the setting {what}")
    return lines


def _detail_lines(found: SearchAnswer, width: int) -> list[str]:
    lines = []
    if found.detectable is not None and found.ending != "confirmed":
        size = size_text(math.log1p(found.detectable))
        text = f"This budget finds an effect of {size} in 9 of 10 searches; smaller effects may exist."
        lines.append(paragraph(text, width=width))
    if found.importance:
        rows = [
            (one.dimension, size_text(one.range), f"{size_text(one.low)} to {size_text(one.high)}")
            for one in found.importance
        ]
        what = f"moves {found.outcome} by" if found.front else "moves it by"
        lines += ["", table(("dimension", what, "90 % interval"), rows, width=width, whole=1), ""]
    lines += [paragraph(f"crashes: {one.text} ({one.failures} points)", width=width) for one in found.crashes]
    lines += [paragraph(f"refused: {why}", width=width) for why in found.refused]
    return lines


def _next_lines(found: SearchAnswer) -> list[str]:
    if not found.winner:
        return []
    lines = []
    if found.in_guests:
        lines.append("measured in guests: measure it on this machine too before you keep it")
    if found.boot_words:
        lines.append(f"boot: ktrial boot try {shlex.join(found.boot_words)}")
    if found.words:
        lines.append(f"apply: ktrial apply {' '.join(map(shlex.quote, found.words))}")
    if not found.words or found.confirmed_by is None or found.in_guests:
        return lines
    if not _on_machines(found):
        lines.append(f"keep: ktrial keep {found.confirmed_by}")
    elif len(found.words) == len(found.winner):  # a roll-out keeps knobs only
        lines.append(f"keep: ktrial fleet rollout {found.confirmed_by} -i INVENTORY")
    return lines


def _on_machines(found: SearchAnswer) -> str:
    """Return on how many machines a fleet measured the confirmation; nothing without a fleet."""
    machines = found.machines.get(found.confirmed_by or "")
    return f" on {machines} machines" if machines else ""


def _change(found: SearchAnswer, score: float) -> str:
    return percent_text(value_log_ratio(score, found.direction))


def _range(found: SearchAnswer, ends: Sequence[float | None]) -> str:
    low, high = ends
    if low is None or high is None:
        return "-"
    return range_text(value_log_ratio(low, found.direction), value_log_ratio(high, found.direction))


def _minutes(seconds: float) -> str:
    return f"{math.ceil(seconds / 60)}min" if seconds > 90 else f"{math.ceil(seconds)}s"
