# SPDX-License-Identifier: Apache-2.0
"""What a longer slice of the scheduler does to late wake-ups shows in exact guests, beyond what a placebo does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.guest.kernels import KERNELS
from tests.guest.test_boot import boot

pytestmark = pytest.mark.timeout(1800)
#: Three busy programs beside one thread that its own timer wakes; the rest of the line is the slice in nanoseconds.
SCRIPT = """echo {slice_ns} > /sys/kernel/debug/sched/base_slice_ns
for i in 1 2 3; do (while :; do :; done) & done
echo '{request}' > /tmp/requests
exec ktrial-agent batch --role user /tmp/requests
"""
PARAMETERS = {"kind": "timer", "rate_per_s": 100, "duration_s": 6}
REQUEST = json.dumps({"id": 1, "do": "load", "load": "wakeup", "parameters": PARAMETERS, "limit_s": 60})


def wakeups(slice_ns: int, *arguments: str) -> Any:
    """The load's results."""
    told = boot(KERNELS[-1], "exact", SCRIPT.format(slice_ns=slice_ns, request=REQUEST), *arguments)
    assert told["exact"]["sha256"], told
    return json.loads(told["stdout"])["ok"]["results"]


def test_a_longer_slice_delays_the_latest_wake_ups_and_a_placebo_does_not() -> None:
    short, placebo, long = wakeups(500_000), wakeups(500_000, "--append", "ktrial.placebo=1"), wakeups(3_000_000)
    assert short["count"] == placebo["count"] == long["count"] == 600
    assert long["p99_ns"] > 1.5 * max(short["p99_ns"], placebo["p99_ns"])
    assert abs(long["p50_ns"] - short["p50_ns"]) < 0.02 * short["p50_ns"]
