# SPDX-License-Identifier: Apache-2.0
"""Which of several settings did it, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktrial.judge.model.judgement import Screened
from ktrial.judge.model.verdict import Effect
from ktrial.judge.model.words import percent_text, range_text
from ktrial.kit.tables import paragraph, table
from ktrial.reports.order import weightiest
from ktrial.studies.blame.model import Blame, BlameQuestion, Culprit

_KINDS: Mapping[str, str] = {
    "alone": "alone",
    "together": "only together",
    "needs a partner": "not alone",
    "by removal": "its removal is the cure",
}


def question_text(question: BlameQuestion, left_out: Mapping[str, str], *, width: int) -> str:
    """Return what is told apart, and what is not."""
    lines = [f"{len(question.factors)} settings are told apart; the answer is kept as {question.name}"]
    joined = [one.name for one in question.factors if len({name.partition("@")[0] for name in one.set}) > 1]
    lines += [
        paragraph(f"{name}: the kernel changes one with the other, so they are one", width=width) for name in joined
    ]
    lines += [paragraph(f"skipped: {name}: {why}", width=width, indent="  ") for name, why in left_out.items()]
    return "\n".join(lines) + "\n"


def blame_text(blame: Blame, *, width: int) -> str:
    """Return the answer: who did it, what confirms it, what it rests on."""
    lines = [paragraph(_headline(blame), width=width), ""]
    if blame.culprits:
        rows = [_culprit(one) for one in blame.culprits]
        lines += [table(("setting", "acts", "score", "interval"), rows, width=width, whole=1), ""]
    if blame.recoveries:
        rows = [(one.outcome, _estimate(one.all), _estimate(one.without), one.fate) for one in blame.recoveries]
        lines += [table(("outcome", "all", "without them", "so it is"), rows, width=width, whole=1), ""]
    if blame.suspects:
        lines.append(paragraph(f"suspected, and not confirmed: {', '.join(blame.suspects)}", width=width))
    lines.append(paragraph(f"it ended because {blame.reason}", width=width))
    lines.append(paragraph(f"{blame.runs} runs in {', '.join(blame.trials)}", width=width))
    lines.append("Changes are of the score, of which more is better. `ktrial trial show TRIAL` shows each trial.")
    return "\n".join(lines) + "\n"


def _headline(blame: Blame) -> str:
    if not blame.culprits:
        return f"{blame.name}: none of {len(blame.factors)} settings can be named"
    names = "; ".join(" and ".join(one.factors) for one in blame.culprits)
    return f"{blame.name}: of {len(blame.factors)} settings it is {names}"


def _culprit(one: Culprit) -> tuple[str, str, str, str]:
    interval = "-"
    if one.effect is not None and one.effect.low is not None and one.effect.high is not None:
        interval = range_text(one.effect.low, one.effect.high)
    return " and ".join(one.factors), _KINDS[one.kind], _estimate(one.effect), interval


def _estimate(effect: Effect | None) -> str:
    return "-" if effect is None else percent_text(effect.estimate)


def screening_text(name: str, screened: Sequence[Screened], ended: str | None, *, width: int) -> str:
    """Return a screening by itself: the coefficients of every outcome, the largest first."""
    lines = [paragraph(f"{name}: {'ended: ' + ended if ended else 'not over yet'}", width=width)]
    for outcome in weightiest(screened):
        lines += ["", f"{outcome.outcome} after {outcome.blocks} blocks"]
        rows = [
            (one.setting, percent_text(one.effect), range_text(one.low, one.high), "suspected" if one.named else "")
            for one in sorted(outcome.coefficients, key=lambda one: (not one.named, -abs(one.effect)))
        ]
        if rows:
            lines.append(table(("setting", "score", "interval", ""), rows, width=width, whole=1))
    lines.append("Only a trial confirms what is suspected here.")
    return "\n".join(lines) + "\n"
