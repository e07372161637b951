# SPDX-License-Identifier: Apache-2.0
"""Shows a blame as text: the question, the answer, and single searches for suspects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktrial.bench.text import duration
from ktrial.judge.model.judgement import Screened
from ktrial.judge.model.verdict import Effect
from ktrial.judge.model.words import percent_text, range_text
from ktrial.kit.tables import paragraph, table
from ktrial.reports.order import weightiest
from ktrial.studies.blame.cost import StepCost, cost_of
from ktrial.studies.blame.model import Blame, BlameQuestion, Culprit, Factor

_KINDS: Mapping[str, str] = {
    "alone": "alone",
    "together": "only together",
    "needs a partner": "not alone",
    "by removal": "shown by its removal",
}


def question_text(question: BlameQuestion, left_out: Mapping[str, str], *, is_dry_run: bool = False, width: int) -> str:
    """Return how many settings are tested, which of them count as one, and which are skipped."""
    saved = "nothing is measured" if is_dry_run else f"the answer is saved as {question.name}"
    lines = [f"{len(question.factors)} settings to test; {saved}"]
    joined = [one.name for one in question.factors if len({name.partition("@")[0] for name in one.set}) > 1]
    lines += [
        paragraph(f"{name}: the kernel changes these together, so they count as one", width=width) for name in joined
    ]
    lines += [paragraph(f"skipped: {name}: {why}", width=width, indent="  ") for name, why in left_out.items()]
    return "\n".join(lines) + "\n"


def dry_run_text(question: BlameQuestion, visit_s: float | None, without_time: str, *, width: int) -> str:
    """Return the suspects, and the cost of a blame if one of them is responsible.

    `visit_s` is the time of one run with its wait; if that is unknown, `without_time` states the reason.
    """
    rows = [(one.name, _switched(one)) for one in question.factors]
    steps = cost_of(question)
    costs = [(one.step, _runs(one), _time(one, visit_s)) for one in steps]
    whole = StepCost("together", sum(one.least for one in steps), sum(one.most for one in steps))
    costs.append((whole.step, _runs(whole), _time(whole, visit_s)))
    lines = [table(("suspect", "value"), rows, width=width, whole=1), ""]
    lines.append("If one setting is responsible, ktrial makes these trials:")
    lines.append(table(("step", "runs", "time"), costs, width=width, whole=1))
    if visit_s is None:
        lines.append(paragraph(f"time unknown: {without_time}", width=width))
    lines.append(
        paragraph(
            "Larger effects need fewer runs. More suspects, or an effect that is left without them, need more.",
            width=width,
        )
    )
    return "\n".join(lines) + "\n"


def _switched(factor: Factor) -> str:
    """Return the values that the suspect switches on."""
    values = [str(value) for value in (*factor.set.values(), *factor.environment.values())]
    return ", ".join(dict.fromkeys(values)) or "on"


def _runs(cost: StepCost) -> str:
    return f"{cost.least} to {cost.most}"


def _time(cost: StepCost, visit_s: float | None) -> str:
    return "?" if visit_s is None else f"{duration(cost.least * visit_s)} to {duration(cost.most * visit_s)}"


def blame_text(blame: Blame, *, width: int) -> str:
    """Return the answer: the responsible settings, how they were confirmed, and the trials."""
    lines = [paragraph(_headline(blame), width=width), ""]
    if blame.culprits:
        rows = [_culprit(one) for one in blame.culprits]
        lines += [table(("setting", "acts", "score", "interval"), rows, width=width, whole=1), ""]
    if blame.recoveries:
        rows = [(one.outcome, _estimate(one.all), _estimate(one.without), one.fate) for one in blame.recoveries]
        lines += [table(("outcome", "all", "without them", "result"), rows, width=width, whole=1), ""]
    if blame.suspects:
        lines.append(paragraph(f"suspected but not confirmed: {', '.join(blame.suspects)}", width=width))
    lines.append(paragraph(f"ended: {blame.reason}", width=width))
    lines.append(paragraph(f"{blame.runs} runs in {', '.join(blame.trials)}", width=width))
    lines.append("Changes are in the score, where higher is better. `ktrial trial show TRIAL` shows each trial.")
    return "\n".join(lines) + "\n"


def _headline(blame: Blame) -> str:
    if not blame.culprits:
        return f"{blame.name}: none of {len(blame.factors)} settings was found responsible"
    names = "; ".join(" and ".join(one.factors) for one in blame.culprits)
    return f"{blame.name}: responsible out of {len(blame.factors)} settings: {names}"


def _culprit(one: Culprit) -> tuple[str, str, str, str]:
    interval = "-"
    if one.effect is not None and one.effect.low is not None and one.effect.high is not None:
        interval = range_text(one.effect.low, one.effect.high)
    return " and ".join(one.factors), _KINDS[one.kind], _estimate(one.effect), interval


def _estimate(effect: Effect | None) -> str:
    return "-" if effect is None else percent_text(effect.estimate)


def screening_text(name: str, screened: Sequence[Screened], ended: str | None, *, width: int) -> str:
    """Return a text on one search for suspects: each outcome's coefficients, suspects first, then by size."""
    lines = [paragraph(f"{name}: {'ended: ' + ended if ended else 'not finished'}", width=width)]
    for outcome in weightiest(screened):
        lines += ["", f"{outcome.outcome} after {outcome.blocks} blocks"]
        rows = [
            (one.setting, percent_text(one.effect), range_text(one.low, one.high), "suspected" if one.named else "")
            for one in sorted(outcome.coefficients, key=lambda one: (not one.named, -abs(one.effect)))
        ]
        if rows:
            lines.append(table(("setting", "score", "interval", ""), rows, width=width, whole=1))
    lines.append("Suspects are not proven; only a trial confirms them.")
    return "\n".join(lines) + "\n"
