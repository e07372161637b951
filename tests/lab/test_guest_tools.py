# SPDX-License-Identifier: Apache-2.0
"""A program of this machine is measured in exact guests, and a word that makes timers coarse is found by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guest.kernels import KERNELS, fetch
from tests.support.guest_trials import arm_like, contrast, ktrial, trial

pytestmark = [pytest.mark.timeout(3600), pytest.mark.xdist_group("guest-trials")]
KERNEL = KERNELS[-1]


def test_cyclictest_finds_timers_that_fire_at_the_next_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fetch(KERNEL)
    measured = ("--suite", "cyclictest-other", "-p", "seconds=5", "--primary", "latency-p50")
    words = ("--boot", "highres=off", "--placebo", "--memory", "256MiB", "--cap", "7", "--seed", "1")
    events = trial(str(KERNEL.tree), *measured, *words)
    found = events[-1]["comparison"]
    assert contrast(found, "latency-p50", arm_like(found, "highres"))["verdict"] == "worse"
    assert contrast(found, "latency-p50", "placebo")["verdict"] == "equivalent"
    record = next(event["record"] for event in events if event["event"] == "visit")
    assert record["argv"][0] == "/usr/bin/cyclictest"
    assert record["tool_version"]
    recheck = ktrial("trial", "recheck")
    assert recheck.returncode == 0, recheck.stderr
