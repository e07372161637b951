# SPDX-License-Identifier: Apache-2.0
"""Where the session bus is, and what is said where nothing sensible answers there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktrial.bench.around import session_bus
from ktrial.bench.around.session_bus import SessionDesktop, session_desktop


def test_where_the_bus_is(tmp_path: Path) -> None:
    assert session_desktop({}, tmp_path) is None
    assert session_desktop({"DBUS_SESSION_BUS_ADDRESS": "tcp:host=x"}, tmp_path) is None
    gone = session_desktop({"DBUS_SESSION_BUS_ADDRESS": f"tcp:host=x;unix:guid=1,path={tmp_path}/bus"}, tmp_path)
    assert gone is not None
    assert gone.keep_awake("a test") == "cannot reach the session bus: No such file or directory"
    gone.release()


@contextmanager
def answering(path: Path, answers: list[bytes]) -> Iterator[SessionDesktop]:
    """A bus that says the first to whoever wants to be let in, and the second to the first message."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                said = b""
                for answer, mark in zip(answers, (b"AUTH EXTERNAL", b"Hello"), strict=False):
                    while mark not in said or (mark != b"Hello" and not said.endswith(b"\r\n")):
                        said += connection.recv(4096)
                    connection.sendall(answer)
                connection.recv(4096)

        threading.Thread(target=serve, daemon=True).start()
        yield SessionDesktop(f"unix:path={path}")


@pytest.mark.parametrize(
    "answers, said",
    [
        ([b"REJECTED EXTERNAL\r\n"], "the session bus rejects this user"),
        ([b"OK 1234deadbeef\r\n", b"no message of any kind, but long enough"], "cannot use the session bus: "),
        ([b"OK 1234deadbeef\r\n", b"l\2\0\1" + b"\xff" * 12 + b"\0" * 64], "cannot reach the session bus: "),
        ([b"OK 1234deadbeef\r\n", b""], "cannot reach the session bus: "),
    ],
)
def test_what_is_no_bus_is_said(
    answers: list[bytes], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_bus, "_LIMIT_S", 0.5)
    with answering(tmp_path / "bus", answers) as desktop:
        told = desktop.keep_awake("a test")
        assert told is not None
        assert told.startswith(said), told
        desktop.release()
