# SPDX-License-Identifier: Apache-2.0
"""Requests by how long they took, and the power states that fit them."""

from __future__ import annotations

import pytest

from ktrial.recordings.latency import Latencies, PowerState, state_left

STATES = (
    PowerState(id=0, operational=True),
    PowerState(id=3, operational=False, entry_latency_us=2000, exit_latency_us=1200),
    PowerState(id=4, operational=False, entry_latency_us=500, exit_latency_us=9500),
)


@pytest.mark.parametrize(
    "length_s, idle_s, state",
    [
        (0.0105, 2.0, 4),
        (0.0014, 0.2, 3),
        (0.0105, 0.01, None),  # it had no time to fall asleep
        (0.0105, None, None),
        (0.0001, 2.0, None),
        (0.2, 2.0, None),
    ],
)
def test_a_request_after_idleness_fits_the_state_whose_exit_takes_as_long(
    length_s: float, idle_s: float | None, state: int | None
) -> None:
    found = state_left(length_s, idle_s, STATES)
    assert (None if found is None else found.id) == state


def test_a_drive_that_stays_awake_leaves_no_state() -> None:
    assert state_left(0.0105, 2.0, ()) is None


def test_shares_and_quantiles_are_those_of_bars() -> None:
    found = Latencies(requests=100, bytes=0, flushes=0, histogram=((0.001, 50), (0.002, 45), (0.01, 5)))
    assert (found.above(0.005), found.quantile(0.5), found.quantile(0.99)) == (0.05, 0.001, 0.01)
    empty = Latencies(requests=0, bytes=0, flushes=3, histogram=())
    assert (empty.above(0.005), empty.quantile(0.5)) == (0.0, None)
