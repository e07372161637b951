# SPDX-License-Identifier: Apache-2.0
"""What a trial costs and sees before its first run. The numbers are worked out by hand from a profile of ±0.02."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.bench.suite import Task
from ktrial.judge.model.noise_profile import NoiseProfile, ProfileKey
from ktrial.machine.facts import FactBook
from ktrial.trial.protocol.forecast import (
    TrialForecast,
    expected_run_seconds,
    forecast_of,
    planned_runs,
    trial_seconds,
)
from tests.support.bench import FakeBenchmark
from tests.support.trials import TIME, protocol

KEY = ProfileKey(machine="m", suite="s", tool_versions={}, kernel_release="6", governor=None)
#: sd 0.0211, 1.4826 times the median of the sizes 0.0297: planned with 1.25·0.0297 = 0.0371.
PROFILE = NoiseProfile(key=KEY, made_unix_ms=0, differences={TIME: (0.02, -0.02) * 5}, run_s=2.0)


def forecast(settle_s: float = 1.0, **changes: Any) -> TrialForecast:
    found = forecast_of(protocol(**changes), PROFILE, settle_s)
    assert found is not None
    return found


def test_what_can_be_seen_follows_from_the_spread_and_the_cap() -> None:
    nine = forecast(cap=9)
    # 1.15·(3.24·0.0371/ln 1.05)² + 3 = 9.97 blocks; exp(3.24·0.0371/√(6/1.15)) = 1.0540.
    assert (nine.needed, nine.affordable, nine.sees_enough) == (10, 12, False)
    assert nine.smallest_effect == pytest.approx(0.0540, abs=5e-5)
    twelve = forecast(cap=12)
    assert twelve.sees_enough
    assert twelve.smallest_effect == pytest.approx(0.0439, abs=5e-5)


def test_what_would_take_more_blocks_than_the_tables_have_is_not_affordable() -> None:
    # 1.15·(3.24·0.0371/ln 1.005)² + 3 = 669.8.
    hopeless = forecast(cap=60, detect=0.005)
    assert (hopeless.needed, hopeless.affordable, hopeless.affordable_s) == (670, None, None)
    assert hopeless.expected == 60


def test_the_cost_is_that_of_visits_with_their_wait() -> None:
    # Two warm-up runs and 9 blocks of 2 visits, 3 s each.
    assert forecast(cap=9).cap_s == 2 * 3 + 9 * 2 * 3
    # Two runs a visit share one wait of 1 s.
    assert forecast(cap=9, runs_per_visit=2).cap_s == 2 * 3 + 9 * 2 * 5
    # ln 1.05 is 1.32 sd: between 8.4 blocks (1.2 sd) and 7.5 (1.5 sd).
    assert forecast(cap=20).expected == 9
    assert forecast(cap=20).expected_s == 2 * 3 + 9 * 2 * 3


def test_older_profiles_tell_no_time() -> None:
    old = msgspec.structs.replace(PROFILE, run_s=None)
    found = forecast_of(protocol(cap=9), old, 1.0)
    assert found is not None
    assert (found.cap_s, found.expected_s) == (None, None)
    assert planned_runs(old, TIME, 100.0) == 1


def test_without_noise_or_a_cap_nothing_is_foretold() -> None:
    assert forecast_of(protocol(cap=None), PROFILE, 1.0) is None
    assert forecast_of(protocol(cap=9), msgspec.structs.replace(PROFILE, differences={}), 1.0) is None


@pytest.mark.parametrize("settle_s, runs", [(0.0, 1), (1.0, 1), (8.0, 2), (18.0, 3), (1000.0, 4)])
def test_a_long_wait_is_worth_several_runs(settle_s: float, runs: int) -> None:
    """The square root of the wait over the run of 2 s, from 1 to 4."""
    assert planned_runs(PROFILE, TIME, settle_s) == runs


@pytest.mark.parametrize(
    "expected_s, parameters, run_s",
    [
        (5.0, {"loops": 1}, 3.0),  # as long as the last run like it
        (5.0, {"loops": 2}, 5.0),  # as its benchmark says, without such a run
        (None, {"loops": 2}, None),
    ],
)
def test_the_time_of_a_run_is_that_of_the_last_one(
    expected_s: float | None, parameters: dict[str, int], run_s: float | None
) -> None:
    earlier = {"benchmark": "tool", "parameters": {"loops": 1}, "resources": {"wall_ns": 3_000_000_000}, "argv": ["t"]}
    task = Task(label="tool", benchmark=FakeBenchmark(name="tool", expected_s=expected_s), parameters=parameters)
    assert expected_run_seconds([earlier], (task,), (), FactBook({})) == run_s
    # Two warm-up runs and 9 blocks of 2 visits, with a wait of 1 s each.
    whole_s = None if run_s is None else 20 * (1 + run_s)
    assert trial_seconds(protocol(cap=9), run_s, 1.0) == whole_s
