# SPDX-License-Identifier: Apache-2.0
"""Sessions over a guest's line, with a guest made of a thread."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from threading import Thread

import pytest

from ktrial.agent import line_frames, session_line
from ktrial.agent.line_frames import LineFrames, encode_frame, number_of, numbered
from ktrial.agent.session_line import GUEST_WINDOW, SessionLine


class Guest:
    """The other end: answers what a session says in capitals, and acknowledges all frames unless told not to."""

    def __init__(self) -> None:
        heard, to_guest = os.pipe()
        from_guest, said = os.pipe()
        self._heard, self._said = heard, os.fdopen(said, "wb", buffering=0)
        self.acknowledges = True
        self.most_under_way = 0
        self.started: list[dict[str, object]] = []
        self.killed: list[int] = []
        self._head = (os.fdopen(to_guest, "wb", buffering=0), os.fdopen(from_guest, "rb", buffering=0))
        self.line = SessionLine(*self._head, LineFrames())
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        rest = b""
        while piece := os.read(self._heard, 1 << 16):
            rest += piece
            self.most_under_way = max(self.most_under_way, len(rest))
            while len(rest) >= 5 and len(rest) >= 5 + int.from_bytes(rest[1:5], "big"):
                length = int.from_bytes(rest[1:5], "big")
                kind, content, rest = rest[:1], rest[5 : 5 + length], rest[5 + length :]
                if self.acknowledges:
                    self._said.write(encode_frame(line_frames.TAKEN, (5 + length).to_bytes(4, "big")))
                if kind == line_frames.END:
                    return
                self._take(kind, content)

    def _take(self, kind: bytes, content: bytes) -> None:
        if kind == line_frames.START:
            self.started.append(json.loads(content))
            return
        session, bytes_ = number_of(content)
        if kind == line_frames.KILL:
            self.killed.append(session)
        elif bytes_:
            self._said.write(encode_frame(line_frames.SAID, numbered(session, bytes_.upper())))
        else:
            self._said.write(encode_frame(line_frames.OVER, b'{"status":0,"session":%d}' % session))

    def close(self) -> None:
        """The emulator is gone."""
        self.line.end()
        self._thread.join(5)
        self._said.close()
        self.line.heard_out(5)
        for stream in self._head:
            stream.close()
        os.close(self._heard)


def test_whoever_closes_the_stream_does_not_disturb_the_thread_that_reads() -> None:
    from_guest, said = os.pipe()
    stream = os.fdopen(from_guest, "rb", buffering=0)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 (a stream as a process has it)
        line = SessionLine(nowhere, stream, LineFrames())
        stream.close()
        os.write(said, encode_frame(line_frames.TAKEN, (0).to_bytes(4, "big")))
        os.close(said)
        line.heard_out(5)
    assert (line.closed, line.broken) == (True, None)


@pytest.fixture
def guest() -> Iterator[Guest]:
    found = Guest()
    yield found
    found.close()


def pour(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
    os.close(descriptor)


def all_of(descriptor: int) -> bytes:
    found = b""
    while piece := os.read(descriptor, 1 << 16):
        found += piece
    os.close(descriptor)
    return found


def test_sessions_do_not_meet_and_end_each_by_itself(guest: Guest) -> None:
    first, second = guest.line.open(["serve"], root=True), guest.line.open(["x"], root=False)
    os.write(second.to_agent, b"two")
    os.write(first.to_agent, b"one")
    os.close(first.to_agent)
    assert all_of(first.from_agent) == b"ONE"
    os.close(second.to_agent)
    assert all_of(second.from_agent) == b"TWO"
    assert guest.started == [
        {"session": 1, "arguments": ["serve"], "root": True},
        {"session": 2, "arguments": ["x"], "root": False},
    ]


def test_no_more_is_sent_than_the_terminal_of_the_guest_holds(guest: Guest) -> None:
    ends = guest.line.open([], root=True)
    Thread(target=pour, args=(ends.to_agent, b"x" * 40_000), daemon=True).start()
    assert all_of(ends.from_agent) == b"X" * 40_000
    assert guest.most_under_way <= GUEST_WINDOW.total_bytes


def test_a_guest_that_hangs_holds_up_nobody(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_line, "_ROOM_LIMIT_S", 0.05)
    guest.acknowledges = False
    ends = guest.line.open([], root=True)
    os.write(ends.to_agent, b"x" * 3 * GUEST_WINDOW.total_bytes)
    late = guest.line.open(["x" * GUEST_WINDOW.total_bytes], root=True)
    assert os.read(late.from_agent, 1) == b""
    assert [one["arguments"] for one in guest.started] == [[]]
    for descriptor in (*ends[:2], *late[:2]):
        os.close(descriptor)


def test_a_session_can_be_killed(guest: Guest) -> None:
    ends = guest.line.open([], root=True)
    guest.line.kill(ends.session)
    os.close(ends.to_agent)
    assert all_of(ends.from_agent) == b""
    assert guest.killed == [ends.session]


def test_the_end_of_a_guest_is_the_end_of_its_sessions() -> None:
    guest = Guest()
    ends = guest.line.open([], root=True)
    guest.line.end()
    guest._thread.join(5)
    guest._said.close()
    assert all_of(ends.from_agent) == b""
    late = guest.line.open([], root=True)
    assert all_of(late.from_agent) == b""
    guest.line.heard_out(5)
    for descriptor in (ends.to_agent, late.to_agent, guest._heard):
        os.close(descriptor)
    for stream in guest._head:
        stream.close()
