# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel trial` on a real kernel: a placebo in exact guests, some sixteen boots."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guest.kernels import KERNELS, fetch

KERNEL = KERNELS[-1]
PROTOCOL = """
name = "placebo"
suite = "wakeups-busy"
parameters = {{ duration_s = 1.0 }}
primary = "lateness-p50"
design = {{ cap = 7, seed = 1 }}

[guest]
kernel = "{kernel}"
memory = "256MiB"
workloads = 2

[arms.control]
set = {{ "sched:base_slice_ns" = 2000000 }}

[arms.placebo]
placebo = true
"""


def ktrial(*words: str) -> subprocess.CompletedProcess[str]:
    """The command's result."""
    argv = [sys.executable, "-m", "ktrial", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ))


def test_a_placebo_is_equivalent_across_exact_boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fetch(KERNEL)
    file = tmp_path / "trial.toml"
    file.write_text(PROTOCOL.format(kernel=KERNEL.tree))
    done = ktrial("kernel", "trial", str(file), "--json")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    found = events[-1]["comparison"]
    (outcome,) = [one for one in found["outcomes"] if one["role"] == "primary"]
    assert [one["verdict"] for one in outcome["contrasts"]] == ["equivalent"]
    records = [event["record"] for event in events if event["event"] == "visit"]
    assert len(records) == 7 * 2 * 2
    assert {one["parameters"]["seed"] for one in records} == {1, 2}
    assert len({one["trial"]["boot_id"] for one in records}) == 14
    assert found["scope"] == "in exact guests, across 14 boots that differ in a meaningless word"
    assert any(one["kind"] == "guest-clock" for one in found["findings"])
    recheck = ktrial("trial", "recheck")
    assert recheck.returncode == 0, recheck.stderr
