# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ktrial.judge.judge import judge
from ktrial.judge.model.log import OutcomeRule
from ktrial.trial.run.progress import outlook
from tests.support.trials import TIME, log_of, pair_log, protocol


def test_before_the_first_block_all_of_the_cap_is_left() -> None:
    left = outlook(protocol(), None, 2.0, done=0)
    assert (left.cap, left.stop, left.cap_s, left.stop_s) == (20, None, 20 * 2 * 2.0, None)


def test_runs_of_the_present_block_are_taken_off() -> None:
    said = judge(pair_log(protocol(), [0.05, -0.05, 0.06]))
    assert outlook(protocol(), said, 2.0, done=1).cap_s == (17 * 2 - 1) * 2.0


def test_every_run_of_a_visit_counts() -> None:
    assert outlook(protocol(runs_per_visit=3), None, 1.0, done=0).cap_s == 20 * 2 * 3


def test_nobody_knows_how_long_a_person_takes() -> None:
    for by_hand in (protocol(replicate="boot"), protocol(varies=("kernel",))):
        assert outlook(by_hand, None, 1.0, done=0).cap_s is None


def test_arms_that_were_dropped_take_no_time() -> None:
    """Two arms and the control, one of them decided after seven blocks: two visits a block are left."""
    fixed = protocol(("case", "other"), outcomes={TIME: OutcomeRule(direction="lower", role="primary", margin=0.001)})
    wide = [0.1, -0.1, 0.1, -0.1, 0.1, -0.1, 0.0, 0.1, -0.1]
    scores = {TIME: {"control": [0.0] * 9, "case": [0.5 + 0.01 * block for block in range(9)], "other": wide}}
    said = judge(log_of(fixed, scores))
    assert said.dropped == ("case",)
    left = outlook(fixed, said, 1.0, done=0)
    assert (left.cap_s, left.stop, left.stop_s) == ((20 - 9) * 2, 20, (20 - 9) * 2)


def test_nothing_is_left_of_a_trial_that_is_over() -> None:
    said = judge(pair_log(protocol(), [0.1 + 0.01 * block for block in range(9)]))
    left = outlook(protocol(), said, 2.0, done=0)
    assert (left.cap_s, left.stop) == (None, None)


def test_without_a_run_no_time_is_known() -> None:
    assert outlook(protocol(), None, None, done=0).cap_s is None
