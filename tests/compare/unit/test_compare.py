# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from ktrial.cli.shared.compare import exclusions
from ktrial.compare.arms import Arm
from ktrial.compare.compare import About, CompareQuery, Judge, compare, foreign_judge
from ktrial.judge.model.comparison import Contrast, StateChange
from ktrial.judge.model.question import Answer, Question
from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction
from tests.support.arms import a_run, an_arm, measured

STOCK, TUNED = [1.00, 1.01, 0.99], [0.65, 0.66, 0.64]
BETTER = Effect(estimate=0.43, low=0.40, high=0.46, method="by hand")


def judge_saying(
    verdict: Verdict, effect: Effect | None = BETTER, why: str = "it is so", findings: tuple[Finding, ...] = ()
) -> Judge:
    """Every arm has this verdict."""

    def judge(questions: Sequence[Question]) -> tuple[Answer, ...]:
        return tuple(
            Answer(
                name=question.name,
                contrasts=tuple(
                    Contrast(
                        arm=arm,
                        control=question.control,
                        verdict=verdict,
                        why=why,
                        effect=effect,
                        worth="yes" if verdict in ("better", "worse") else None,
                        n_arm=len(runs),
                        n_control=len(question.arms[question.control]),
                        blocks=None,
                        test=None,
                        sentence="",
                        findings=findings,
                    )
                    for arm, runs in question.arms.items()
                    if arm != question.control
                ),
                anova=(),
                pairwise=(),
                findings=(),
            )
            for question in questions
        )

    return judge


def compared(control: Arm, arms: Sequence[Arm], verdict: Verdict = "better", **asked: Any) -> Any:
    return compare(control, arms, CompareQuery(**asked), About(), judge_saying(verdict))


def test_a_verdict_comes_with_the_sentence_that_says_it() -> None:
    found = compared(an_arm("stock", STOCK), [an_arm("tuned", TUNED)])
    (outcome,) = found.outcomes
    assert outcome.contrasts[0].sentence == (
        "wakeup.p50: tuned against stock: 35 % less time (1.54 times as fast), "
        "95 % interval 33 % to 37 % less: better; it matters."
    )
    assert found.answer == f"{outcome.contrasts[0].sentence} This holds on this boot."
    assert (found.title, found.scope, found.control) == ("tuned against stock", "on this boot", "stock")


def test_what_is_refused_has_no_verdict_and_no_estimate() -> None:
    arms = [an_arm(name, STOCK, known={"governor": name}) for name in ("stock", "tuned")]
    found = compared(arms[0], arms[1:])
    (contrast,) = found.outcomes[0].contrasts
    assert (contrast.verdict, contrast.effect, contrast.worth) == ("not comparable", None, None)
    assert "governor differs: stock in stock; tuned in tuned" in contrast.why
    assert found.answer.startswith("stock and tuned cannot be compared: cpufreq governor differs")
    accepted = compared(arms[0], arms[1:], accepted="one laptop has no other governor")
    assert accepted.outcomes[0].contrasts[0].verdict == "better"
    assert "accepted: one laptop has no other governor" in accepted.answer
    assert accepted.findings[0].level == "refuse"


def test_only_the_arm_that_differs_is_refused() -> None:
    arms = [an_arm(name, STOCK, known={"cpu": cpu}) for name, cpu in (("a", "x"), ("b", "x"), ("c", "y"))]
    verdicts = {one.arm: one.verdict for one in compared(arms[0], arms[1:]).outcomes[0].contrasts}
    assert verdicts == {"b": "better", "c": "not comparable"}


def broken(name: str, values: Sequence[float], failures: int) -> Arm:
    runs = [a_run(f"{name}/x{number}", failure="no", boot="b1") for number in range(failures)]
    return Arm(name=name, sources=(), runs=(*an_arm(name, values).runs, *runs))


@pytest.mark.parametrize(
    "control, arm, said, verdict",
    [
        (0, 3, "better", "inconclusive"),
        (0, 3, "worse", "worse"),
        (3, 0, "worse", "inconclusive"),
        (3, 0, "better", "better"),
        (0, 6, "equivalent", "worse"),
        (6, 0, "inconclusive", "better"),
        (2, 2, "better", "better"),
    ],
)
def test_an_arm_that_fails_cannot_be_the_better_one(control: int, arm: int, said: Verdict, verdict: str) -> None:
    stock, tuned = (STOCK * 4)[control:], (TUNED * 4)[arm:]
    found = compared(broken("stock", stock, control), [broken("tuned", tuned, arm)], said)
    contrast = found.outcomes[0].contrasts[0]
    assert contrast.verdict == verdict
    assert any(one.kind == "fails-in-one-arm" for one in contrast.findings) == (control != arm)


