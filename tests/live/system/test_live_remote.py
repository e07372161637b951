# SPDX-License-Identifier: Apache-2.0
"""A live trial on another machine whose line is cut: the machine restores itself, and the trial goes on."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.judge.model.log import BlockVoided
from tests.support.remote_machine import RemoteMachine, remote_machine
from tests.support.terminal import eventually
from tests.support.trial_process import log_of, runs_in, verdict_in

FILE, FOUND, TRIED = "/proc/sys/net/core/somaxconn", "4000", "5000"
ARM = f"somaxconn-{TRIED}"
#: What is in force is what is measured: a period that held both values would have a mean between them.
WORDS = (
    *("live", f"net.core.somaxconn={TRIED}", "--metric", f"queue:higher=command:cat {FILE}"),
    *("--period", "1.2s", "--washout", "0.2s", "--poll", "0.3s"),
)


@pytest.fixture(scope="module")
def web1() -> Iterator[RemoteMachine]:
    with remote_machine(more=f"echo {FOUND} > {FILE}") as machine:
        yield machine


def test_a_line_that_is_cut_voids_the_period_and_the_trial_goes_on(web1: RemoteMachine, tmp_path: Path) -> None:
    here, said = web1.folder / "here", tmp_path / "said"
    store = here / ".local/state/ktrial/results.db"
    store.parent.mkdir(parents=True)
    environment = {"KTRIAL_STORE": str(store)}
    with said.open("wb") as file:
        head = subprocess.Popen(
            web1.command(*WORDS),
            env={**web1.environment(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        for waits in (1, 2):
            assert eventually(lambda: f"{ARM} in force" in said.read_text(), 60), said.read_text()
            assert eventually(lambda: web1.read(FILE) == TRIED, 60), said.read_text()
            web1.way.is_out = True
            web1.way.cut()
            assert eventually(lambda: web1.read(FILE) == FOUND, 10), said.read_text()
            assert eventually(lambda: said.read_text().count("waiting for it") == waits, 10), said.read_text()  # noqa: B023
            if waits == 1:
                web1.way.is_out = False
                assert eventually(lambda: "web1 is back" in said.read_text(), 60), said.read_text()
        head.send_signal(signal.SIGINT)
        assert head.wait(30) == 130, said.read_text()
    finally:
        head.kill()
        head.wait()
    assert f"--host ssh:web1 trial resume {ARM}-" in said.read_text()
    web1.way.is_out = False
    resumed = web1.ktrial("trial", "resume", more=environment)
    assert resumed.returncode == 0, resumed.stderr
    assert verdict_in(here) == "better"
    values = {event.arm: event.measurements["live.queue"] for event in runs_in(log_of(here))}
    assert values == {"control": float(FOUND), ARM: float(TRIED)}
    assert {event.cause for event in log_of(here) if isinstance(event, BlockVoided)} <= {"pause"}
    assert web1.read(FILE) == FOUND
