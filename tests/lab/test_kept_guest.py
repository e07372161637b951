# SPDX-License-Identifier: Apache-2.0
"""A trial in a guest that is kept, on both kernels: what its verdict holds for, and what a kill leaves there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guests.system.kernels import KERNELS, Kernel, release
from tests.support.guest_trials import ktrial
from tests.support.kept_guest import KeptGuest

pytestmark = [pytest.mark.timeout(1800), pytest.mark.xdist_group("guest-trials")]
TRIAL = ("try", "vm.swappiness=17", "--suite", "agent-contextswitch-same", "-p", "duration_s=0.2", "--settle", "0s")


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    found: Kernel = request.param
    return found


@pytest.fixture
def kept(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeptGuest]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    guest = KeptGuest(kernel, "--tool", "busybox")
    yield guest
    guest.end()


def test_a_trial_says_that_it_is_of_this_guest(kept: KeptGuest, kernel: Kernel) -> None:
    status, out, errors = kept.run(*TRIAL, "--no-profile", "--budget", "7", "--seed", "1", "--json")
    assert status == 0, errors
    events = [json.loads(line) for line in out.splitlines()]
    found = events[-1]["comparison"]
    assert found["scope"] == "on this boot of this guest"
    assert any(one["kind"] == "guest-clock" for one in found["findings"])
    assert {one["known"]["kernel"] for one in found["arms"]} == {release(kernel.tree)}
    assert "all settings have been restored (check with `ktrial --host guest:lab status`)" in errors
    assert kept.in_force() == []
    assert ktrial("trial", "recheck").returncode == 0


def test_a_command_of_the_guest_is_tried(kept: KeptGuest) -> None:
    own = ("--metric", "bytes:lower=([0-9]+)", "--", "busybox", "sh", "-c", "cat /proc/sys/vm/swappiness")
    words = ("try", "vm.swappiness=17", "--no-profile", "--budget", "7", "--seed", "1", "--settle", "0s", "--json")
    status, out, errors = kept.run(*words, *own)
    assert status == 0, errors
    (outcome,) = [one for one in json.loads(out.splitlines()[-1])["comparison"]["outcomes"] if one["role"] == "primary"]
    assert [one["verdict"] for one in outcome["contrasts"]] == ["better"]
    status, _, errors = kept.run("bench", "-n", "1", "--", "perl", "-v")
    assert (status, "the guest lacks perl" in errors) == (2, True), errors


def test_a_trial_that_is_killed_leaves_the_guest_as_before(kept: KeptGuest) -> None:
    with kept.start(*TRIAL, "--no-profile", "--budget", "50") as process:
        assert process.stderr is not None
        assert any(line.startswith("block 1") for line in process.stderr)
        status, _, errors = kept.run("status")
        process.kill()
    assert (status, "the guest lab is in use: process" in errors) == (1, True), errors
    time.sleep(1)
    assert kept.in_force() == []
    (trial,) = json.loads(ktrial("trial", "list", "--json").stdout)["trials"]
    refused = ktrial("trial", "resume")
    assert (refused.returncode, f"{trial['trial']} began in a guest" in refused.stderr) == (4, True), refused.stderr
