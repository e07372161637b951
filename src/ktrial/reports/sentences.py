# SPDX-License-Identifier: Apache-2.0
"""Sentences of a report that follow from a comparison: what one would notice, what was held the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.words import effect_phrase, effect_text
from ktrial.reports.order import by_weight, short_names


def adjusted_words(contrast: Contrast, outcome: OutcomeComparison) -> str | None:
    """Return the effect with an equal covariate, beside the one without: None if none was adjusted for."""
    if contrast.adjusted is None or contrast.adjusted_for is None:
        return None
    raw, _ = effect_text(contrast.effect, outcome.unit, outcome.direction)
    estimate, interval = effect_text(contrast.adjusted, outcome.unit, outcome.direction)
    return f"{contrast.arm}: with equal {contrast.adjusted_for} the change is {estimate} ({interval}), else {raw}"


class Notice(msgspec.Struct, frozen=True):
    """Something that a user of the arm would notice."""

    arm: str
    kind: Literal["trade-off", "worse", "better"]
    sentence: str


def notices(comparison: Comparison) -> list[Notice]:
    """Per arm: what got better at the price of what, else what got worse, what better."""
    names = short_names(comparison.outcomes)
    found: list[Notice] = []
    for arm in dict.fromkeys(contrast.arm for _, contrast in _weighty(comparison)):
        own = [(outcome, contrast) for outcome, contrast in _weighty(comparison) if contrast.arm == arm]
        better = [one for one in own if one[1].verdict == "better"]
        worse = [one for one in own if one[1].verdict == "worse"]
        if better and worse:
            gain, price = (_change(names, *one[0]) for one in (better, worse))
            found.append(Notice(arm, "trade-off", f"{gain}, at the price of {price}."))
        found += [Notice(arm, "worse", _sentence(names, *one)) for one in worse]
        found += [Notice(arm, "better", _sentence(names, *one)) for one in better]
    rank = {"trade-off": 0, "worse": 1, "better": 1}
    return sorted(found, key=lambda notice: rank[notice.kind])


def _weighty(comparison: Comparison) -> Iterator[tuple[OutcomeComparison, Contrast]]:
    for outcome in by_weight(comparison.outcomes):
        for contrast in outcome.contrasts:
            yield outcome, contrast


def _change(names: Mapping[str, str], outcome: OutcomeComparison, contrast: Contrast) -> str:
    name = names[outcome.name]
    if contrast.effect is None:
        return name
    return f"{name}: {effect_phrase(contrast.effect, outcome.unit, outcome.direction)}"


def _sentence(names: Mapping[str, str], outcome: OutcomeComparison, contrast: Contrast) -> str:
    meaning = outcome.better if contrast.verdict == "better" else outcome.worse
    return f"{_change(names, outcome, contrast)}. {meaning}".rstrip()


class KnownFacts(msgspec.Struct, frozen=True):
    """What is known of all arms by name: the same in all, different, or not known of some."""

    same: tuple[tuple[str, str], ...]
    different: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    partly: tuple[str, ...]


def known_of(comparison: Comparison) -> KnownFacts:
    """Sorts what is known of the arms by whether it was held the same."""
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
    """Versions of what computed, and the digest of the question that `ktrial recheck` puts again."""
    asked = [] if comparison.asked_sha256 is None else [("question, SHA-256", comparison.asked_sha256)]
    return [*comparison.versions.items(), *asked]
