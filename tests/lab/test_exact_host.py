# SPDX-License-Identifier: Apache-2.0
"""An exact guest as the host of a command: it answers the same each time, whatever is asked after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktrial.bench.guest_tools import EXACT_CLOCK
from ktrial.recordings.ktrial import read_recording
from tests.guests.system.kernels import KERNELS, Kernel, fetch, release
from tests.support.guest_trials import ktrial
from tests.support.kept_guest import KeptGuest

pytestmark = [pytest.mark.timeout(1800), pytest.mark.xdist_group("guest-trials")]


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    found: Kernel = request.param
    fetch(found)
    return found


def exact(kernel: Kernel, *words: str) -> tuple[str, str]:
    """What a command printed, and what it said; it ended well."""
    done = ktrial("--host", f"exact:{kernel.tree}", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_facts_are_the_same_in_every_command_and_of_this_kernel(kernel: Kernel) -> None:
    (first, said), (second, _) = (exact(kernel, "facts", "kernel.release", "boot", "--json") for _ in range(2))
    facts = json.loads(first)["facts"]
    assert facts["kernel.release"]["value"] == release(kernel.tree)
    assert facts["boot.id"]["value"]
    assert first == second
    assert "2 answers, each from two boots that were identical to the last byte" in said
    assert EXACT_CLOCK in said


def test_a_setting_is_applied_in_it_and_not_here(kernel: Kernel) -> None:
    told, said = exact(kernel, "apply", "vm.swappiness=17", "--yes")
    assert "1 setting is in force" in told
    assert "5 answers" in said
    # Other tests set this machine's own value meanwhile, none of them to this one.
    assert Path("/proc/sys/vm/swappiness").read_text(encoding="utf-8") != "17\n"


def test_commands_meet_in_one_that_is_kept(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    kept = KeptGuest(kernel, "--mode", "exact", "--limit", "1200s")
    try:
        assert f"Linux {release(kernel.tree)}, exact" in kept.first
        applied = kept.told("apply", "vm.swappiness=17")
        assert applied["steps"][0]["outcome"] == "accepted"
        assert [one["transaction"] for one in kept.told("verify")["transactions"]] == [applied["transaction"]]
        with kept.start("revert") as broken_off:
            assert broken_off.stderr is not None
            assert "it keeps running" in broken_off.stderr.readline()
            status, _, errors = kept.run("status")
            broken_off.kill()
        assert (status, "the guest lab is in use: process" in errors) == (1, True), errors
        assert kept.in_force() == [applied["transaction"]]
        (reverted,) = kept.told("revert")["transactions"]
        assert [step["outcome"] for step in reverted["steps"]] == ["restored"]
        status, _, errors = kept.run("try", "vm.swappiness=1", "--suite", "agent-lock")
        assert (status, "every measurement needs a fresh boot" in errors) == (2, True), errors
    finally:
        kept.end()


@pytest.mark.parametrize(
    "words", [("--for", "20s"), ("--", "hackbench", "-l", "20"), ("--frame-loop", "calm", "--for", "5s")]
)
def test_what_is_watched_is_the_same_each_time(kernel: Kernel, words: tuple[str, ...], tmp_path: Path) -> None:
    kept = []
    for name in ("one", "other"):
        out, said = exact(kernel, "watch", "-o", str(tmp_path / name), *words)
        assert f"{3 if len(words) == 2 else 6} answers" in said
        assert ("Each sender will pass 20 messages" in out) == ("hackbench" in words)
        kept.append({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()})
    assert kept[0] == kept[1]
    recording = read_recording(kept[0]["recording.ktr"], "one")
    assert recording.ended == "whole"
    assert recording.series["cpu.user"].times_s
    if "hackbench" in words:
        assert recording.command == ("/usr/bin/hackbench", "-l", "20")
    if "--frame-loop" in words:
        assert len(kept[0]["frames.csv"].splitlines()) > 250


def test_what_is_tried_is_tried_in_boots_of_it() -> None:
    fetch(KERNELS[-1])
    words = ("vm.swappiness=17", "--suite", "agent-contextswitch-same", "-p", "duration_s=0.2", "--budget", "7")
    out, _ = exact(KERNELS[-1], "try", *words, "--seed", "1", "--json")
    found = json.loads(out.splitlines()[-1])["comparison"]
    assert found["scope"].startswith("in exact guests, whose time counts instructions, across 14 boots")
    assert ktrial("--host", f"exact:{KERNELS[-1].tree}", "trial", "recheck").returncode == 0


def test_a_program_is_measured_to_the_same_nanosecond_twice(kernel: Kernel) -> None:
    def measured() -> list[Any]:
        out, _ = exact(kernel, "bench", "hackbench-pipe-thread", "-n", "2", "-p", "loops=10", "--fresh", "--json")
        records = [one["record"] for one in map(json.loads, out.splitlines()) if one["event"] == "run"]
        return [(one["measurements"], one["resources"]) for one in records]

    first = measured()
    assert len(first) == 2
    assert first == measured()
