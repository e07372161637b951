# SPDX-License-Identifier: Apache-2.0
"""A program of this machine is measured in exact guests, and a word that makes timers coarse is found by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.guests.system.kernels import KERNELS, Kernel, fetch
from tests.support.guest_trials import arm_like, contrast, ktrial, trial
from tests.support.kept_guest import KeptGuest

#: Needs real-time priorities, a suite's worth of other programs, and one that leaves a file.
PROGRAMS = ("cyclictest-fifo", "sysbench-cpu", "perf-pipe-cross-cpu")
pytestmark = [pytest.mark.timeout(3600), pytest.mark.xdist_group("guest-trials")]
KERNEL = KERNELS[-1]


def bench(host: str, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """A measurement with that host: its exit status, events and errors."""
    done = ktrial("--host", host, "bench", "--json", *words)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_programs_run_in_a_guest_that_boots_for_the_command(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fetch(kernel)
    for name, words in {**dict.fromkeys(PROGRAMS, ()), "cyclictest-fifo": ("-p", "seconds=1")}.items():
        status, events, errors = bench(f"guest:{kernel.tree}", name, "-n", "1", *words)
        assert status == 0, errors
        (record,) = [one["record"] for one in events if one["event"] == "run"]
        assert record["measurements"], errors
        assert record["tool_version"]
    status, _, errors = bench(f"guest:{kernel.tree}", "-n", "1", "--", "hackbench", "-l", "10")
    assert status == 0, errors
    status, _, errors = bench(f"guest:{kernel.tree}", "fio-seq-read")
    assert (status, "which is all a guest has" in errors) == (1, True), errors


def test_programs_run_in_a_guest_that_was_given_them_and_others_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    kept = KeptGuest(KERNEL, "--tool", "hackbench")
    try:
        status, _, errors = kept.run("bench", "hackbench-pipe-thread", "-n", "1", "-p", "loops=10")
        assert status == 0, errors
        status, _, errors = kept.run("bench", "sysbench-cpu")
        assert (status, "--keep lab --tool sysbench" in errors) == (1, True), errors
    finally:
        kept.end()


def test_cyclictest_finds_timers_that_fire_at_the_next_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    fetch(KERNEL)
    measured = ("--suite", "cyclictest-other", "-p", "seconds=5", "--primary", "latency-p50")
    words = ("--boot", "highres=off", "--placebo", "--memory", "256MiB", "--budget", "7", "--seed", "1")
    events = trial(str(KERNEL.tree), *measured, *words)
    found = events[-1]["comparison"]
    assert contrast(found, "latency-p50", arm_like(found, "highres"))["verdict"] == "worse"
    assert contrast(found, "latency-p50", "placebo")["verdict"] == "equivalent"
    record = next(event["record"] for event in events if event["event"] == "visit")
    assert record["argv"][0] == "/usr/bin/cyclictest"
    assert record["tool_version"]
    recheck = ktrial("trial", "recheck")
    assert recheck.returncode == 0, recheck.stderr
