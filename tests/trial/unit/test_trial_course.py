# SPDX-License-Identifier: Apache-2.0
"""Whole trials with a machine, an executor and a store made of memory."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import msgspec
import pytest

from ktrial.bench.run.undoable_command import EJECTED
from ktrial.judge.judge import judge
from ktrial.judge.model.log import (
    BlockDrawn,
    BlockVoided,
    Extended,
    Looked,
    OutcomeRule,
    ReadingsTaken,
    RunEnded,
    TrialArm,
    TrialEnd,
    block_order,
)
from ktrial.kit.errors import AgentError, BadInput, BadRun, LimitPassed
from ktrial.trial.arms.arms import Arms
from ktrial.trial.run.events import TrialEnded, VisitBegan
from tests.support.trial_course import (
    FOUND,
    PAGE_CLUSTER,
    SWAPPINESS,
    Killed,
    Trial,
    alike,
    orders_in,
    plan_of,
    readings_in,
    steady,
)

PROFILE = {"tool.time": (0.001, -0.002, 0.001, 0.0015, -0.001, 0.002, -0.0005, 0.001, -0.001, 0.0005)}


def verdict(trial: Trial) -> str | None:
    judgement = trial.run()
    assert judgement is not None
    return next(one.verdict for one in judgement.judged if one.role == "primary")


def test_a_trial_ends_with_a_verdict_and_leaves_the_machine_as_it_was() -> None:
    trial = Trial(steady)
    assert verdict(trial) == "better"
    assert trial.machine.files == FOUND
    assert trial.machine.open == {}
    assert isinstance(trial.log[-1], TrialEnd)
    assert isinstance(trial.told[-1], TrialEnded)


@pytest.mark.parametrize("joules, guard, verdict", [(800, "broken", "worse"), (200, "holds", "better")])
def test_energy_guards_a_trial_whose_counter_begins_anew(joules: int, guard: str, verdict: str) -> None:
    """The arm is faster; what it takes of energy is in a counter of 3 kJ, which is passed every few runs."""
    rapl, range_uj = "/sys/class/powercap/intel-rapl:0", 3_000_000_000
    passed: list[bool] = []

    def heated(block: int | None, arm: str) -> float:
        used_uj = 1000 * round((joules if arm == "case" else 400) * 1000 * alike(block, arm))
        now_uj = int(str(trial.machine.files[f"{rapl}/energy_uj"])) + used_uj
        passed.append(now_uj > range_uj)
        trial.machine.files[f"{rapl}/energy_uj"] = str(now_uj % range_uj)
        return steady(block, arm)

    rule = OutcomeRule(direction="lower", role="guard")
    outcomes = {"tool.time": msgspec.structs.replace(rule, role="primary"), "tool.energy.package-0": rule}
    trial = Trial(heated, outcomes=outcomes)
    trial.machine.files |= {f"{rapl}/name": "package-0", f"{rapl}/energy_uj": "0"}
    trial.machine.files[f"{rapl}/max_energy_range_uj"] = str(range_uj)
    judgement = trial.run()
    assert judgement is not None
    found = {one.role: one for one in judgement.judged}
    assert (found["primary"].verdict, found["guard"].guard, found["guard"].verdict) == ("better", guard, verdict)
    assert any(passed)


def test_every_block_runs_every_arm_in_the_order_of_the_seed_with_its_settings_in_force() -> None:
    trial = Trial(alike, cap=7)
    seen: list[tuple[int | None, str, object]] = []

    def values(block: int | None, arm: str) -> float:
        seen.append((block, arm, trial.machine.files[SWAPPINESS]))
        return alike(block, arm)

    trial.values = values
    trial.run()
    assert orders_in(trial.log) == [block_order(7, block, ("control", "case")) for block in range(1, 8)]
    wanted = [(block, arm) for block, order in enumerate(orders_in(trial.log), 1) for arm in order]
    assert [(block, arm) for block, arm, _ in seen if block is not None] == wanted
    assert {(arm, value) for _, arm, value in seen} == {("control", "60\n"), ("case", "10\n")}


def test_an_arm_that_follows_itself_is_not_switched() -> None:
    trial = Trial(alike, cap=7)
    trial.run()
    arms = ["control", *(arm for order in orders_in(trial.log) for arm in order)]
    switches = sum(before != after for before, after in pairwise(arms))
    assert len(trial.machine.history) == switches + (arms[-1] == "case")


def test_the_same_wait_before_every_visit_whatever_was_switched() -> None:
    trial = Trial(alike, cap=7, settle_s=2.5)
    trial.run()
    visits = sum(isinstance(event, RunEnded) for event in trial.log)
    assert trial.clock.slept_s == [2.5] * visits


def test_the_benchmark_is_not_told_which_arm_it_runs_in_and_the_listener_only_when_it_is_over() -> None:
    trial = Trial(alike, cap=7)
    trial.run()
    assert not any(hasattr(event, "arm") for event in trial.told if isinstance(event, VisitBegan))
    record = trial.store.records[-1]
    assert "case" not in " ".join(record.argv) + record.directory


def test_runs_are_on_disk_before_their_end_is_in_the_log() -> None:
    trial = Trial(alike, cap=7)
    trial.run()
    kept = {record.run for record in trial.store.records}
    assert all(event.run in kept for event in trial.log if isinstance(event, RunEnded))
    places = {record.trial for record in trial.store.records}
    assert {place.protocol_sha256 for place in places if place is not None} == {"f" * 64}


def test_warm_ups_come_first_and_do_not_count() -> None:
    trial = Trial(alike, cap=7)
    trial.run()
    assert [event.block for event in trial.log if isinstance(event, RunEnded)][:3] == [None, None, 1]
    assert [record.is_warm_up for record in trial.store.records[:3]] == [True, True, False]


FAR = {"tool.time": OutcomeRule(direction="lower", role="primary", quantile=0.999)}


def test_a_primary_on_too_few_events_is_refused_after_one_run_that_does_not_count() -> None:
    trial = Trial(steady, outcomes=FAR, details={"histogram_ns": {"1000": 4000, "2000": 999}})
    with pytest.raises(BadInput) as caught:
        trial.run()
    assert caught.value.message == ("tool.time has too few events to decide: 4,999 events in a run, 10,000 are needed")
    assert (caught.value.hint or "").startswith("make runs 2.1 times as long")
    assert [event.block for event in trial.log if isinstance(event, RunEnded)] == [None]
    assert trial.machine.files == FOUND
    assert verdict(Trial(steady, outcomes=FAR, details={"histogram_ns": {"1000": 10_000}})) == "better"


def test_warm_ups_go_on_until_two_are_alike_but_not_for_ever() -> None:
    cooling = iter([2.0, 1.5, 1.2, 1.001, 1.0])
    trial = Trial(lambda block, arm: next(cooling) if block is None else alike(block, arm), profile=PROFILE, cap=7)
    trial.run()
    assert sum(isinstance(event, RunEnded) and event.block is None for event in trial.log) == 5
    wild = iter(range(1, 100))
    trial = Trial(lambda block, arm: float(next(wild)) if block is None else 1.0, profile=PROFILE, cap=7)
    trial.run()
    assert sum(isinstance(event, RunEnded) and event.block is None for event in trial.log) == 6


def test_a_benchmark_that_fails_at_once_is_said_before_anything_is_changed() -> None:
    trial = Trial(lambda block, arm: b"nonsense")
    with pytest.raises(BadRun, match="the benchmark failed in a warm-up run of control"):
        trial.run()
    assert trial.machine.history == []


def test_failures_of_one_arm_only_are_counted_and_decide() -> None:
    trial = Trial(lambda block, arm: b"oops" if arm == "case" else alike(block, arm))
    judgement = trial.run()
    assert judgement is not None
    (judged,) = judgement.judged
    assert (judged.verdict, judged.why) == ("worse", "failures")
    assert judged.findings[0].values == {"case": 6.0, "control": 0.0}
    failures = [event.failure for event in trial.log if isinstance(event, RunEnded) and event.failure]
    assert len(failures) == 6
    assert "not the word time" in str(failures[0])


def test_an_arm_whose_own_parameters_do_not_run_at_all_ends_the_trial_without_a_verdict() -> None:
    trial = Trial(lambda block, arm: b"oops" if arm == "case" else alike(block, arm), own=("case",))
    with pytest.raises(BadRun, match=r"a benchmark fails in arm case: tool: .*oops") as error:
        trial.run()
    assert error.value.hint == "run the benchmark or command of arm case by hand to see why it fails"
    last = trial.log[-1]
    assert isinstance(last, TrialEnd)
    assert last.reason.startswith("stopped: a benchmark fails in arm case")
    assert judge(trial.log).judged[0].verdict == "inconclusive"
    assert trial.machine.files == FOUND


def test_an_arm_whose_parameters_ran_once_may_fail_later() -> None:
    trial = Trial(
        lambda block, arm: b"oops" if arm == "case" and block and block > 1 else alike(block, arm), own=("case",)
    )
    judgement = trial.run()
    assert judgement is not None
    assert (judgement.judged[0].verdict, judgement.judged[0].why) == ("worse", "failures")


def test_an_interruption_is_kept_and_the_visit_is_made_again() -> None:
    trial = Trial(alike, cap=7)
    trial.interrupt_at = (3, "case")
    trial.run()
    assert trial.course.interrupted
    assert trial.machine.files == FOUND
    assert trial.store.records[-1].exit.interrupted
    assert not any(isinstance(event, TrialEnd) for event in trial.log)
    judgement = trial.run()
    assert judgement is not None
    assert judgement.blocks == 7
    uncut = Trial(alike, cap=7)
    uncut.run()
    assert trial.happened == uncut.happened


def test_a_knob_changed_under_our_feet_makes_blocks_void_and_then_the_trial_not_comparable() -> None:
    trial = Trial(alike)
    runs = Counter[str]()

    def values(block: int | None, arm: str) -> float:
        runs[arm] += 1
        if block == 3 and arm == "control":
            trial.machine.files[SWAPPINESS] = "33\n"
        return alike(block, arm)

    trial.values = values
    judgement = trial.run()
    assert judgement is not None
    voids = [event for event in trial.log if isinstance(event, BlockVoided)]
    assert [void.cause for void in voids] == ["knob", "knob"]
    assert all("vm.swappiness (/proc/sys/vm/swappiness) reads '33' instead of '60'" in void.reason for void in voids)
    (judged,) = judgement.judged
    assert judged.verdict == "not comparable"
    (found,) = [one for one in judgement.findings if one.kind == "arm-not-in-force"]
    assert SWAPPINESS in found.sentence
    assert trial.machine.files[SWAPPINESS] == "33\n", "what others wrote is theirs"


def test_a_knob_changed_while_the_arm_is_in_force_makes_the_block_void() -> None:
    trial = Trial(alike, cap=7)
    done: list[object] = []

    def values(block: int | None, arm: str) -> float:
        if block == 3 and arm == "case" and not done:
            done.append(block)
            trial.machine.files[SWAPPINESS] = "11\n"
        return alike(block, arm)

    trial.values = values

    def takes_it_back(do: str) -> None:
        if do == "revert" and done == [3]:
            done.append(do)
            trial.machine.files[SWAPPINESS] = "10\n"

    trial.machine.on_request = takes_it_back
    judgement = trial.run()
    assert judgement is not None
    (void,) = [event for event in trial.log if isinstance(event, BlockVoided)]
    assert (void.block, void.arm, void.cause) == (3, "case", "knob")
    assert judgement.voided == 1


def test_a_knob_of_another_arm_must_stay_as_it_was_found() -> None:
    plans = {
        "case": plan_of(SWAPPINESS, "vm.swappiness", "10"),
        "other": plan_of(PAGE_CLUSTER, "vm.page-cluster", "0"),
    }
    trial = Trial(alike, names=("case", "other"), plans=plans)

    def values(block: int | None, arm: str) -> float:
        if block == 2 and arm == "case":
            trial.machine.files[PAGE_CLUSTER] = "5\n"
        return alike(block, arm)

    trial.values = values
    trial.run()
    void = next(event for event in trial.log if isinstance(event, BlockVoided))
    assert "vm.page-cluster" in void.reason


def test_a_machine_that_changed_before_the_first_run_is_refused() -> None:
    trial = Trial(alike)
    trial.machine.files[SWAPPINESS] = "1\n"
    with pytest.raises(BadRun, match="has changed since the trial was planned"):
        trial.run()


def test_a_lost_agent_is_told() -> None:
    trial = Trial(alike)

    def values(block: int | None, arm: str) -> float:
        trial.machine.lost = block == 2
        return alike(block, arm)

    trial.values = values
    with pytest.raises(AgentError) as caught:
        trial.run()
    assert caught.value.kind == "lost"


def test_the_state_of_each_arm_is_kept_once_with_the_arm_in_force() -> None:
    trial = Trial(alike, cap=7)
    trial.state = lambda: str(trial.machine.files[SWAPPINESS]).encode()
    trial.run()
    assert trial.store.states == {"control": b"60\n", "case": b"10\n"}


def test_time_is_for_the_whole_trial_and_a_block_must_fit_into_it() -> None:
    trial = Trial(alike, time_s=60)
    judgement = trial.run()
    assert judgement is not None
    assert 0 < judgement.blocks < 20
    ended = trial.log[-1]
    assert isinstance(ended, TrialEnd)
    assert ended.reason == "no time is left for another block"
    assert judgement.judged[0].verdict == "inconclusive"


def test_time_that_is_too_short_for_one_block_is_said() -> None:
    trial = Trial(alike, time_s=1)
    with pytest.raises(BadInput, match="time = 1 s is not enough for one block, which takes about"):
        trial.run()
    assert trial.machine.history == []
    assert isinstance(trial.log[-1], TrialEnd)


def test_a_limit_ends_the_trial_and_puts_everything_back() -> None:
    trial = Trial(alike)

    def values(block: int | None, arm: str) -> float:
        if (block, arm) == (3, "case"):
            raise LimitPassed("the temperature is 99.0 °C (limit 95 °C)")
        return alike(block, arm)

    trial.values = values
    with pytest.raises(LimitPassed):
        trial.run()
    assert trial.machine.files == FOUND
    assert trial.log[-1] == TrialEnd(reason="stopped: the temperature is 99.0 °C (limit 95 °C)")


def test_several_runs_a_visit_and_several_benchmarks() -> None:
    trial = Trial(alike, cap=7, runs_per_visit=2, benchmarks=("tool", "other"))
    judgement = trial.run()
    assert judgement is not None
    assert judgement.blocks == 7
    runs = [event for event in trial.log if isinstance(event, RunEnded) and event.block is not None]
    assert len(runs) == 2 * 2 * 7
    assert all(set(run.measurements) == {"tool.time", "other.time"} for run in runs)
    assert readings_in(trial.log) == len(runs)


def test_the_wait_to_settle_is_once_for_all_runs_of_a_visit() -> None:
    trial = Trial(alike, cap=7, runs_per_visit=3, settle_s=2.0)
    assert trial.run() is not None
    # 7 blocks of two visits, and two warm-up runs.
    assert trial.clock.slept_s == [2.0] * (7 * 2 + 2)


def test_a_visit_that_begins_tells_how_long_it_still_takes() -> None:
    """Runs take the same time as told by this clock, and a wait of 2 s goes before each visit of two runs."""
    trial = Trial(alike, cap=9, runs_per_visit=2, settle_s=2.0)
    assert trial.run() is not None
    began = [event for event in trial.told if isinstance(event, VisitBegan)]
    assert began[0].left_s is None
    told = [event.left_s for event in began if event.block is not None]
    run_s = trial.visits.pace.run_s
    assert run_s is not None
    visit_s = 2 + 2 * run_s
    assert told[:4] == pytest.approx([18 * visit_s, 17.5 * visit_s, 17 * visit_s, 16.5 * visit_s])
    assert told[-1] == pytest.approx((9 - 7) * 2 * visit_s + visit_s / 2), "equivalent after seven"


def test_a_run_whose_arm_was_lost_meanwhile_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its output was good; in the record as in the log, and only where it happened."""
    lost = f"{EJECTED}: sched_ext shows disabled instead of lavd"
    monkeypatch.setattr(Arms, "failed", lambda arms: None if arms.in_force is None else lost)
    trial = Trial(alike, cap=9)
    judgement = trial.run()
    assert judgement is not None
    runs = [event for event in trial.log if isinstance(event, RunEnded) and event.block is not None]
    assert {(run.arm, run.failure) for run in runs} == {("control", None), ("case", f"tool: {lost}")}
    assert {record.failure for record in trial.store.records} == {None, lost}
    assert not any(record.measurements for record in trial.store.records if record.failure)
    assert [one.verdict for one in judgement.judged if one.role == "primary"] == ["worse"]


