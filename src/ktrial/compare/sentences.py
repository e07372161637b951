# SPDX-License-Identifier: Apache-2.0
"""The sentences of a comparison: one for each contrast, and the answer that sums them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import get_args

from ktrial.compare.scope import UNKNOWN
from ktrial.judge.model.comparison import Contrast, OutcomeComparison
from ktrial.judge.model.verdict import Verdict
from ktrial.judge.model.words import effect_phrase, interval_phrase, range_words, value_log_ratio
from ktrial.kit.finding import Finding

_ORDER: tuple[Verdict, ...] = get_args(Verdict)
_DECIDED = ("better", "worse", "equivalent")
#: Verdicts that describe the two sets of runs and say nothing about the cause.
_SEEN = ("different", "no difference seen")
_WORTH = {
    "yes": "it matters",
    "likely": "it is likely to matter",
    "unclear": "whether it matters is not clear",
}
#: Outcomes up to this number are named in the answer.
_NAMED = 3
#: Arms up to this number get a sentence each.
_TOLD = 3


def contrast_sentence(contrast: Contrast, outcome: OutcomeComparison) -> str:
    """Return a contrast in words, with its figures; the words claim no more than the verdict."""
    return _of_contrast(contrast, outcome) + _elsewhere(contrast, outcome)


def _elsewhere(contrast: Contrast, outcome: OutcomeComparison) -> str:
    pooled = contrast.pooled
    if pooled is None or pooled.predicted_low is None or pooled.predicted_high is None:
        return ""
    ends = (value_log_ratio(end, outcome.direction) for end in (pooled.predicted_low, pooled.predicted_high))
    return f" On one more machine it may be {range_words(*ends)}."


def _of_contrast(contrast: Contrast, outcome: OutcomeComparison) -> str:
    subject = f"{outcome.name}: {contrast.arm} against {contrast.control}"
    if contrast.verdict == "not comparable" or contrast.effect is None:
        return f"{subject}: {contrast.verdict}, {contrast.why}."
    figures = effect_phrase(contrast.effect, outcome.unit, outcome.direction)
    interval = interval_phrase(contrast.effect, outcome.unit, outcome.direction)
    shown = f"{figures}, {interval}" if interval else figures
    if contrast.verdict in ("better", "worse"):
        worth = f"; {_WORTH[contrast.worth]}" if contrast.worth is not None else ""
        return f"{subject}: {shown}: {contrast.verdict}{worth}."
    if contrast.verdict == "equivalent":
        real = ", a real difference, but below it" if contrast.effect.excludes_zero else ""
        return f"{subject}: {shown}: within the margin of {100 * outcome.margin:g} %{real}."
    if contrast.verdict == "no difference seen":
        return f"{subject}: no difference seen; {shown}; {contrast.why}."
    return f"{subject}: {shown}: {contrast.verdict}, {contrast.why}."


def answer_of(
    control: str,
    arms: Sequence[str],
    outcomes: Sequence[OutcomeComparison],
    findings: Sequence[Finding],
    scope: str,
    accepted: str | None,
) -> str:
    refused = [one for one in findings if one.level == "refuse"]
    contrasts = [(outcome, contrast) for outcome in outcomes for contrast in outcome.contrasts]
    if not contrasts:
        return f"There is nothing to compare: no outcome of {control} is in {_join_words(arms, 'or')}."
    more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    if refused and accepted is None and all(contrast.verdict == "not comparable" for _, contrast in contrasts):
        return f"{_join_words([control, *arms])} cannot be compared: {refused[0].sentence}{more}."
    if len(arms) > _TOLD:
        parts = [_of_many(control, contrasts)]
    else:
        parts = [_of_arm(arm, control, [pair for pair in contrasts if pair[1].arm == arm]) for arm in arms]
        parts = [part for part in parts if part]
    decided = any(contrast.verdict in _DECIDED for _, contrast in contrasts)
    seen = decided or any(contrast.verdict in _SEEN for _, contrast in contrasts)
    holds = _scope_sentence(scope) if seen else ""
    doubts = _doubts(contrasts, findings) if decided else ""
    spite = (
        f" It was compared although {refused[0].sentence}{more} (accepted: {accepted})." if refused and accepted else ""
    )
    return " ".join(parts) + (f" {holds}." if holds else "") + doubts + spite


def _scope_sentence(scope: str) -> str:
    if UNKNOWN not in scope:
        return f"This holds {scope}"
    where, _, what = scope.rpartition(", ")
    missing = f"the data don't say which {what.removesuffix(UNKNOWN).strip()} they come from"
    return f"This holds {where}; {missing}" if where else f"Scope unknown: {missing}"


def _doubts(contrasts: Sequence[tuple[OutcomeComparison, Contrast]], findings: Sequence[Finding]) -> str:
    """Return the first doubt about the verdicts, and the number of further doubts."""
    told = [(one, one.sentence) for one in findings]
    for outcome, contrast in contrasts:
        if contrast.verdict in _DECIDED:
            name = f"{outcome.name}: " if len(contrasts) > 1 else ""
            told += [(one, f"{name}{one.sentence}") for one in (*outcome.findings, *contrast.findings)]
    found = list(dict.fromkeys(sentence for one, sentence in told if one.level == "suspect"))
    if not found:
        return ""
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f" But: {found[0]}{more}."


def _of_many(control: str, found: Sequence[tuple[OutcomeComparison, Contrast]]) -> str:
    """Summarise comparisons with too many arms for a sentence each."""
    main = [pair for pair in found if pair[0].role == "primary"]
    names = {outcome.name for outcome, _ in found}
    if not main and len(names) > 1:
        arms = len({contrast.arm for _, contrast in found})
        told = _count_verdicts([(f"{outcome.name} of {one.arm}", one) for outcome, one in found])
        return f"{arms} arms against {control}: of {len(found)} comparisons, {told}."
    main = main or list(found)
    name = main[0][0].name
    rest = [(f"{outcome.name} of {one.arm}", one) for outcome, one in found if outcome.name != name]
    others = f" Of the other outcomes, {_count_verdicts(rest)}." if rest else ""
    same = {(one.verdict, one.why) for _, one in main}
    if len(same) == 1 and main[0][1].verdict not in ("better", "worse"):
        verdict, why = same.pop()
        if verdict == "no difference seen":
            return f"{name}: no difference is seen between {control} and any of {len(main)} arms: {why}.{others}"
        return f"{name}: all {len(main)} arms are {verdict} against {control}: {why}.{others}"
    told = _count_verdicts([(one.arm, one) for _, one in main])
    return f"{name}: of {len(main)} arms against {control}, {told}.{others}"


def _of_arm(arm: str, control: str, found: Sequence[tuple[OutcomeComparison, Contrast]]) -> str:
    if not found:
        return ""
    primary = [pair for pair in found if pair[0].role == "primary"]
    if primary or len(found) == 1:
        outcome, contrast = (primary or found)[0]
        others = [pair for pair in found if pair is not (primary or found)[0]]
        rest = f" Of the other outcomes, {_count_verdicts(_by_outcome(others))}." if others else ""
        return _verdict_sentence(outcome, contrast) + rest
    reasons = {contrast.why for _, contrast in found}
    verdicts = {contrast.verdict for _, contrast in found}
    if len(verdicts) == len(reasons) == 1 and verdicts <= {"inconclusive", "not comparable", "no difference seen"}:
        if "no difference seen" in verdicts:
            return (
                f"No difference is seen between {arm} and {control} in any of {len(found)} outcomes: {reasons.pop()}."
            )
        return f"{arm} against {control}: all {len(found)} outcomes are {verdicts.pop()}: {reasons.pop()}."
    return f"{arm} against {control}: of {len(found)} outcomes, {_count_verdicts(_by_outcome(found))}."


def _verdict_sentence(outcome: OutcomeComparison, contrast: Contrast) -> str:
    if contrast.verdict != "inconclusive" or contrast.effect is None:
        return contrast_sentence(contrast, outcome)
    figures = effect_phrase(contrast.effect, outcome.unit, outcome.direction)
    interval = interval_phrase(contrast.effect, outcome.unit, outcome.direction)
    seen = f"{figures}, {interval}" if interval else figures
    return (
        f"{outcome.name}: these data do not decide between {contrast.arm} and {contrast.control}: {contrast.why} "
        f"(seen: {seen}).{_elsewhere(contrast, outcome)}"
    )


def _by_outcome(found: Sequence[tuple[OutcomeComparison, Contrast]]) -> list[tuple[str, Contrast]]:
    return [(outcome.name, contrast) for outcome, contrast in found]


def _count_verdicts(found: Sequence[tuple[str, Contrast]]) -> str:
    """Return text like `2 are better (a, b), 1 is worse (c), 3 are inconclusive`."""
    counts = Counter(contrast.verdict for _, contrast in found)
    parts = []
    for verdict in _ORDER:
        count = counts[verdict]
        if not count:
            continue
        names = [name for name, contrast in found if contrast.verdict == verdict]
        named = f" ({', '.join(names)})" if count <= _NAMED and verdict in ("better", "worse", "different") else ""
        if verdict == "no difference seen":
            parts.append(f"{count} show{'s'[: count == 1]} no difference")
        else:
            parts.append(f"{count} {'is' if count == 1 else 'are'} {verdict}{named}")
    return _join_words(parts)


def _join_words(words: Sequence[str], last: str = "and") -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
