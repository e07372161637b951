# SPDX-License-Identifier: Apache-2.0
"""One guest for many commands: what one of them sets another one finds, and puts back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guests.system.kernels import KERNELS, release
from tests.support.kept_guest import KeptGuest

SETTING = "vm.swappiness=17"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeptGuest]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    guest = KeptGuest(KERNELS[-1], "--limit", "300s")
    yield guest
    if guest.process.poll() is None:
        guest.end()


def test_commands_meet_in_a_guest_that_is_kept(kept: KeptGuest, tmp_path: Path) -> None:
    assert release(KERNELS[-1].tree) in kept.first
    assert [one["new"] for one in kept.told("plan", SETTING)["plan"]["steps"]] == ["17\n"]
    applied = kept.told("apply", SETTING)
    assert kept.in_force() == [applied["transaction"]]
    assert [one["transaction"] for one in kept.told("verify")["transactions"]] == [applied["transaction"]]
    assert [one["knob"] for one in kept.told("plan", SETTING)["same"]] == ["vm.swappiness"]
    # Other tests set this machine's own value meanwhile, none of them to this one.
    assert Path("/proc/sys/vm/swappiness").read_text() != "17\n"
    reverted = kept.told("revert")["transactions"]
    assert [step["outcome"] for one in reverted for step in one["steps"]] == ["restored"]
    assert (kept.in_force(), kept.told("recover")["transactions"]) == ([], [])
    status, out, errors = kept.run("doctor")
    assert (status, release(KERNELS[-1].tree) in out) == (0, True), errors
    status, out, errors = kept.run("bench", "agent-contextswitch-same", "-n", "1", "-p", "duration_s=0.5")
    assert (status, "round-trip-p50" in out) == (0, True), errors
    recording = tmp_path / "recording"
    status, _, errors = kept.run("watch", "--for", "2s", "-o", str(recording))
    assert status == 0, errors
    assert kept.told("diagnose", str(recording))["recordings"][0]["diagnosis"]
    status, errors = kept.end()
    assert (status, "the guest lab has ended, and its settings are gone" in errors) == (0, True), errors
    status, _, errors = kept.run("status")
    assert (status, "no kept guest has this name" in errors) == (2, True), errors
