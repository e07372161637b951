# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.compare.sentences import answer_of, contrast_sentence
from ktrial.judge.model.comparison import Contrast, OutcomeComparison
from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.kit.finding import Finding

EFFECT = Effect(estimate=-math.log(0.65), low=-math.log(0.67), high=-math.log(0.63), method="by hand")


def contrast(arm: str = "b", verdict: Verdict = "better", **fields: Any) -> Contrast:
    given: dict[str, Any] = {"why": "so it is", "effect": EFFECT, "worth": None, **fields}
    return Contrast(
        arm=arm, control="a", verdict=verdict, n_arm=9, n_control=9, blocks=None, test=None, sentence="", **given
    )


def outcome(name: str, *contrasts: Contrast, role: Any = "exploratory") -> OutcomeComparison:
    return OutcomeComparison(
        benchmark="x",
        outcome=name,
        unit="s",
        direction="lower",
        role=role,
        margin=0.02,
        arms=(),
        contrasts=contrasts,
    )


def answer(*outcomes: OutcomeComparison, arms: tuple[str, ...] = ("b",), **fields: Any) -> str:
    given: dict[str, Any] = {"findings": (), "scope": "on this boot", "accepted": None, **fields}
    return answer_of("a", arms, outcomes, given["findings"], given["scope"], given["accepted"])


@pytest.mark.parametrize(
    "verdict, fields, ends",
    [
        ("better", {"worth": "yes"}, "33 % to 37 % less: better; it matters."),
        ("better", {"worth": "likely"}, ": better; it is likely to matter."),
        ("worse", {"worth": "unclear"}, ": worse; whether it matters is not clear."),
        ("equivalent", {}, ": within the margin of 2 %, a real difference, but below it."),
        ("different", {"why": "cause unknown: x"}, "33 % to 37 % less: different, cause unknown: x."),
        (
            "no difference seen",
            {},
            "no difference seen; 35 % less time (1.54 times as fast), 95 % interval 33 % to 37 % less; so it is.",
        ),
        ("inconclusive", {}, ": inconclusive, so it is."),
        ("not comparable", {}, "x.p50: b against a: not comparable, so it is."),
        ("inconclusive", {"effect": None}, "x.p50: b against a: inconclusive, so it is."),
    ],
)
def test_the_sentence_of_a_verdict(verdict: Verdict, fields: dict[str, Any], ends: str) -> None:
    one = contrast(verdict=verdict, **fields)
    assert contrast_sentence(one, outcome("p50", one)).endswith(ends)


def test_one_outcome_speaks_for_itself() -> None:
    text = answer(outcome("p50", contrast(worth="yes")))
    assert text == (
        "x.p50: b against a: 35 % less time (1.54 times as fast), 95 % interval 33 % to 37 % less: better; it matters. "
        "This holds on this boot."
    )


def test_several_outcomes_are_counted_and_both_ways_named() -> None:
    text = answer(
        outcome("p50", contrast()),
        outcome("p99", contrast(verdict="worse")),
        outcome("y", contrast(verdict="equivalent")),
    )
    assert text.startswith("b against a: of 3 outcomes, 1 is better (x.p50), 1 is worse (x.p99) and 1 is equivalent.")


def test_what_does_not_decide_is_never_called_no_effect() -> None:
    text = answer(outcome("p50", contrast(verdict="inconclusive", why="time and arm are confounded")))
    assert text == (
        "x.p50: these data do not decide between b and a: time and arm are confounded (seen: 35 % less time (1.54 "
        "times as fast), 95 % interval 33 % to 37 % less)."
    )
    many = answer(*(outcome(name, contrast(verdict="inconclusive")) for name in ("p50", "p99")))
    assert many == "b against a: all 2 outcomes are inconclusive: so it is."


def test_what_is_only_seen_is_counted_named_and_has_its_scope() -> None:
    none = contrast(verdict="no difference seen")
    text = answer(outcome("p50", contrast(verdict="different")), outcome("p99", none), outcome("y", none))
    assert (
        text == "b against a: of 3 outcomes, 1 is different (x.p50) and 2 show no difference. This holds on this boot."
    )
    alike = answer(outcome("p50", none), outcome("p99", none))
    assert alike.startswith("No difference is seen between b and a in any of 2 outcomes: so it is.")
    arms = tuple(f"arm{number}" for number in range(9))
    many = outcome("p50", *(contrast(arm, "no difference seen") for arm in arms))
    told = "x.p50: no difference is seen between a and any of 9 arms: so it is."
    assert answer(many, arms=arms).startswith(told)


