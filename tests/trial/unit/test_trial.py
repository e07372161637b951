# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec

from ktrial.judge.judge import judge
from ktrial.judge.model.log import TrialArm, TrialEnd
from ktrial.machine.gates import parse_gates
from ktrial.trial.outcome.comparison import TrialFacts, comparison_of
from ktrial.trial.outcome.text import announcement, block_line, cost_text, more_text, sight_text, trials_text
from ktrial.trial.protocol.forecast import TrialForecast
from ktrial.trial.record import ArmSettings, TrialSummary
from tests.results.unit.test_trials import stored
from tests.support.bench import outcome
from tests.support.trial_course import Trial, alike
from tests.support.trials import TIME, pair_log, protocol

BETTER = [0.05, 0.051, 0.049, 0.05, 0.052, 0.048, 0.05]


def test_the_announcement_says_what_each_arm_is_and_what_it_costs() -> None:
    fixed = protocol(arms=(TrialArm(name="control"), TrialArm(name="case"), TrialArm(name="same", placebo=True)))
    arms = {
        "control": ArmSettings(),
        "case": ArmSettings(changes={"vm.swappiness": "10"}),
        "same": ArmSettings(),
    }
    said = announcement(fixed, arms, ["same"], 1.5, width=100)
    assert "trial test: tool.time, lower is better, margin 2 %" in said
    assert "vm.swappiness = 10" in said
    assert "the control again: a placebo" in said
    assert "same is a placebo: its settings are in force already" in said
    assert "at most 20 blocks of 3 visits in random order, seed 7; 1.5 s to settle" in said


FORECAST = TrialForecast(
    wanted=0.05, smallest_effect=0.034, cap=20, needed=12, affordable=12, expected=9, cap_s=600.0, expected_s=270.0
)


def test_the_announcement_has_cost_sight_and_rules() -> None:
    fixed = protocol(gates=parse_gates({"start_temperature": "9C", "swap": "off"}), runs_per_visit=2)
    said = announcement(fixed, {arm.name: ArmSettings() for arm in fixed.arms}, (), 0, FORECAST, rules=True, width=100)
    assert "in random order, 2 runs each, seed 7" in said
    assert "costs    about 10 min 0 s to block 20, about 4 min 30 s if an effect of 5 % is there" in said
    assert "sees     an effect of 5 %, as requested, in 9 of 10 trials; 3.4 % is the smallest that it detects" in said
    assert "never because of a measurement" in " ".join(said.split())
    refused, doubted = said[said.index("refuses ") :].split("doubts ")
    assert "start_temperature 9.0 °C" in refused
    assert "steal 2 %" in doubted
    assert "swap" not in refused + doubted
    arms = {arm.name: ArmSettings(changes={"build": "prog by make"}) for arm in fixed.arms}
    assert "unread" not in said
    said = announcement(fixed, arms, (), 0, unread=("on_ac", "governor"), rules=True, width=100)
    assert "build = prog by make" in said
    assert "unread   this machine reports no on_ac, governor: these gates have no effect" in said
    assert "costs    unknown until the first run; ktrial stops as soon as the answer is clear" in said
    assert "sees     unknown without a noise profile, which `ktrial noise` measures" in said
    known = announcement(fixed, arms, (), 0, cap_s=720.0, rules=True, width=100)
    assert "costs    about 12 min 0 s at most" in known
    assert "refuses  a run beyond: " in said


def test_a_trial_that_is_blind_says_so_and_what_would_help() -> None:
    blind = msgspec.structs.replace(FORECAST, needed=34, affordable=40, affordable_s=1200.0, smallest_effect=1.5)
    assert sight_text(blind) == "effects of 150 % or more in 9 of 10 trials; 5 % is lost in the noise"
    assert more_text(blind).startswith("--budget 40 (about 20 min 0 s) detects 5 %; or try longer runs")
    hopeless = msgspec.structs.replace(blind, needed=530, affordable=None, affordable_s=None)
    assert more_text(hopeless).startswith("detecting 5 % would take 530 blocks, more than a trial may have; try")
    unknown = msgspec.structs.replace(blind, cap_s=None, expected_s=None)
    assert cost_text(unknown) == "at most 20 blocks; the time of a block is still unknown"


