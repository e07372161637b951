# SPDX-License-Identifier: Apache-2.0
"""KTweak's whole profile on a kernel whose scheduler has six of its settings in debugfs (5.13 to 6.5), and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.guests.system.kernels import KERNELS
from tests.support.kept_guest import KeptGuest

pytestmark = [pytest.mark.timeout(1200)]
FOLDER = "/sys/kernel/debug/sched/"
SIX = {
    "tunable_scaling": "0",
    "latency_ns": "10000000",
    "min_granularity_ns": "2500000",
    "migration_cost_ns": "1000000",
    "nr_migrate": "128",
    "wakeup_granularity_ns": "10000000",
}


def by_name(steps: list[dict[str, Any]], field: str) -> dict[str, Any]:
    """A field of the steps that write the six files."""
    found = {step["path"].removeprefix(FOLDER): step[field] for step in steps}
    return {name: value.strip() for name, value in found.items() if name in SIX}


def test_the_settings_in_debugfs_are_applied_read_back_and_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    kept = KeptGuest(KERNELS[0])
    try:
        before = kept.told("plan", "ktweak")
        assert by_name(before["plan"]["steps"], "new") == SIX
        # Memory disks and zram have no queue: the kernel would refuse their nr_requests, and with it the profile.
        without_queue = [one["knob"] for one in before["refusals"] if one["knob"].startswith("queue:nr_requests@")]
        assert "queue:nr_requests@zram0" in without_queue
        applied = kept.told("apply", "ktweak", "--yes")
        assert applied["state"] == "applied"
        assert by_name(applied["steps"], "value") == SIX
        (verified,) = kept.told("verify")["transactions"]
        assert by_name(verified["steps"], "now") == SIX
        assert {step["outcome"] for step in verified["steps"]} == {"in-force"}
        assert kept.told("plan", "ktweak")["plan"]["steps"] == []
        (reverted,) = kept.told("revert")["transactions"]
        assert {step["outcome"] for step in reverted["steps"]} == {"restored"}
        assert by_name(reverted["steps"], "now") == by_name(before["plan"]["steps"], "expect")
        assert kept.told("plan", "ktweak") == before
    finally:
        kept.end()
