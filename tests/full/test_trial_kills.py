# SPDX-License-Identifier: Apache-2.0
"""Trials that are killed at random moments: 200 on a folder that stands for a machine, 20 on the real kernel."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tree import FakeRoot
from tests.support.trial_process import TrialProcess, Victims, check_nothing_is_lost, trials_in, verdict_in

FAKE_KILLS = int(os.environ.get("KTRIAL_KILLS", "200"))
REAL_KILLS = max(1, FAKE_KILLS // 10)
#: Kills of one trial before it may come to its end.
KILLS_PER_TRIAL = 5
pytestmark = pytest.mark.timeout(1800)
VICTIMS: tuple[Victims, ...] = ("head", "agent", "both")
SWAPPINESS = "/proc/sys/vm/swappiness"
WORDS = ("try", "vm.swappiness=10", "--settle", "0s", "--no-profile", "--budget", "9")
#: A load of the agent itself: a folder that stands for a machine has no programs.
_SIZES = {"groups": 1, "senders": 2, "receivers": 2, "messages": 200}
LOAD = (
    "--suite",
    "agent-messaging-pipe",
    *(word for name, size in _SIZES.items() for word in ("-p", f"{name}={size}")),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "KTRIAL_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def real_swappiness(real_machine: None) -> Iterator[Path]:
    path = Path(SWAPPINESS)
    before = path.read_text()
    path.write_text("60\n")
    try:
        yield path
    finally:
        path.write_text(before)


def wait_until_put_back(knob: Path) -> None:
    """The holder of a lease reverts when head and agent are gone."""
    end = time.monotonic() + 20
    while knob.read_text() != "60\n":
        assert time.monotonic() < end, f"{knob} is left at {knob.read_text()!r}"
        time.sleep(0.01)


def killed_trials(home: Path, options: list[str], knob: Path, kills: int) -> None:
    """Start a trial, kill it a few times at any moment, let it come to its end; again until so many kills were made."""
    chosen = random.Random(kills)
    made = 0
    while made < kills:
        words: tuple[str, ...] = (*WORDS, *LOAD)
        earlier = len(trials_in(home))
        for _ in range(min(KILLS_PER_TRIAL, kills - made)):
            trial = TrialProcess(options, words, home / "said")
            time.sleep(chosen.uniform(0.2, 1.2))
            trial.kill(chosen.choice(VICTIMS))
            trial.wait()
            wait_until_put_back(knob)
            made += 1
            if len(trials_in(home)) > earlier:
                words = ("trial", "resume")
        last = TrialProcess(options, words, home / "said")
        assert last.wait() == 0, last.said
        assert knob.read_text() == "60\n"
        assert verdict_in(home) is not None
        check_nothing_is_lost(home)
        recheck = TrialProcess(options, ("trial", "recheck"), home / "said")
        assert recheck.wait() == 0, recheck.said


def test_on_a_folder_that_stands_for_a_machine(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "root"
    folder.mkdir()
    machine = FakeRoot(folder)
    (folder / ".ktrial-test-machine").touch()
    before = machine.values()
    killed_trials(home, ["--machine-root", str(folder)], folder / SWAPPINESS.lstrip("/"), FAKE_KILLS)
    assert machine.values() == before


def test_on_the_real_kernel(home: Path, real_swappiness: Path) -> None:
    killed_trials(home, ["--machine-state", str(home / "journal")], real_swappiness, REAL_KILLS)
