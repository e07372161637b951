# SPDX-License-Identifier: Apache-2.0
"""A noise profile that is cut off and continued is the one that was not cut."""

from __future__ import annotations

import msgspec
import pytest

from ktrial.judge.model.log import BlockDrawn, BlockVoided, Looked, RunEnded
from ktrial.judge.model.noise_profile import ProfileKey
from ktrial.trial.protocol.noise_profile import BLOCKS, earlier_log, is_worth, pilot_protocol, plan_of, profile_of
from tests.support.trial_course import Logs, Trial
from tests.support.trials import protocol

KEY = ProfileKey(machine="m", suite="s", tool_versions={}, kernel_release="6.18", governor=None)


def noisy(block: int | None, arm: str) -> float:
    """Each run differs, as block and arm alone decide."""
    return 1 + ((block or 0) * 37 + len(arm) * 11) % 13 / 1000


def pilot() -> Trial:
    trial = Trial(noisy, plans={})
    trial.protocol = pilot_protocol(trial.protocol)
    trial.logs = Logs(trial.protocol)
    trial.most_blocks = BLOCKS
    return trial


WHOLE = pilot()
WHOLE.run()
PROFILE = profile_of(WHOLE.log, KEY, 1)


@pytest.mark.parametrize("records", range(0, len(WHOLE.store.records), 3))
def test_records_are_enough_to_continue(records: int) -> None:
    trial = pilot()
    trial.store.records = WHOLE.store.records[:records]
    trial.store.started = list(range(1, records + 1))
    trial.logs.events = earlier_log(trial.protocol, trial.store.records, trial.benchmarks)
    assert sum(isinstance(event, Looked) for event in trial.log) == max(0, records - 2) // 2, "after two warm-up runs"
    trial.run()
    assert profile_of(trial.log, KEY, 1).differences == PROFILE.differences
    assert len(trial.store.records) <= len(WHOLE.store.records) + 2, "no visit is made twice, except the warm-up"


def test_a_block_that_was_given_up_is_void() -> None:
    records = [one for one in WHOLE.store.records if one.trial is not None and one.trial.block in {1, 2}]
    log = earlier_log(WHOLE.protocol, records[1:], ("tool",))
    (void,) = [event for event in log if isinstance(event, BlockVoided)]
    assert void.block == 1
    (drawn, _) = [event for event in log if isinstance(event, BlockDrawn)]
    assert drawn.order == next(event for event in WHOLE.log if isinstance(event, BlockDrawn)).order
    assert len([event for event in log if isinstance(event, RunEnded) and event.block == 2]) == 2


def test_only_the_same_question_on_the_same_boot_is_continued() -> None:
    other = msgspec.structs.replace(KEY, kernel_release="6.19")
    plans = {
        plan_of(KEY, "tool.time", "a"),
        plan_of(KEY, "tool.time", "b"),
        plan_of(KEY, "tool.rate", "a"),
        plan_of(other, "tool.time", "a"),
    }
    assert len(plans) == 4
    assert plan_of(KEY, "tool.time", "a") in plans


@pytest.mark.parametrize(
    "names, budget, is_cheap",
    [
        (("case",), 20, False),  # 20 of 40 visits
        (("case",), 40, True),  # 20 of 80
        (("case", "b", "c"), 20, True),  # 20 of 80
        (("case", "b", "c"), 9, False),  # 20 of 36
    ],
)
def test_a_profile_is_measured_for_a_trial_that_is_long_beside_it(
    names: tuple[str, ...], budget: int, is_cheap: bool
) -> None:
    assert is_worth(protocol(names=names, cap=budget)) == is_cheap
    assert is_worth(protocol(names=names, cap=None, budget=budget)) == is_cheap
    assert not is_worth(protocol(names=names, cap=budget, fixed=True))
