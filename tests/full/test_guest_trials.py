# SPDX-License-Identifier: Apache-2.0
"""What is known of the scheduler and of reclaim is found in exact guests, and a placebo is nothing.

Each trial boots some twenty to sixty guests: minutes on a quiet machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.guest.kernels import KERNELS, fetch, release

pytestmark = [pytest.mark.timeout(3600), pytest.mark.xdist_group("guest-trials")]
OLD, NEW = KERNELS
WAKEUPS = ("--suite", "wakeups-busy", "--primary", "lateness-p99", "--secondary", "lateness-p50")


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def trial(*words: str) -> dict[str, Any]:
    """The comparison at the end of a trial in guests."""
    for kernel in KERNELS:
        fetch(kernel)
    argv = [sys.executable, "-m", "ktrial", "kernel", "trial", *words, "--seed", "1", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["event"] == "comparison"
    found: dict[str, Any] = last["comparison"]
    return found


def contrast(found: dict[str, Any], outcome: str, arm: str) -> dict[str, Any]:
    """What is said of an arm against the control."""
    (one,) = [one for one in found["outcomes"] if one["outcome"] == outcome]
    (told,) = [each for each in one["contrasts"] if each["arm"] == arm]
    return dict(told)


def arm_like(found: dict[str, Any], part: str) -> str:
    """The arm with this in its name."""
    (arm,) = [one["arm"] for one in found["arms"] if part in one["arm"]]
    return str(arm)


def test_a_sleeper_waits_longer_beside_busy_threads_since_eevdf() -> None:
    found = trial(str(OLD.tree), str(NEW.tree), *WAKEUPS, "--cap", "7")
    assert contrast(found, "lateness-p99", arm_like(found, "6.12"))["verdict"] == "worse"
    assert {one["known"]["kernel"] for one in found["arms"]} == {release(OLD.tree), release(NEW.tree)}


def test_more_lead_for_kswapd_ends_stalls_and_does_not_make_frames_faster() -> None:
    asked = ("--suite", "pressure-small", "--primary", "allocation-stalls", "--secondary", "frame-p50", "--cap", "20")
    found = trial(str(NEW.tree), "vm.watermark_scale_factor=500", *asked, "--placebo")
    wide = arm_like(found, "500")
    assert contrast(found, "allocation-stalls", wide)["verdict"] == "better"
    assert contrast(found, "frame-p50", wide)["verdict"] != "better"
    assert contrast(found, "allocation-stalls", "placebo")["verdict"] not in {"better", "worse"}