def test_six_failures_in_many_runs_against_none_in_few_are_chance() -> None:
    # C(106, 6) / C(112, 6) = 0.71: chance alone would mostly put all of them there.
    found = compared(an_arm("stock", STOCK * 2), [broken("tuned", [3.0] * 100, 6)], "inconclusive")
    assert found.outcomes[0].contrasts[0].verdict == "inconclusive"


def test_failures_one_arm_after_the_other_have_no_known_cause() -> None:
    doubted = Finding(kind="time-and-arm-confounded", level="suspect", sentence="one after the other")
    arms = an_arm("stock", STOCK * 4), [broken("tuned", TUNED * 2, 6)]
    for doubts, verdict in (((), "worse"), ((doubted,), "inconclusive")):
        found = compare(*arms, CompareQuery(), About(), judge_saying("inconclusive", findings=doubts))
        assert found.outcomes[0].contrasts[0].verdict == verdict


def ordered(arm: Arm, places: Sequence[float]) -> Arm:
    """The same runs, made at these times."""
    runs = zip(arm.runs, places, strict=True)
    return msgspec.structs.replace(
        arm, runs=tuple(msgspec.structs.replace(run, clocks={"c": place}) for run, place in runs)
    )


@pytest.mark.parametrize(
    "failures, order, verdict",
    [(5, "in turns", "inconclusive"), (6, "in turns", "worse"), (6, "after", "inconclusive"), (6, "", "inconclusive")],
)
def test_an_arm_that_always_fails_is_not_passed_over(failures: int, order: str, verdict: str) -> None:
    stock, tuned = an_arm("stock", STOCK), broken("tuned", [], failures)
    if order:
        stock = ordered(stock, [1.0, 2.0, 8.5 if order == "in turns" else 3.0])
        tuned = ordered(tuned, [4.0 + place for place in range(failures)])
    found = compared(stock, [tuned])
    (contrast,) = found.outcomes[0].contrasts
    assert (contrast.verdict, contrast.n_arm, contrast.effect) == (verdict, 0, None)
    assert f"wakeup failed {failures} times in tuned and never in stock" in found.answer


def test_mixed_units_are_not_comparable() -> None:
    other = Arm(name="tuned", sources=(), runs=(a_run("t/1", measured(3.0, unit="score"), boot="b1"),))
    (outcome,) = compared(an_arm("stock", STOCK), [other]).outcomes
    assert outcome.contrasts[0].verdict == "not comparable"
    assert "units are mixed" in outcome.contrasts[0].why
    assert outcome.arms == ()


def test_an_outcome_that_only_one_arm_has_is_shown_and_not_judged() -> None:
    other = Arm(name="tuned", sources=(), runs=(a_run("t/1", measured(3.0, "p99"), boot="b1"),))
    found = compared(an_arm("stock", STOCK), [other])
    assert [one.contrasts for one in found.outcomes] == [(), ()]
    assert found.answer == (
        "There is nothing to compare: no outcome of stock is in tuned. "
        "Measured on one side only: 2 outcomes (wakeup.p50, wakeup.p99)."
    )
    assert len([one for one in found.findings if one.kind == "outcome-missing"]) == 2


def three(name: str, values: Sequence[float]) -> Arm:
    """A time, its reciprocal, and another quantity."""
    runs = [
        a_run(
            f"{name}/{number}",
            measured(1 / value, "rate", unit="1/s", direction="higher"),
            measured(value),
            measured(value * (1 + number % 2), "p99"),
            boot="b1",
        )
        for number, value in enumerate(values)
    ]
    return Arm(name=name, sources=(), runs=tuple(runs))


def test_the_primary_comes_first_and_speaks_in_the_answer() -> None:
    found = compared(three("stock", STOCK), [three("tuned", TUNED)], primary="p99")
    assert [(one.name, one.role) for one in found.outcomes] == [("wakeup.p99", "primary"), ("wakeup.rate", "secondary")]
    assert found.answer.startswith("wakeup.p99: tuned against stock:")
    assert "Of the other outcomes, 1 is better (wakeup.rate)." in found.answer
    with pytest.raises(UnknownName, match="'p98'"):
        compared(three("stock", STOCK), [three("tuned", TUNED)], primary="p98")


