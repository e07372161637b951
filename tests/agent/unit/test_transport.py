# SPDX-License-Identifier: Apache-2.0
"""Lines through pipes: split, joined, late, missing."""

from __future__ import annotations

import os

import pytest

from ktrial.agent.transport import PipeTransport, ProcessTransport
from ktrial.kit.errors import AgentError


def test_lines_are_cut_at_newlines_however_they_arrive() -> None:
    ours, theirs = os.pipe()
    answers, out = os.pipe()
    transport = PipeTransport(theirs, answers)
    for chunk in (b"one\ntwo\nth", b"ree\nfour"):
        os.write(out, chunk)
    assert [transport.receive(), transport.receive(), transport.receive()] == [b"one\n", b"two\n", b"three\n"]
    with pytest.raises(TimeoutError):
        transport.receive(0.01)
    os.close(out)
    assert transport.close() is None
    with pytest.raises(BrokenPipeError):
        transport.send(b"x\n")
    os.close(ours)


def test_a_line_larger_than_a_pipe_comes_back_whole() -> None:
    transport = ProcessTransport(["/bin/sh", "-c", "read -r line; head -c 300000 /dev/zero | tr '\\0' x; echo"])
    transport.send(b"go\n")
    assert transport.receive() == b"x" * 300_000 + b"\n"
    assert transport.receive() == b""
    assert transport.close() == 0


def test_the_exit_is_known() -> None:
    assert ProcessTransport(["/bin/sh", "-c", "exit 3"]).close() == 3
    assert ProcessTransport(["/bin/sh", "-c", "kill -9 $$"]).close() == -9


def test_an_agent_that_hangs_is_let_go() -> None:
    transport = ProcessTransport(["/bin/sleep", "600"])
    with pytest.raises(TimeoutError):
        transport.receive(0.01)
    transport.abandon()
    assert transport.close() == -9


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(AgentError, match="cannot start /nonexistent/agent: No such file"):
        ProcessTransport(["/nonexistent/agent"])
