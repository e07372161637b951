# SPDX-License-Identifier: Apache-2.0
"""A trial on another machine whose blocks that machine makes by itself: quiet meanwhile, and safe from cuts."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktrial.judge.model.log import Event, RunEnded
from ktrial.results.store.database import Database
from ktrial.trial.store import StoredTrials
from tests.support.remote_machine import RemoteMachine, remote_machine

pytestmark = pytest.mark.timeout(600)

WORDS = (
    "try",
    "net.core.somaxconn=512",
    "--unattended",
    "--no-profile",
    "--budget",
    "7",
    "--json",
    "--",
    "sleep",
    "0.2",
)
SOMAXCONN = "/proc/sys/net/core/somaxconn"


@pytest.fixture(scope="module")
def there() -> Iterator[RemoteMachine]:
    with remote_machine("far1") as made:
        yield made


def start(there: RemoteMachine, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        there.command(*words),
        env=there.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(running: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Return the events of a trial that ended well."""
    out, err = running.communicate(timeout=400)
    assert running.returncode == 0, err
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def newest_log(there: RemoteMachine) -> tuple[Event, ...]:
    """Return the log of the newest trial, from the store here."""
    database = Database.open(f"{there.environment()['XDG_STATE_HOME']}/ktrial/results.db")
    try:
        trials = StoredTrials(lambda: database)
        return trials.log(trials.find(None).trial)
    finally:
        database.close()


def test_the_machine_makes_the_blocks_and_nothing_crosses_the_line(there: RemoteMachine) -> None:
    before = there.read(SOMAXCONN)
    quiet_s: list[float] = []
    over = threading.Event()

    def watch() -> None:
        pieces, since_s = there.way.pieces, time.monotonic()
        while not over.wait(0.05):
            if there.way.pieces != pieces:
                pieces, since_s = there.way.pieces, time.monotonic()
            elif there.read(SOMAXCONN) == "512":
                quiet_s.append(time.monotonic() - since_s)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        finished(start(there, *WORDS))
    finally:
        over.set()
        watcher.join()
    # Seven blocks of two visits that settle and run: the arm was in force while nothing crossed for seconds.
    assert max(quiet_s) > 5
    assert there.read(SOMAXCONN) == before
    assert there.processes() == []


def test_a_machine_that_is_cut_off_finishes_its_plan_and_the_head_fetches_it(there: RemoteMachine) -> None:
    running = start(there, *WORDS)
    deadline_s = time.monotonic() + 200
    while there.read(SOMAXCONN) != "512":
        assert running.poll() is None
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
    there.way.cut()
    finished(running)
    # Whatever was cut, each of the fourteen visits has one run.
    made = [(event.block, event.arm) for event in newest_log(there) if isinstance(event, RunEnded) and event.block]
    assert len(made) == len(set(made)) == 14
    assert there.ktrial("trial", "recheck").returncode == 0
    assert there.read(SOMAXCONN) == "4096"
    assert there.run("find", str(there.home), "-type", "f") == ""


def test_a_gate_that_no_plan_can_carry_leaves_nothing_there(there: RemoteMachine, tmp_path: Path) -> None:
    files = there.run("find", str(there.home))
    trial = tmp_path / "trial.toml"
    trial.write_text(
        'name = "gated"\ncommand = ["sleep", "0.2"]\nprimary = "sleep.wall"\ndesign = { cap = 7 }\n'
        'gates = { swap = { refuse = "1GiB" } }\n[arms.control]\n[arms.big]\nset = { "net.core.somaxconn" = 512 }\n'
    )
    done = there.ktrial("trial", "run", str(trial), "--unattended", "--no-profile")
    assert "the gate swap with `refuse`" in done.stderr, done.stderr
    assert there.run("find", str(there.home)) == files
