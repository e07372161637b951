# SPDX-License-Identifier: Apache-2.0
"""A noise profile: ten blocks whatever they say, and why there is none."""

from __future__ import annotations

import msgspec
import pytest

from ktrial.judge.judge import judge, refuse_unanswerable
from ktrial.judge.model.log import BlockVoided, OutcomeRule
from ktrial.judge.model.noise_profile import ProfileKey
from ktrial.kit.errors import KtrialError
from ktrial.trial.protocol.noise_profile import BLOCKS, pilot_protocol, profile_of
from tests.support.trials import TIME, log_of, protocol

KEY = ProfileKey(machine="m", suite="s", tool_versions={}, kernel_release="6.18", governor=None)


def test_a_pilot_of_a_trial_with_many_questions_is_made_like_any_other() -> None:
    asked = protocol()
    asked = msgspec.structs.replace(
        asked,
        outcomes={
            **asked.outcomes,
            **{f"second-{number}": OutcomeRule(direction="lower", role="secondary") for number in range(3)},
            **{f"guard-{number}": OutcomeRule(direction="lower", role="guard") for number in range(3)},
        },
    )
    refuse_unanswerable(pilot_protocol(asked))
    assert set(pilot_protocol(asked).outcomes) == set(asked.outcomes)


@pytest.mark.parametrize("second", [0.0, 5.0])
def test_no_verdict_ends_a_pilot_early(second: float) -> None:
    """Neither runs that are all alike nor a second run that always differs."""
    pilot = pilot_protocol(protocol())
    for blocks in range(1, BLOCKS):
        log = log_of(pilot, {TIME: {"first": [0.0] * blocks, "second": [second] * blocks}})
        assert judge(log).next.action == "go on", blocks
    log = log_of(pilot, {TIME: {"first": [0.0] * BLOCKS, "second": [second] * BLOCKS}})
    assert len(profile_of(log, KEY, 1).differences[TIME]) == BLOCKS


def test_void_blocks_are_named_as_what_they_are() -> None:
    log = log_of(pilot_protocol(protocol()), {TIME: {"first": [0.0] * 8, "second": [0.0] * 8}})
    voids = [BlockVoided(block=block, arm="first", cause="knob", reason="a changed; b changed; c") for block in (1, 2)]
    with pytest.raises(KtrialError, match="2 of 8 blocks of the noise profile are void: a changed, and 2 more"):
        profile_of([*log, *voids], KEY, 1)
    with pytest.raises(KtrialError, match="8 of 10 blocks of the noise profile gave"):
        profile_of(log, KEY, 1)