def test_a_line_for_each_block() -> None:
    fixed = protocol()
    assert block_line(fixed, judge(pair_log(fixed, BETTER[:3]))) == "block 3/20: case undecided (about -4.9 %)\n"
    told = block_line(fixed, judge(pair_log(fixed, BETTER[:3])), 90.0)
    assert told == "block 3/20: case undecided (about -4.9 %); at most 1 min 30 s left\n"
    assert block_line(fixed, judge(pair_log(fixed, BETTER))).startswith("block 7/20: case better (")


def test_trials_are_listed_with_what_is_open() -> None:
    assert "No trials yet" in trials_text([], width=100)
    one = TrialSummary(
        trial="a-1", name="a", started_unix_ms=0, primary=TIME, blocks=3, verdicts={"case": None}, ended=None
    )
    over = msgspec.structs.replace(one, verdicts={"case": "worse"}, ended="decided")
    said = trials_text([one, over], width=100)
    assert "1970-01-01  a-1\n" in said
    assert ", 3 blocks, not over; open: case\n" in said
    assert ", 3 blocks; worse: case\n" in said


def test_a_trial_of_many_arms_is_listed_within_80_columns() -> None:
    verdicts = {f"vfs_cache_pressure-{value}+dirty_ratio-5": "better" for value in range(9)}
    many = TrialSummary(
        trial="a" * 60, name="a", started_unix_ms=0, primary=TIME, blocks=1, verdicts=verdicts, ended="decided"
    )
    said = trials_text([many], width=80)
    assert max(map(len, said.splitlines())) <= 80
    assert said.count("better") == 1


def test_a_trial_as_a_comparison() -> None:
    log = [*pair_log(protocol(), BETTER), TrialEnd(reason="decided")]
    found = comparison_of(stored("a"), log, judge(log), TrialFacts(outcomes={TIME: outcome()}, records=()))
    (one,) = found.outcomes
    (contrast,) = one.contrasts
    assert (contrast.verdict, contrast.n_arm, contrast.n_control, contrast.blocks) == ("better", 7, 7, 7)
    assert [(arm.arm, arm.runs, arm.failed) for arm in found.arms] == [("control", 7, 0), ("case", 7, 0)]
    assert one.arms[0].points[0].run.startswith("session-a/")
    assert found.protocol_sha256 == "f" * 64
    assert found.reproduce == ("ktrial trial run trial.toml", "ktrial trial recheck a")
    assert found.scope == "on this boot of this machine"
    assert not any(one.kind == "unfinished" for one in found.findings)


def test_a_trial_that_is_not_over_says_so() -> None:
    log = pair_log(protocol(), BETTER[:3])
    found = comparison_of(stored("a"), log, judge(log), TrialFacts(outcomes={TIME: outcome()}, records=()))
    assert [one.kind for one in found.findings if one.kind == "unfinished"] == ["unfinished"]
    assert found.outcomes[0].contrasts[0].why.startswith("undecided so far")


def test_failed_and_void_runs_are_counted() -> None:
    trial = Trial(lambda block, arm: b"oops" if (block, arm) == (2, "case") else alike(block, arm), cap=7)
    judgement = trial.run()
    assert judgement is not None
    told = TrialFacts(outcomes={TIME: outcome()}, records=trial.store.records)
    found = comparison_of(stored("a"), trial.log, judgement, told)
    assert {one.arm: one.failed for one in found.arms} == {"control": 0, "case": 1}
    assert {one.arm: one.boots for one in found.arms} == {"control": 1, "case": 1}