def tailed(name: str, scale: float, events: int | None) -> Arm:
    """Eight runs, in turns with others: a median and a far percentile on so many events."""
    counts = {} if events is None else {"p99": events, "p50": events}
    runs = [
        a_run(
            f"{name}/{number}",
            measured(scale * (1 + 0.001 * number)),
            measured(scale * (2 + 0.003 * (number * 5 % 8)), "p99"),
            block=str(number),
            boot="b1",
            clocks={"wall": 2.0 * number + (name > "stock") * (-1.0) ** number},
            events=counts,
        )
        for number in range(8)
    ]
    return Arm(name=name, sources=(), runs=tuple(runs))


def of_tails(events: int | None, **asked: Any) -> Any:
    arms = [tailed("stock", 1.0, 5000), tailed("tuned", 0.8, events)]
    return compare(arms[0], arms[1:], CompareQuery(**asked), About(), foreign_judge(0.25))


def test_a_percentile_on_few_events_is_not_taken_as_primary() -> None:
    found = of_tails(400, primary="p99")
    outcomes = {one.name: one for one in found.outcomes}
    assert {one.role for one in found.outcomes} == {"exploratory"}
    far = outcomes["wakeup.p99"].contrasts[0]
    assert far.verdict == "inconclusive"
    assert far.why == (
        "only exploratory, because it cannot decide anything: too few events for this percentile "
        "(400 events in a run, 1,000 are needed); make runs 2.5 times as long"
    )
    assert far.effect is not None
    assert outcomes["wakeup.p50"].contrasts[0].verdict == "better", "the others are judged"
    (told,) = [one for one in found.findings if one.kind == "not-primary"]
    assert told.sentence.startswith("wakeup.p99 was named as primary and is only exploratory: too few events for")
    assert told.values == {"events": 400.0, "needed": 1000.0}
    assert told.sentence in found.answer


@pytest.mark.parametrize("events", [1000, None])
def test_a_percentile_on_enough_events_or_nobody_knows_how_many_is_primary(events: int | None) -> None:
    arms = [tailed("stock", 1.0, events), tailed("tuned", 0.8, events)]
    found = compare(arms[0], arms[1:], CompareQuery(primary="p99"), About(), foreign_judge(0.25))
    assert (found.outcomes[0].name, found.outcomes[0].role) == ("wakeup.p99", "primary")
    assert found.outcomes[0].contrasts[0].verdict == "better"
    assert not [one for one in found.findings if one.kind == "not-primary"]


def test_a_percentile_on_few_events_is_explored_where_nothing_is_named_and_doubted_as_a_secondary() -> None:
    far = next(one for one in of_tails(400).outcomes if one.name == "wakeup.p99")
    assert far.contrasts[0].verdict == "inconclusive"
    second = next(one for one in of_tails(400, primary="p50").outcomes if one.name == "wakeup.p99")
    assert (second.role, second.contrasts[0].verdict) == ("secondary", "better")
    assert "few-events" in [one.kind for one in second.findings]


def test_outcomes_that_say_the_same_are_shown_once() -> None:
    stock, tuned = three("stock", STOCK), three("tuned", TUNED)
    assert [(one.name, one.same_as) for one in compared(stock, [tuned]).outcomes] == [
        ("wakeup.rate", ("wakeup.p50",)),
        ("wakeup.p99", ()),
    ]
    assert len(compared(stock, [tuned], keep_repeats=True).outcomes) == 3


def test_a_reciprocal_of_which_the_same_direction_is_better_is_doubted() -> None:
    def arm(name: str, values: Sequence[float], direction: Direction) -> Arm:
        told = [(measured(value), measured(1 / value, "rate", unit="1/s", direction=direction)) for value in values]
        return Arm(
            name=name, sources=(), runs=tuple(a_run(f"{name}/{at}", *pair, boot="b1") for at, pair in enumerate(told))
        )

    for direction, kinds in (("lower", ["contradicting-direction"]), ("higher", [])):
        arms = [arm("stock", STOCK, direction), arm("tuned", TUNED, direction)]  # type: ignore[arg-type]
        (outcome,) = compare(arms[0], arms[1:], CompareQuery(), About(), foreign_judge(0.25)).outcomes
        assert outcome.same_as == ("wakeup.rate",)
        assert [one.kind for one in outcome.findings if one.kind.startswith("contra")] == kinds


