# SPDX-License-Identifier: Apache-2.0
"""A program that an agent holds until it is let go; the agent is a real one of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.transport import DetachedTransport
from ktrial.bench.benchmark import RawOutput
from ktrial.guests.program import GuestProgram
from ktrial.kit.errors import BadInput
from ktrial.recordings.watching import WatchEnded


def ended(how: Literal["done", "limit", "told"]) -> WatchEnded:
    return WatchEnded(ended=how, started_ns=0, wall_ns=1, cpu_ns=0, bytes=0, sources={})


def started(argv: tuple[str, ...], taken: list[RawOutput], capture_bytes: int = 1000) -> GuestProgram:
    transport = DetachedTransport([str(find_agent()), "serve", "--role", "user"])
    return GuestProgram(transport, argv, 60, taken.append, capture_bytes)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_it_is_stopped_until_it_goes_and_told_of_after_the_watch() -> None:
    taken: list[RawOutput] = []
    program = started(("/bin/sh", "-c", "echo $$; kill -9 $$"), taken)
    assert (state(program.pid), program.ended()) == ("T", None)
    program.go()
    assert program.status(ended("done")) == -9
    assert [one.stdout for one in taken] == [f"{program.pid}\n".encode()]
    program.close()


def test_one_that_still_runs_after_the_watch_is_ended_and_has_no_status() -> None:
    ways: tuple[Literal["told", "limit"], ...] = ("told", "limit")
    for how in ways:
        taken: list[RawOutput] = []
        program = started(("/bin/sh", "-c", "exec sleep 600"), taken)
        program.go()
        assert program.status(ended(how)) is None
        program.close()
        assert not Path(f"/proc/{program.pid}").exists()


def test_one_that_is_never_let_go_does_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    program = started(("/bin/touch", str(mark)), [])
    program.close()
    assert (mark.exists(), Path(f"/proc/{program.pid}").exists()) == (False, False)


def test_one_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="cannot start /no/such/program: No such file"):
        started(("/no/such/program",), [])


def test_what_it_prints_is_bounded() -> None:
    taken: list[RawOutput] = []
    program = started(("/bin/sh", "-c", "head -c 5000 /dev/zero"), taken)
    program.go()
    assert program.status(ended("done")) == 0
    assert [(len(one.stdout), one.cut) for one in taken] == [(1000, True)]
    program.close()
