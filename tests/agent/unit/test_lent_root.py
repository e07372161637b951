# SPDX-License-Identifier: Apache-2.0
"""The end of the helper that lends root: who made it counts, and nothing inherits it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator

import pytest

from ktrial.agent.lent_root import LAUNCHED, LentRoot, lent_root
from ktrial.kit.errors import AgentError


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def test_a_session_is_asked_for_with_its_two_ends(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    for state in (None, "/var/lib/other"):
        transport = LentRoot(ours).start(state)
        message, (stdin, stdout), _, _ = socket.recv_fds(theirs, 8192, 8)
        assert json.loads(message) == {"state": state}
        transport.send(b"request\n")
        assert os.read(stdin, 100) == b"request\n"
        os.write(stdout, b"reply\n")
        assert transport.receive(5) == b"reply\n"
        os.close(stdout)
        assert transport.close() is None
        assert os.read(stdin, 100) == b"", "the session's input has ended"
        os.close(stdin)


def test_a_helper_that_is_gone_is_told(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.close()
    with pytest.raises(AgentError, match="the helper that lends root has ended"):
        LentRoot(ours).start()


def test_nothing_that_is_started_inherits_the_end(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert os.geteuid() == 0, "the pair must be root's: run ./check as root"
    number = os.dup(pair[0].fileno())
    os.set_inheritable(number, True)
    monkeypatch.setenv(LAUNCHED, str(number))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = lent_root()
    assert found is not None
    assert not os.get_inheritable(number)
    assert LAUNCHED not in os.environ
    found._end.close()


def test_what_is_no_end_of_roots_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    for told in (str(reading), "999", "9" * 30, "-1", "root", ""):
        monkeypatch.setenv(LAUNCHED, told)
        monkeypatch.setattr("os.geteuid", lambda: 1000)
        assert lent_root() is None
    os.close(reading)
    os.close(writing)