def test_values_of_one_process_are_no_runs() -> None:
    """Equal arms, each of 10 processes whose 10 values are alike, are hardly ever `different`."""
    random = np.random.default_rng(8)
    seen = 0
    for _ in range(60):
        arms = []
        for name in ("old", "new"):
            levels = np.exp(random.normal(0, 0.05, 10))
            runs = tuple(
                a_run(
                    f"{name}/{p}/{v}", measured(float(level * np.exp(random.normal(0, 0.002)))), part_of=f"{name}, {p}"
                )
                for p, level in enumerate(levels)
                for v in range(10)
            )
            arms.append(Arm(name=name, sources=(), runs=runs))
        (outcome,) = compare(arms[0], arms[1:], CompareQuery(), About(), foreign_judge(0.25)).outcomes
        assert (outcome.contrasts[0].n_arm, outcome.arms[0].n) == (10, 100)
        assert "values-of-a-process" in [one.kind for one in outcome.findings]
        seen += outcome.contrasts[0].verdict == "different"
    assert seen <= 7


def test_exclusions_show_both_results() -> None:
    """With the outlier the real judge is not sure, without it it is; nothing of the runs left out is lost."""
    values = [1.00, 1.01, 0.99, 1.02, 1.00, 1.01, 0.60]
    orders = [{"clocks": {"c": float(place)}} for place in range(14)]
    stock = Arm(
        name="stock",
        sources=(),
        runs=tuple(
            a_run(f"s/{place}", measured(value), boot="b1", **orders[2 * place]) for place, value in enumerate(values)
        ),
    )
    tuned = Arm(
        name="tuned",
        sources=(),
        runs=tuple(
            a_run(f"t/{place}", measured(value * 0.65), boot="b1", **orders[2 * place + 1])
            for place, value in enumerate([*values[:6], 1.0])
        ),
    )
    asked = CompareQuery(excluded={"s/6": "a stray task"})
    found = compare(stock, [tuned], asked, About(), foreign_judge(0.25))
    assert found.without is not None
    assert [arm.runs for arm in found.arms] == [6, 7]
    assert [arm.runs for arm in found.without.arms] == [7, 7]
    assert found.without.exclusions == ()
    (exclusion,) = found.exclusions
    assert (exclusion.reason, exclusion.runs) == ("a stray task", ("s/6",))
    verdicts = {found.outcomes[0].contrasts[0].verdict, found.without.outcomes[0].contrasts[0].verdict}
    assert exclusion.changed == (("wakeup.p50",) if len(verdicts) > 1 else ())
    assert found.findings[-1].kind == "excluded-afterwards"
    with pytest.raises(UnknownName, match="run of this comparison"):
        compare(stock, [tuned], CompareQuery(excluded={"s/99": "x"}), About(), foreign_judge(0.25))
    broken = msgspec.structs.replace(stock, runs=(*stock.runs, a_run("s/9", failure="no", boot="b1")))
    with pytest.raises(BadInput, match="cannot exclude s/9: it failed"):
        exclusions(["s/9:x"], [broken, tuned])
    assert exclusions(["s/6:a stray task"], [broken, tuned]) == {"s/6": "a stray task"}


def test_an_exclusion_on_which_a_verdict_depends_is_named() -> None:
    def judge(questions: Sequence[Question]) -> Sequence[Answer]:
        said: Verdict = "better" if len(questions[0].arms["stock"]) == 2 else "inconclusive"
        return judge_saying(said)(questions)

    asked = CompareQuery(excluded={"stock/1": "hot"})
    found = compare(an_arm("stock", STOCK), [an_arm("tuned", TUNED)], asked, About(), judge)
    assert found.exclusions[0].changed == ("wakeup.p50",)
    assert "verdicts that depend on it: wakeup.p50" in found.findings[-1].sentence


def test_an_interval_that_moves_is_named_though_the_verdict_keeps_its_word() -> None:
    """Of an order that is not known: the set differs with and without, by very different bounds."""
    stock = [4.45, 4.41, 4.48, 4.43, 4.46, 4.42, 4.44]
    tuned = [3.9, 3.95, 3.92, 3.94, 3.91, 3.93, 8.9, 4.35]
    arms = [
        Arm(name=name, sources=(), runs=tuple(a_run(f"{name}/{n}", measured(one)) for n, one in enumerate(values)))
        for name, values in (("stock", stock), ("tuned", tuned))
    ]
    said = {}
    for run in ("stock/6", "tuned/7"):
        found = compare(arms[0], arms[1:], CompareQuery(excluded={run: "odd"}), About(), foreign_judge(0.25))
        assert found.without is not None
        whole, kept = (one.outcomes[0].contrasts[0].verdict for one in (found.without, found))
        assert whole == kept
        said[run] = (found.exclusions[0].changed, found.exclusions[0].moved, found.findings[-1].sentence)
    assert said["stock/6"][:2] == ((), ())
    assert said["stock/6"][2].endswith("no verdict depends on it, and no interval moves by more than 25 % of its width")
    assert said["tuned/7"][:2] == ((), ("wakeup.p50",))
    assert said["tuned/7"][2].endswith("; intervals that move by more than 25 % of their width: wakeup.p50")


