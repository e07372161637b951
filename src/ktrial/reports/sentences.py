# SPDX-License-Identifier: Apache-2.0
"""Statements of reports that follow from a comparison: noticeable changes, shared facts, the course of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.trial_summary import ToldTrial
from ktrial.judge.model.verdict import Verdict
from ktrial.judge.model.words import effect_phrase, effect_text
from ktrial.kit.tables import clean, shorten
from ktrial.reports.order import by_weight, short_names


def adjusted_words(contrast: Contrast, outcome: OutcomeComparison) -> str | None:
    """Return a sentence with the raw effect, and the effect adjusted for a covariate; None without a covariate."""
    if contrast.adjusted is None or contrast.adjusted_for is None:
        return None
    raw, _ = effect_text(contrast.effect, outcome.unit, outcome.direction)
    estimate, interval = effect_text(contrast.adjusted, outcome.unit, outcome.direction)
    return f"{contrast.arm}: with equal {contrast.adjusted_for} the change is {estimate} ({interval}), otherwise {raw}"


class Notice(msgspec.Struct, frozen=True):
    """A change that a user of the arm would notice."""

    arm: str
    kind: Literal["trade-off", "worse", "better"]
    sentence: str


def notices(comparison: Comparison) -> list[Notice]:
    """Return all trade-offs, then for each arm what is worse and what is better."""
    names = short_names(comparison.outcomes)
    every = [(outcome, contrast) for outcome in by_weight(comparison.outcomes) for contrast in outcome.contrasts]
    changes: list[Notice] = []
    for arm in dict.fromkeys(contrast.arm for _, contrast in every):
        own = [one for one in every if one[1].arm == arm]
        better = [one for one in own if one[1].verdict == "better"]
        worse = [one for one in own if one[1].verdict == "worse"]
        if better and worse:
            gain, price = (_change(names, *one[0]) for one in (better, worse))
            changes.append(Notice(arm, "trade-off", f"{gain}, at the price of {price}."))
        changes += [Notice(arm, "worse", _sentence(names, *one)) for one in worse]
        changes += [Notice(arm, "better", _sentence(names, *one)) for one in better]
    return sorted(changes, key=lambda notice: notice.kind != "trade-off")


def _change(names: Mapping[str, str], outcome: OutcomeComparison, contrast: Contrast) -> str:
    name = names[outcome.name]
    if contrast.effect is None:
        return name
    return f"{name}: {effect_phrase(contrast.effect, outcome.unit, outcome.direction)}"


def _sentence(names: Mapping[str, str], outcome: OutcomeComparison, contrast: Contrast) -> str:
    meaning = outcome.better if contrast.verdict == "better" else outcome.worse
    return f"{_change(names, outcome, contrast)}. {meaning}".rstrip()


#: Characters of the headline: two lines of the page on a desk. A name in it has fewer.
_HEADLINE, _NAME = 130, 34
#: Names that the headline lists; for more names it gives their number.
_MOST_NAMED = 2


def headline(comparison: Comparison) -> str:
    """Return what a reader should take away: what helps, hurts or changes nothing, in one short sentence."""
    every = [(outcome, contrast) for outcome in comparison.outcomes for contrast in outcome.contrasts]
    pairs = [pair for pair in every if pair[0].role == "primary"] or every
    if not pairs:
        return "There is nothing to compare"
    refused = [one for one in comparison.findings if one.level == "refuse"]
    if refused and all(contrast.verdict == "not comparable" for _, contrast in pairs):
        return shorten(f"The arms cannot be compared: {clean(refused[0].sentence)}", _HEADLINE)
    if len(pairs) == 1:
        return shorten(_one_headline(comparison, *pairs[0]), _HEADLINE)
    arms = len({contrast.arm for _, contrast in pairs}) > 1
    names = short_names(comparison.outcomes)
    said: dict[str, list[str]] = {}
    for outcome, contrast in pairs:
        name = contrast.arm if arms else names[outcome.name]
        said.setdefault(_GIST[contrast.verdict], []).append(_short_name(name))
    parts = [f"{gist}: {_first_names(said[gist])}" for gist in dict.fromkeys(_GIST.values()) if gist in said]
    return shorten("; ".join(parts), _HEADLINE)


_GIST: Mapping[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "different": "different, cause unknown",
    "equivalent": "no difference that matters",
    "no difference seen": "no difference seen",
    "inconclusive": "undecided",
    "not comparable": "not comparable",
}


def _first_names(names: Sequence[str]) -> str:
    names = list(dict.fromkeys(names))
    return ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} ({names[0]}, …)"


def _short_name(name: str) -> str:
    return shorten(clean(name), _NAME)


def _one_headline(comparison: Comparison, outcome: OutcomeComparison, contrast: Contrast) -> str:
    arm, what = _short_name(contrast.arm), _short_name(short_names(comparison.outcomes)[outcome.name])
    change, interval = effect_text(contrast.effect, outcome.unit, outcome.direction)
    price = any(one.verdict == "worse" for other in comparison.outcomes for one in other.contrasts)
    match contrast.verdict:
        case "better":
            but = ", at a price" if price else ", maybe too little to matter" if contrast.worth == "unclear" else ""
            return f"{arm} helps{but}: {what} {change}"
        case "worse":
            return f"{arm} hurts: {what} {change}"
        case "equivalent":
            return f"{arm} makes no difference that matters: {what} changes by less than {100 * outcome.margin:g} %"
        case "different":
            return f"{arm} and {_short_name(contrast.control)} differ, cause unknown: {what} {change}"
        case "no difference seen":
            return f"No difference seen between {arm} and {_short_name(contrast.control)} in {what}"
        case "inconclusive":
            range_ = "" if interval in ("", "-") else f": {what} {interval}"
            return f"Undecided whether {arm} helps or hurts{range_}"
    return f"{arm} and {_short_name(contrast.control)} cannot be compared in {what}"


def doubts_of(comparison: Comparison) -> frozenset[str]:
    """Return the doubts about a comparison, each once."""
    own = (one for outcome in comparison.outcomes for one in outcome.findings)
    of_pairs = (one for outcome in comparison.outcomes for each in outcome.judged for one in each.findings)
    return frozenset(one.sentence for one in (*comparison.findings, *own, *of_pairs) if one.level != "note")


class KnownFacts(msgspec.Struct, frozen=True):
    """Facts about the arms, by name: equal in all arms, different between arms, or unknown for some."""

    same: tuple[tuple[str, str], ...]
    different: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    partly: tuple[str, ...]


def known_of(comparison: Comparison) -> KnownFacts:
    same, different, partly = [], [], []
    for name in sorted({name for source in comparison.arms for name in source.known}):
        values = [(source.arm, source.known[name]) for source in comparison.arms if name in source.known]
        if len({value for _, value in values}) > 1:
            different.append((name, tuple(values)))
        elif len(values) == len(comparison.arms):
            same.append((name, values[0][1]))
        else:
            partly.append(name)
    return KnownFacts(tuple(same), tuple(different), tuple(partly))


def made_with(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the versions of the programs, and the digest of the question that `ktrial recheck` asks again."""
    question = [] if comparison.asked_sha256 is None else [("question, SHA-256", comparison.asked_sha256)]
    return [*comparison.versions.items(), *question]


