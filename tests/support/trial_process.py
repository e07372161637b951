# SPDX-License-Identifier: Apache-2.0
"""Runs a trial as a process that can be killed, with its agents, and reads the store afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ktrial.judge.model.log import Event, RunEnded, TrialEnd
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from ktrial.trial.outcome.summary import summary_of
from ktrial.trial.record import StoredTrial
from ktrial.trial.store import StoredTrials
from tests.support.kept import records, state
from tests.support.terminal import KTRIAL

Victims = Literal["head", "agent", "both"]
LIMIT_S = 60.0


class TrialProcess:
    """A head that was just started; its output goes to a file."""

    def __init__(self, options: Sequence[str], words: Sequence[str], said: Path) -> None:
        self._without_empty = said
        with said.open("wb") as file:
            self.process = subprocess.Popen(
                [*KTRIAL, *options, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
            )

    @property
    def said(self) -> str:
        """The whole output so far."""
        return self._without_empty.read_text()

    def wait(self) -> int:
        """Wait until the process has ended."""
        return self.process.wait(LIMIT_S)

    def end(self) -> None:
        """End the process, whatever the result of the test."""
        if self.process.poll() is None:
            self.process.kill()
            self.wait()

    def root_agents(self) -> list[int]:
        """Return the processes of the root session."""
        return [pid for pid in children(self.process.pid) if b"root" in words_of(pid)]

    def kill(self, victims: Victims) -> None:
        """Kill these processes with SIGKILL; the root agent may not exist yet."""
        agents = self.root_agents()
        if victims != "agent":
            self.process.kill()
        for agent in agents if victims != "head" else ():
            os.kill(agent, signal.SIGKILL)


def words_of(pid: int) -> list[bytes]:
    """Return a process's command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def children(pid: int) -> list[int]:
    """Return the direct children of a process."""
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def wait_until_blocks(home: Path, blocks: int) -> None:
    """Wait until the newest trial has this many valid runs."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        if (state(home) / "results.db").exists() and len(runs_in(log_of(home))) >= blocks:
            return
        time.sleep(0.01)
    raise AssertionError(f"never came to {blocks} runs")


def trials_in(home: Path) -> list[StoredTrial]:
    """Return all stored trials, the newest first."""
    if not (state(home) / "results.db").exists():
        return []
    store = Store(Database.open(str(state(home) / "results.db")))
    try:
        return list(StoredTrials(lambda: store.database).all())
    finally:
        store.close()


def log_of(home: Path, number: int = 0) -> tuple[Event, ...]:
    """Return the log of a trial; empty if there is none yet."""
    store = Store(Database.open(str(state(home) / "results.db")))
    try:
        trials = StoredTrials(lambda: store.database)
        found = trials.all()
        return trials.log(found[number].trial) if len(found) > number else ()
    finally:
        store.close()


def runs_in(log: Sequence[Event]) -> list[RunEnded]:
    """Return the runs that are not warm-ups."""
    return [event for event in log if isinstance(event, RunEnded) and event.block is not None]


def verdict_in(home: Path) -> str | None:
    """Return the verdict of the newest trial on its only arm."""
    (told,) = summary_of(trials_in(home)[0], log_of(home)).verdicts.values()
    return told


def check_nothing_is_lost(home: Path) -> None:
    """Check that all recorded runs of the newest trial's blocks are in its log, and that the log has an end."""
    log = log_of(home)
    assert any(isinstance(event, TrialEnd) for event in log)
    told = {event.run for event in log if isinstance(event, RunEnded)}
    session = trials_in(home)[0].session
    kept = [one for one in records(home) if one["session"]["session"] == session]
    lost = [
        one["run"]
        for one in kept
        if one["trial"]["block"] is not None and not one["exit"]["interrupted"] and one["run"] not in told
    ]
    assert lost == [], "runs were recorded and are not in the log"
    blocks = [(event.block, event.arm) for event in runs_in(log)]
    assert len(blocks) == len(set(blocks)), "a visit counts twice"