def test_state_that_nobody_declared_is_a_doubt() -> None:
    changes = tuple(
        StateChange(arm="tuned", name=name, control_value="60", arm_value=None, declared=by)
        for name, by in (("vm.swappiness", "--declared"), ("vm.page-cluster", None))
    )
    found = compare(
        an_arm("stock", STOCK),
        [an_arm("tuned", TUNED)],
        CompareQuery(),
        About(state_changes=changes),
        judge_saying("better"),
    )
    told = [one.sentence for one in found.findings if one.kind == "undeclared-state"]
    assert told == ["the tunable state of tuned has undeclared differences: vm.page-cluster 60 -> (absent)"]
    assert found.outcomes[0].contrasts[0].verdict == "better"


def test_the_real_judge_never_says_more_than_the_layout_allows() -> None:
    """All of stock before all of tuned, on one boot: time and arm are confounded."""
    clocks = [{"clocks": {"c": float(place)}} for place in range(20)]
    arms = [
        Arm(
            name=name,
            sources=(),
            runs=tuple(
                a_run(f"{name}/{place}", measured(base + place * 7 % 10 / 1000), boot="b1", **clocks[start + place])
                for place in range(10)
            ),
        )
        for name, base, start in (("stock", 1.0, 0), ("tuned", 0.6, 10))
    ]
    contrast = compare(arms[0], arms[1:], CompareQuery(), About(), foreign_judge(0.25)).outcomes[0].contrasts[0]
    assert contrast.verdict == "different"
    assert "time and arm are confounded" in contrast.why
    assert contrast.effect is not None


def test_sessions_in_turns_are_judged_in_blocks_with_the_doubt_of_their_fixed_order() -> None:
    names, clock = ("stock", "tuned"), iter(range(100))
    runs: dict[str, list[Any]] = {name: [] for name in names}
    for turn in range(8):
        for name, base in zip(names, (1.0, 0.8), strict=True):
            at = next(clock)
            # A drift far above the effect: only within turns can the arms be told apart.
            value = measured(base * 1.5**turn)
            runs[name].append(a_run(f"{at}/1", value, session=str(at), clocks={"wall": float(at)}, boot="b"))
    control, arm = (Arm(name=name, sources=(), runs=tuple(runs[name])) for name in names)
    found = compare(control, [arm], CompareQuery(), About(), foreign_judge(0.25))
    (contrast,) = found.outcomes[0].contrasts
    assert (contrast.blocks, contrast.verdict) == (8, "better")
    assert contrast.effect is not None
    assert contrast.effect.estimate == pytest.approx(0.2231435513)  # ln(1 / 0.8)
    assert "fixed-order" in {finding.kind for finding in contrast.findings}
    assert "sessions-paired" in {finding.kind for finding in found.findings}
    assert found.scope == "on this boot, across 16 sessions"
    assert "across 16 sessions" in found.answer


def tier(name: str, factor: float, **known: str) -> Arm:
    runs = tuple(
        a_run(f"{name}/{at}", measured(factor * (1 + at / 100)), block=str(at), clocks={"file": at * 9 + len(name)})
        for at in range(10)
    )
    told = tuple(msgspec.structs.replace(run, known={"governor": "performance", **known}) for run in runs)
    return Arm(name=name, sources=(), runs=told)


def test_a_tier_is_refused_against_what_it_differs_from_and_only_that() -> None:
    tiers = [tier("t1", 0.9), tier("tt2", 0.8, governor="powersave"), tier("ttt3", 0.7)]
    found = compare(tier("sstock", 1.0), tiers, CompareQuery(tiers=True), About(), foreign_judge(0.25))
    (outcome,) = found.outcomes
    assert [one.verdict for one in outcome.contrasts] == ["better", "not comparable", "better"]
    assert [(one.control, one.verdict) for one in outcome.steps] == [
        ("sstock", "better"),
        ("t1", "not comparable"),
        ("tt2", "not comparable"),
    ]
    assert "powersave in tt2" in outcome.steps[2].why
    assert outcome.steps[2].effect is None
    assert {finding.kind for finding in found.findings} >= {"other-governor"}
    plain = compare(tier("sstock", 1.0), tiers, CompareQuery(), About(), foreign_judge(0.25))
    assert plain.outcomes[0].steps == ()