def test_a_fixed_number_of_blocks_is_made_whatever_the_judge_says() -> None:
    arms = (TrialArm(name="first"), TrialArm(name="second", placebo=True))
    trial = Trial(lambda block, arm: 1.0, arms=arms, control="first", plans={})
    trial.most_blocks = 10
    trial.run()
    assert len(orders_in(trial.log)) == 10, "a quiet benchmark is equivalent after seven"
    assert not any(isinstance(event, TrialEnd) for event in trial.log)


def test_every_look_is_in_the_log_and_holds() -> None:
    from ktrial.judge.audit import audit

    trial = Trial(alike)
    judgement = trial.run()
    assert judgement is not None
    looks = [event.blocks for event in trial.log if isinstance(event, Looked)]
    assert looks == list(range(1, judgement.blocks + 1))
    assert audit(trial.log) == ()


def test_an_extended_trial_goes_on_and_ends_again() -> None:
    wide = [0.1, -0.12, 0.08, -0.09, 0.11, -0.1, 0.09, -0.11, 0.1, -0.08]
    noisy = lambda block, arm: 1.0 if arm == "control" else 1 + wide[(block or 0) % 10]  # noqa: E731
    trial = Trial(noisy, cap=7, extend=True)
    judgement = trial.run()
    assert judgement is not None
    assert (judgement.blocks, judgement.judged[0].verdict) == (7, "inconclusive")
    trial.logs.append("trial", [Extended(blocks=11)])
    judgement = trial.run()
    assert judgement is not None
    assert (judgement.blocks, judgement.judged[0].verdict) == (11, "inconclusive")
    assert isinstance(trial.log[-1], TrialEnd)