def test_the_primary_speaks_first() -> None:
    text = answer(outcome("p50", contrast(), role="primary"), outcome("p99", contrast(verdict="worse")))
    assert text.startswith("x.p50: b against a: 35 % less time")
    assert "Of the other outcomes, 1 is worse (x.p99)." in text


def test_a_scope_that_is_not_known_is_said() -> None:
    assert answer(outcome("p50", contrast()), scope="boots and machines not known").endswith(
        "Scope unknown: the data don't say which boots and machines they come from."
    )
    assert answer(outcome("p50", contrast()), scope="across 4 machines, boots not known").endswith(
        "This holds across 4 machines; the data don't say which boots they come from."
    )


def test_doubts_of_what_was_decided_are_in_the_answer() -> None:
    drift = Finding(kind="drift", level="suspect", sentence="the runs drifted")
    kernel = Finding(kind="kernel", level="suspect", sentence="kernel release differs")
    note = Finding(kind="swing", level="note", sentence="it swings")
    doubted = outcome("p50", contrast(findings=(drift, note)))
    assert answer(doubted).endswith(" But: the runs drifted.")
    assert answer(doubted, findings=(kernel,)).endswith(" But: kernel release differs, and 1 more.")
    assert "But" not in answer(outcome("p50", contrast(findings=(note,))))
    undecided = outcome("p50", contrast(verdict="inconclusive", findings=(drift,)))
    assert answer(undecided, outcome("p99", contrast(findings=(drift,)))).endswith(" But: x.p99: the runs drifted.")
    assert "But" not in answer(undecided)


def test_of_many_arms_there_is_a_count() -> None:
    arms = tuple(f"arm{number}" for number in range(9))
    others: list[Verdict] = ["inconclusive"] * 7
    verdicts: list[Verdict] = ["better", "worse", *others]
    contrasts = [contrast(arm, verdict) for arm, verdict in zip(arms, verdicts, strict=True)]
    told = "of 9 arms against a, 1 is better (arm0), 1 is worse (arm1) and 7 are inconclusive."
    assert answer(outcome("p50", *contrasts), arms=arms).startswith(f"x.p50: {told}")
    alike = [contrast(arm, "inconclusive", why="too few runs") for arm in arms]
    text = answer(outcome("p50", *alike), arms=arms)
    assert text == "x.p50: all 9 arms are inconclusive against a: too few runs."
    both = outcome("p50", *contrasts), outcome("p99", *contrasts)
    text = answer(*both, arms=arms)
    assert text.startswith("9 arms against a: of 18 comparisons, 2 are better (x.p50 of arm0, x.p99 of arm0), 2 are")
    primary = outcome("p50", *contrasts, role="primary"), outcome("p99", *contrasts)
    assert f"x.p50: {told} Of the other outcomes, 1 is better (x.p99 of arm0)" in answer(*primary, arms=arms)


def test_refused_and_accepted() -> None:
    doubt = Finding(kind="other-cpu", level="refuse", sentence="the CPU differs")
    refused = outcome("p50", contrast(verdict="not comparable", effect=None))
    assert answer(refused, findings=(doubt,)) == "a and b cannot be compared: the CPU differs."
    assert answer(refused, findings=(doubt, doubt)).endswith("the CPU differs, and 1 more.")
    text = answer(outcome("p50", contrast()), findings=(doubt,), accepted="twins")
    assert text.endswith("It was compared although the CPU differs (accepted: twins).")
    text = answer(outcome("p50", contrast()), findings=(doubt, doubt), accepted="twins")
    assert text.endswith("although the CPU differs, and 1 more (accepted: twins).")


def test_nothing_in_common() -> None:
    assert answer(outcome("p50"), arms=("b", "c")) == "There is nothing to compare: no outcome of a is in b or c."


@given(st.lists(st.sampled_from(get_args(Verdict)), min_size=1, max_size=6))
def test_the_answer_never_says_better_without_a_verdict_that_does(verdicts: list[Verdict]) -> None:
    text = answer(*(outcome(f"o{place}", contrast(verdict=verdict)) for place, verdict in enumerate(verdicts)))
    for word in ("better", "worse"):
        assert (word in text) == (word in verdicts)
