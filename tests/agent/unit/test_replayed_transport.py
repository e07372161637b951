# SPDX-License-Identifier: Apache-2.0
"""An agent's pipes where nothing runs between two answers."""

from __future__ import annotations

import os
import signal

import pytest

from ktrial import __version__
from ktrial.agent.interrupts import Interrupts
from ktrial.agent.replay_transport import ReplayedTransport
from ktrial.agent.session import AgentSession, Progress
from ktrial.kit.errors import AgentError


class Talk:
    """Notes what is said, and gives these answers."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.log: list[str] = []

    def write(self, session: int, data: bytes) -> None:
        self.log.append(f"{session} {data.decode().strip()}")

    def hang_up(self, session: int) -> None:
        self.log.append(f"{session} hang-up")

    def let_end(self, session: int) -> None:
        self.log.append(f"{session} ends")

    def answer(self, session: int) -> bytes:
        self.log.append(f"{session} answers")
        return self.answers.pop(0)

    def rest(self, session: int) -> list[bytes]:
        self.log.append(f"{session} goes on")
        return [self.answers.pop(0) for _ in range(2)]


HELLO = f'{{"id":1,"ok":{{"agent":"{__version__}","role":"user"}}}}\n'.encode()


def test_a_session_over_it() -> None:
    talk = Talk(HELLO, b'{"id":2,"ok":{"facts":{}}}\n')
    session = AgentSession(ReplayedTransport(talk, 7))
    assert session.request("facts") == {"facts": {}}
    session.close()
    assert [line.split(maxsplit=1)[1] for line in talk.log if '"' not in line] == [
        "answers",
        "answers",
        "hang-up",
        "ends",
    ]


def test_an_agent_that_ends_is_lost() -> None:
    talk = Talk(HELLO, b"")
    session = AgentSession(ReplayedTransport(talk, 7))
    with pytest.raises(AgentError, match="lost the agent during 'facts'"):
        session.request("facts")


def test_what_was_waited_for_is_read_once_and_an_interrupt_is_not_lost() -> None:
    talk = Talk(b"a\n", b"b\n")
    transport = ReplayedTransport(talk, 1)
    interrupts = Interrupts()
    assert not transport.answered()
    with interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            transport.wait(interrupts)
    assert transport.answered()
    assert [transport.receive(), transport.receive()] == [b"a\n", b"b\n"]


def test_a_watch_is_had_at_once_after_its_begin() -> None:
    talk = Talk(HELLO, b'{"id":2,"begun":true}\n', b'{"id":2,"seen":{}}\n', b'{"id":2,"ok":{"a":1}}\n', HELLO)
    session = AgentSession(ReplayedTransport(talk, 7))
    session.send("watch", limit_s=1)
    session.receive_begun("watch")
    assert [session.receive_next("watch"), session.receive_next("watch")] == [Progress(seen={}), {"a": 1}]
    session.send("facts")
    with pytest.raises(AgentError, match="belongs to another request"):
        session.receive("facts")
    said = [line.split(maxsplit=1)[1] for line in talk.log if '"' not in line]
    assert said[:4] == ["answers", "answers", "goes on", "answers"]


def test_its_input_ends_once() -> None:
    talk = Talk()
    transport = ReplayedTransport(talk, 1)
    transport.hang_up()
    transport.finish()
    transport.abandon()
    assert transport.close() is None
    assert talk.log == ["1 hang-up", "1 ends"]
    with pytest.raises(BrokenPipeError):
        transport.send(b"x\n")