def test_a_gate_that_refuses_makes_the_block_void_and_many_end_the_trial() -> None:
    trial = Trial(alike, cap=20)
    # The reference is the first run's; from the second block on it is 30 degrees hotter.
    trial.heat = [{"temperature.cpu": 45_000}] * 12 + [{"temperature.cpu": 75_000}]
    judgement = trial.run()
    assert judgement is not None
    voids = [event for event in trial.log if isinstance(event, BlockVoided)]
    assert {void.cause for void in voids} == {"reading"}
    assert "limit 8.0 °C" in voids[0].reason
    assert judgement.judged[0].verdict == "not comparable"
    assert len(voids) < 10, "it does not go on for ever"


def test_what_was_read_is_in_the_log_before_the_run() -> None:
    trial = Trial(alike, cap=7)
    trial.run()
    for before, event in pairwise(trial.log):
        if isinstance(event, RunEnded) and event.block is not None:
            assert isinstance(before, ReadingsTaken)
            assert before.readings["temperature_c"] == 45.0


def test_nothing_of_the_head_happens_after_its_end() -> None:
    trial = Trial(alike, cap=7)
    assert trial.run(last=60) is None
    with pytest.raises(Killed):
        trial.store.life.step()
    assert trial.machine.files == FOUND
    assert sum(isinstance(event, BlockDrawn) for event in trial.log) >= 1


def test_input_during_a_run_makes_its_block_void_if_the_machine_should_be_idle() -> None:
    trial = Trial(alike, cap=7)
    used = iter([None] * 5 + ["/dev/pts/3"])
    trial.disturbed = lambda: next(used, None)
    trial.run()
    (void,) = [event for event in trial.log if isinstance(event, BlockVoided)]
    # Two warm-up runs, and two of the first block.
    assert (void.block, void.cause, void.reason) == (2, "reading", "input during the run: /dev/pts/3")
    assert len(trial.store.records) == 2 + 2 * 7 + 2, "the run is kept, and its block made again"
    assert trial.machine.files == FOUND
