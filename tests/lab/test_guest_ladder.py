# SPDX-License-Identifier: Apache-2.0
"""A ladder whose tiers are a kernel, a word for its command line, and a setting, in exact guests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guests.system.kernels import KERNELS, fetch, release

pytestmark = [pytest.mark.timeout(3600), pytest.mark.xdist_group("guest-trials")]
OLD, NEW = KERNELS
LADDER = """
name = "mine"
summary = "A newer kernel, a word for it, longer slices, and what nobody built."

[[tier]]
name = "T0"
profile = "stock"
why = "The kernel's defaults."

[[tier]]
name = "T1"
build = "A newer kernel"
why = "Its scheduler is another one."

[[tier]]
name = "T2"
boot = ["preempt=full"]
why = "Wake-ups may interrupt the kernel."

[[tier]]
name = "T3"
profile = "stock"
why = "Nothing more."

[[tier]]
name = "T4"
build = "With patches"
why = "Nobody built it."
"""


def test_tiers_are_kernels_and_words_and_those_that_add_nothing_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for kernel in KERNELS:
        fetch(kernel)
    file = tmp_path / "mine.toml"
    file.write_text(LADDER)
    kernels = ("--guest", "--kernel", f"T0={OLD.tree}", "--kernel", f"T1={NEW.tree}")
    measured = ("--suite", "wakeups-busy", "--primary", "lateness-p99", "--budget", "quick", "--seed", "1", "--json")
    argv = [sys.executable, "-m", "ktrial", "ladder", str(file), *kernels, *measured]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["comparison"]
    assert [one["arm"] for one in found["arms"]] == ["T0", "T1", "T2"]
    releases = [one["known"]["kernel"].partition(", build ")[0] for one in found["arms"]]
    assert releases == [release(OLD.tree), release(NEW.tree), release(NEW.tree)]
    (primary,) = [one for one in found["outcomes"] if one["role"] == "primary"]
    assert {one["arm"]: one["verdict"] for one in primary["contrasts"]}["T1"] == "worse"
    assert [(one["arm"], one["control"]) for one in primary["steps"]] == [("T1", "T0"), ("T2", "T1")]
    told = " ".join(done.stderr.split())
    assert "T3 not run: changes nothing here" in told
    assert "T4 not run: needs a build: With patches" in told
