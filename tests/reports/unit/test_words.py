# SPDX-License-Identifier: Apache-2.0
"""What one would notice, what was held the same, and numbers in columns."""

from __future__ import annotations

import math

import msgspec
import pytest

from ktrial.bench.numbers import column
from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.verdict import Effect, Verdict, WorthIt
from ktrial.judge.model.words import p_text
from ktrial.kit.finding import Finding
from ktrial.reports.html import html_page
from ktrial.reports.order import by_weight, short_names
from ktrial.reports.sentences import adjusted_words, doubts_of, headline, known_of, notices
from tests.support.comparisons import four_arms, two_arms


def test_trade_offs_come_first() -> None:
    found = notices(two_arms())
    assert [notice.kind for notice in found] == ["trade-off", "worse", "better", "better"]
    assert "latency.p50" in found[0].sentence.partition("at the price of")[0]
    assert "latency.p99" in found[0].sentence.partition("at the price of")[2]
    assert found[1].sentence.endswith("Windows open later while memory is short.")


def test_nothing_is_noticed_where_nothing_was_decided() -> None:
    made = two_arms()
    open_ones = tuple(
        msgspec.structs.replace(
            one, contrasts=tuple(msgspec.structs.replace(c, verdict="inconclusive") for c in one.contrasts)
        )
        for one in made.outcomes
    )
    assert notices(msgspec.structs.replace(made, outcomes=open_ones)) == []


def test_what_is_known_of_all_arms_is_sorted_by_what_it_says() -> None:
    known = known_of(two_arms())
    assert [name for name, _ in known.same] == ["cpu", "governor", "kernel", "tool"]
    assert known.different == (("start temperature", (("stock", "44 °C"), ("wsf500", "47 °C"))),)
    assert known.partly == ("battery",)


def test_a_value_that_one_arm_lacks_may_still_differ_between_others() -> None:
    made = four_arms(3)
    known = [{"x": "1"}, {"x": "2"}, {}, {"x": "1"}]
    arms = tuple(msgspec.structs.replace(arm, known=one) for arm, one in zip(made.arms, known, strict=True))
    found = known_of(msgspec.structs.replace(made, arms=arms))
    assert found.different == (("x", (("stock", "1"), ("swappiness10", "2"), ("micro-stutter", "1"))),)


def test_an_adjusted_effect_stands_beside_the_raw_one() -> None:
    outcome = two_arms().outcomes[0]
    raw = Effect(estimate=math.log(1.25), low=None, high=None, method="by hand")
    held = Effect(estimate=math.log(1 / 0.9), low=math.log(1 / 0.95), high=math.log(1 / 0.85), method="by hand")
    plain = msgspec.structs.replace(outcome.contrasts[0], effect=raw, adjusted=None, adjusted_for=None)
    assert adjusted_words(plain, outcome) is None
    adjusted = msgspec.structs.replace(plain, adjusted=held, adjusted_for="start temperature")
    told = adjusted_words(adjusted, msgspec.structs.replace(outcome, direction="lower"))
    assert told == "wsf500: with equal start temperature the change is -10 % (-15 % to -5 %), otherwise -20 %"


def test_weighty_outcomes_come_first() -> None:
    made = two_arms(4)
    assert by_weight(reversed(made.outcomes))[0].role == "primary"
    assert by_weight(reversed(made.outcomes))[-1].role == "exploratory"
    assert short_names(made.outcomes)["memory-pressure.energy"] == "energy"
    other = msgspec.structs.replace(made.outcomes[0], benchmark="fio")
    assert short_names([*made.outcomes, other])["fio.latency.p50"] == "fio.latency.p50"


@pytest.mark.parametrize(
    "p, shown",
    [(None, "-"), (0.0, "< 0.0001"), (0.00012, "0.0001"), (0.0039, "0.0039"), (0.5, "0.500"), (1.0, "1.000")],
)
def test_p_values(p: float | None, shown: str) -> None:
    assert p_text(p) == shown


