# SPDX-License-Identifier: Apache-2.0
"""A trial as a comparison: figures, the reason of each verdict, how it went."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ktrial.judge.judge import judge
from ktrial.judge.model.comparison import Comparison, OutcomeComparison
from ktrial.judge.model.judgement import Counter, OutcomeJudgement
from ktrial.judge.model.log import BlockVoided, Looked, OutcomeRule, Protocol, RunEnded, TrialEnd
from ktrial.judge.model.verdict import Effect
from ktrial.kit.finding import Finding
from ktrial.trial.outcome.comparison import TrialFacts, comparison_of, outcomes_of, story_of, why
from tests.support.records import run_record
from tests.support.told_trials import FAULTS, P99, RATE, WALL, a_protocol, a_trial


def told() -> Comparison:
    return a_trial().told()


def named(found: Comparison, name: str) -> OutcomeComparison:
    return next(one for one in found.outcomes if one.name == name)


def test_what_decides_comes_first() -> None:
    assert [one.name for one in told().outcomes] == [RATE, FAULTS, P99, WALL]


def test_every_run_that_counts_is_a_point_and_no_void_one() -> None:
    kept = a_trial()
    void = {one.block for one in kept.log if isinstance(one, BlockVoided)}
    values = {
        (one.arm, one.measurements[RATE])
        for one in kept.log
        if isinstance(one, RunEnded) and one.block is not None and one.block not in void and RATE in one.measurements
    }
    points = {(arm.arm, point.value) for arm in named(told(), RATE).arms for point in arm.points}
    assert points == values
    blocks = {point.block for arm in named(told(), RATE).arms for point in arm.points}
    assert not blocks & {str(block) for block in void}


def test_points_carry_what_was_read_of_their_run() -> None:
    kept = a_trial()
    for arm in named(told(), RATE).arms:
        for point in arm.points:
            number = int(point.run.rpartition("/")[2])
            assert kept.records[number - 1].trial.arm == arm.arm  # type: ignore[union-attr]
            assert point.temperature_c == pytest.approx(40 + number / 10)


def test_verdicts_are_the_judges() -> None:
    kept = a_trial()
    said = judge(kept.log)
    for outcome in told().outcomes:
        for contrast in outcome.contrasts:
            one = said.of(outcome.name, contrast.arm, contrast.control)
            assert contrast.verdict == (one.verdict or "inconclusive")
            assert contrast.effect == one.effect


def test_arms_are_what_they_came_to() -> None:
    arms = {one.arm: one for one in told().trial.arms}  # type: ignore[union-attr]
    assert arms["sw60"].changes == {"vm.swappiness": "60"}
    assert arms["sw60"].same == ("vm.page-cluster",)
    assert arms["sw60"].refused == {"vm.nosuch": "this kernel has none"}
    assert [name for name, one in arms.items() if one.placebo] == ["placebo"]


def test_blocks_are_told_as_they_were_drawn() -> None:
    trial = told().trial
    assert trial is not None
    assert [one.block for one in trial.drawn if one.void] == [3]
    assert trial.drawn[2].void == "the machine slept 3 s"
    assert [(one.block, one.failed) for one in trial.drawn if one.failed] == [(2, ("sw180",))]
    assert all(sorted(one.order) == sorted(("control", "sw10", "sw60", "sw180", "placebo")) for one in trial.drawn[:8])


def test_looks_tell_how_intervals_closed_in() -> None:
    """Each is what the judge says of the log up to there; the last is the verdict; intervals never widen."""
    kept = a_trial()
    trial = told().trial
    assert trial is not None
    for arm in ("sw10", "sw60", "sw180", "placebo"):
        looks = [one for one in trial.looks if one.arm == arm]
        assert [one.blocks for one in looks] == list(range(1, looks[-1].blocks + 1))
        assert looks[-1].verdict == judge(kept.log).of(RATE, arm, "control").verdict
        assert all(one.verdict is None for one in looks[:-1])
        assert looks[-1].decides
        widths = [one.high - one.low for one in looks if one.low is not None and one.high is not None]
        assert widths == sorted(widths, reverse=True)


def test_a_ladder_has_its_steps() -> None:
    protocol = a_protocol(("control", "sw10", "sw60"), questions="ladder")
    kept = a_trial()
    log = [
        protocol,
        *(one for one in kept.log[1:] if not (isinstance(one, RunEnded) and one.arm in ("sw180", "placebo"))),
    ]
    log = [one for one in log if not isinstance(one, Looked | TrialEnd)]
    log = [
        msgspec.structs.replace(one, order=tuple(arm for arm in one.order if arm not in ("sw180", "placebo")))
        if hasattr(one, "order")
        else one
        for one in log
    ]
    found = comparison_of(
        kept.stored, log, judge(log), TrialFacts(outcomes=outcomes_of(kept.records, {}), records=kept.records)
    )
    steps = named(found, RATE).steps
    assert [(one.arm, one.control) for one in steps] == [("sw10", "control"), ("sw60", "sw10")]


def judged(**fields: Any) -> OutcomeJudgement:
    values: dict[str, Any] = {
        "outcome": RATE,
        "role": "primary",
        "arm": "sw10",
        "against": "control",
        "placebo": False,
        "verdict": "inconclusive",
        "why": "futility",
        "blocks": 12,
        "effect": Effect(estimate=0.01, low=-0.02, high=0.04, method="m"),
    }
    return OutcomeJudgement(**values | fields)


def reason(protocol: Protocol | None = None, ended: str | None = None, **fields: Any) -> str:
    said = replace(
        judge([a_protocol()]), findings=(Finding(kind="voids", level="refuse", sentence="9 of 10 are void"),)
    )
    return why(judged(**fields), protocol or a_protocol(), said, ended)


def test_the_reason_of_futility_says_what_it_would_take() -> None:
    assert reason(needed=188) == (
        "given up after 12 blocks: going on to the cap of 20 blocks was unlikely to decide it; "
        "with this noise, it takes 188 blocks to find a difference of 5 %"
    )


def test_where_enough_blocks_were_made_it_does_not_ask_for_fewer() -> None:
    said = reason(needed=7)
    assert "7 blocks" not in said
    assert "ktrial would probably have found a difference of 5 %; whether there is one above 2 % is open" in said


@pytest.mark.parametrize(
    "fields,said",
    [
        ({"why": "cap", "blocks": 20}, "the cap of 20 blocks was reached"),
        ({"why": "boundary", "verdict": "better"}, "the interval excludes zero"),
        ({"why": "boundary", "verdict": "equivalent"}, "the interval lies within the margin"),
        ({"why": "counter", "verdict": "equivalent"}, "the counts differ by less than the margin"),
        ({"why": "holm", "verdict": "worse"}, "the difference is beyond chance, corrected for all primary outcomes"),
        ({"why": "ended"}, "the trial ended first: no time is left for another block"),
        ({"why": "open", "verdict": None}, "undecided so far"),
        ({"why": "check", "verdict": "not comparable", "needed": 40}, "refused: 9 of 10 are void"),
        ({"why": "failures", "verdict": "worse"}, "its runs fail"),
    ],
)
def test_reasons(fields: dict[str, Any], said: str) -> None:
    assert reason(ended="no time is left for another block", **fields) == said


def test_an_interval_that_holds_the_effect_is_not_said_to_exclude_it() -> None:
    said = reason(needed=7, effect=Effect(estimate=0.01, low=-0.01, high=0.06, method="m"))
    assert "would probably have found" not in said
    assert said.endswith("the interval still includes a difference of 5 %")


@pytest.mark.parametrize(
    "guard,said",
    [
        ("holds", "the guard holds: surely not worse by more than 5 %; the interval lies within the margin"),
        ("broken", "the guard is broken: surely worse by more than 5 %; the interval lies within the margin"),
        ("open", "whether it is worse by more than 5 % is open; the interval lies within the margin"),
    ],
)
def test_guards_say_whether_they_hold(guard: str, said: str) -> None:
    assert reason(outcome=P99, role="guard", guard=guard, why="boundary", verdict="equivalent") == said


def test_counters_have_their_own_figures() -> None:
    counter = Counter(
        p=0.001,
        control_total=80,
        arm_total=400,
        control_zero_share=0.1,
        arm_zero_share=0.0,
        ratio=5.0,
        low=4.0,
        high=6.0,
        bound=None,
    )
    said = reason(outcome=FAULTS, role="secondary", why="counter", verdict="worse", blocks=20, counter=counter)
    assert said == (
        "the counts differ beyond chance; 400 against 80, summed over 20 blocks, or 20 against 4 a block; "
        "no event in 0 % of them, against 10 %"
    )
    silent = msgspec.structs.replace(counter, control_total=0, arm_total=0, ratio=None, bound=0.15)
    said = reason(outcome=FAULTS, role="secondary", why="cap", blocks=20, counter=silent)
    assert said.endswith("no event in either arm in 20 blocks: fewer than 0.15 events a block")


def test_counts_that_were_never_looked_at_say_so() -> None:
    said = {one.why for one in named(told(), FAULTS).contrasts}
    assert len(said) == 1
    assert "counts are judged only after all 20 blocks; until_all_decided = true" in said.pop()


def test_what_was_not_asked_has_p_values_and_no_verdict() -> None:
    for one in named(told(), WALL).contrasts:
        assert one.why.startswith("exploratory, no verdict: p ")


def test_outcomes_of_own_commands_come_from_the_records() -> None:
    found = outcomes_of([run_record(1, "control", 1, {"rate": 3.0, "time": 2.0}, tool="mine")], {})
    assert {name: (one.unit, one.direction) for name, one in found.items()} == {
        "mine.rate": ("1/s", "higher"),
        "mine.time": ("s", "lower"),
    }


def test_kernels_of_one_release_are_told_apart_by_their_builds() -> None:
    kept = a_trial()
    assert {one.known["kernel"] for one in kept.told().arms} == {kept.records[0].trial.kernel_release}  # type: ignore[union-attr]
    arms = {**kept.stored.arms, "sw10": replace(kept.stored.arms["sw10"], changes={"kernel": "6.12.7, build b"})}
    stored = replace(kept.stored, arms=arms, found={"kernel": "6.12.7, build a"})
    known = {one.arm: one.known["kernel"] for one in kept._replace(stored=stored).told().arms}
    assert (known.pop("sw10"), set(known.values())) == ("6.12.7, build b", {"6.12.7, build a"})


def test_a_trial_that_goes_on_says_so() -> None:
    kept = a_trial(ended=False)
    found = kept.told()
    assert found.trial is not None
    assert found.trial.ended is None
    assert any(one.kind == "unfinished" for one in found.findings)


def test_a_counter_as_primary_has_no_picture_of_intervals() -> None:
    kept = a_trial()
    protocol = a_protocol(outcomes={FAULTS: OutcomeRule(direction="lower", role="primary", scale="count")})
    log = [protocol, *kept.log[1:]]
    assert all(math.isfinite(one.estimate) for one in story_of(kept.stored, log, judge(log)).looks)