def count_words(number: int, one: str, many: str) -> str:
    """Return a count such as `1 block` or `3 blocks`."""
    return f"{number} {one if number == 1 else many}"


Lines = tuple[str, ...]


def came_to_rows(trial: ToldTrial, control: str) -> list[tuple[str, Lines, Lines, Lines]]:
    """Return lines for each arm: what it set, what was already in force, what ktrial skipped and why."""
    rows = []
    for one in trial.arms:
        nothing = "nothing: the machine unchanged" if one.arm == control else "nothing: a placebo"
        refused = tuple(f"{name}: {reason}" for name, reason in one.refused.items())
        rows.append((one.arm, one.lines or (nothing,), one.same or ("-",), refused or ("-",)))
    return rows


def placebo_sentences(comparison: Comparison) -> list[str]:
    """Return a sentence for each placebo: whether this trial sees an effect of an arm that changes nothing."""
    trial = comparison.trial
    placebos = {one.arm for one in trial.arms if one.placebo} if trial is not None else set()
    primaries = (one for outcome in comparison.outcomes if outcome.role == "primary" for one in outcome.contrasts)
    sentences = []
    for contrast in primaries:
        if contrast.arm in placebos:
            if contrast.verdict in ("better", "worse"):
                shown = (
                    f"is {contrast.verdict} although it changes nothing: this trial shows an effect that is not real"
                )
            else:
                shown = f"changes nothing and is {contrast.verdict}: this trial shows no effect where there is none"
            sentences.append(f"The placebo ({contrast.arm}) {shown}.")
    return sentences


def ended_words(comparison: Comparison, trial: ToldTrial) -> str | None:
    """Return why the trial ended; None while it runs."""
    verdicts = {
        one.verdict for outcome in comparison.outcomes if outcome.role == "primary" for one in outcome.contrasts
    }
    if trial.ended is not None and verdicts == {"not comparable"}:
        return "its arms cannot be compared"
    return trial.ended


def blocks_words(trial: ToldTrial) -> str:
    """Return the number of blocks, with the cap; an extended trial has more blocks than its cap."""
    if trial.cap is not None and trial.blocks > trial.cap:
        return f"{trial.blocks} blocks, {trial.blocks - trial.cap} of them after its cap of {trial.cap}"
    return f"{trial.blocks}{'' if trial.cap is None else f' of at most {trial.cap}'} blocks"


def course_sentences(comparison: Comparison, trial: ToldTrial) -> list[str]:
    """Return how many blocks the trial made and why it ended."""
    why = ended_words(comparison, trial)
    void = sum(one.void is not None for one in trial.drawn)
    void_words = f", {count_words(void, 'more is', 'more are')} void and not counted" if void else ""
    ended = "The trial is not over." if why is None else f"It ended: {why}."
    return [f"{blocks_words(trial)}{void_words}. {ended} It waited {trial.settle_s:g} s before each visit."]