def test_numbers_of_a_column_share_unit_and_decimals() -> None:
    milliseconds = column([0.0041812, 0.0036434], "s")
    assert (milliseconds.unit, [milliseconds.show(one) for one in (0.0041812, 0.0036434, 0.00006992, None)]) == (
        "ms",
        ["4.181", "3.643", "0.070", "-"],
    )
    counts = column([3.0, 5.0, 0.0], "count")
    assert (counts.unit, counts.show(5.0)) == ("count", "5")
    assert column([0.0, 0.0, 0.25], "s").show(0.25) == "250"
    assert column([], "s").show(0.5) == "0"


def alone(verdict: Verdict, worth: WorthIt | None = None, arm: str = "wsf500") -> Comparison:
    """Two arms with one outcome, judged like this."""
    made = two_arms()
    first = made.outcomes[0]
    effect = Effect(estimate=math.log(1 / 0.8), low=math.log(1 / 0.9), high=math.log(1 / 0.7), method="by hand")
    judged = msgspec.structs.replace(first.contrasts[0], arm=arm, verdict=verdict, worth=worth, effect=effect)
    return msgspec.structs.replace(
        made, findings=(), outcomes=(msgspec.structs.replace(first, contrasts=(judged,), steps=()),)
    )


@pytest.mark.parametrize(
    "comparison, said",
    [
        (alone("better", "yes"), "wsf500 helps: latency.p50 -20 %"),
        (alone("better", "unclear"), "wsf500 helps, maybe too little to matter: latency.p50 -20 %"),
        (two_arms(), "wsf500 helps, at a price: latency.p50 -12 %"),
        (alone("worse"), "wsf500 hurts: latency.p50 -20 %"),
        (alone("equivalent"), "wsf500 makes no difference that matters: latency.p50 changes by less than 2 %"),
        (alone("inconclusive"), "Undecided whether wsf500 helps or hurts: latency.p50 -30 % to -10 %"),
        (alone("different"), "wsf500 and stock differ, cause unknown: latency.p50 -20 %"),
        (alone("no difference seen"), "No difference seen between wsf500 and stock in latency.p50"),
        (alone("not comparable"), "wsf500 and stock cannot be compared in latency.p50"),
        (four_arms(), "better: mglru, micro-stutter; undecided: swappiness10"),
    ],
)
def test_the_headline_is_what_to_take_away(comparison: Comparison, said: str) -> None:
    assert headline(comparison) == said
    assert len(headline(alone("inconclusive", arm="a-very-long-name-" * 9))) <= 130


def test_what_cannot_be_compared_says_why() -> None:
    made = alone("not comparable")
    why = Finding(kind="identity", level="refuse", sentence="the governor differs")
    assert headline(msgspec.structs.replace(made, findings=(why,))) == (
        "The arms cannot be compared: the governor differs"
    )


def test_a_doubt_is_told_once_with_the_arms_to_which_it_applies() -> None:
    made = four_arms()
    doubt = Finding(kind="carry-over", level="suspect", sentence="an effect lasts into the next visit")
    outcomes = tuple(
        msgspec.structs.replace(
            outcome,
            contrasts=tuple(
                msgspec.structs.replace(one, findings=(doubt,) if place < 2 and at == 0 else ())
                for place, one in enumerate(outcome.contrasts)
            ),
        )
        for at, outcome in enumerate(made.outcomes)
    )
    made = msgspec.structs.replace(made, findings=(), outcomes=outcomes)
    assert doubts_of(made) == {doubt.sentence}
    page = html_page(made)
    assert page.count(doubt.sentence) == 1
    first, second = (one.arm for one in made.outcomes[0].contrasts[:2])
    assert f"<strong>{first}, {second}</strong>: {doubt.sentence}" in page
    assert '<a href="#findings" class="doubt">1 doubt</a>' in page


def test_no_table_scrolls_in_a_box() -> None:
    assert 'class="scroll long"' not in html_page(two_arms(40))
