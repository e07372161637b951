# SPDX-License-Identifier: Apache-2.0
"""Conversations with a guest that is booted for each answer; the guest is a function of its script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ktrial.agent import line_frames
from ktrial.bench.guest_tools import GuestDiffers, GuestRun, Shape
from ktrial.guests.replay import SCRIPT_BYTES, Replay, is_reply
from ktrial.kit.errors import AgentError, KtrialError


def frames_of(script: bytes) -> list[tuple[bytes, bytes]]:
    """What the guest takes, up to the end."""
    found: list[tuple[bytes, bytes]] = []
    at = 0
    while script[at : at + 1] != line_frames.END:
        length = int.from_bytes(script[at + 1 : at + 5], "big")
        found.append((script[at : at + 1], script[at + 5 : at + 5 + length]))
        at += 5 + length
    return found


class Guest:
    """Each session answers a line with its number, the line, and how many lines were answered by then in all."""

    def __init__(self) -> None:
        self.scripts: list[bytes] = []
        self.mute = False
        self.failure: str | None = None
        self.drifts: Callable[[int], str] = lambda _: ""
        #: Said instead, whatever is asked.
        self.answers: bytes | None = None

    def boot(self, script: bytes) -> GuestRun:
        self.scripts.append(script)
        said, answered = b"", 0
        read: dict[int, bytes] = {}
        for kind, content in frames_of(script):
            if kind != line_frames.INPUT:
                continue
            session, piece = line_frames.number_of(content)
            *lines, read[session] = (read.get(session, b"") + piece).split(b"\n")
            for line in lines:
                answered += 1
                text = f"{session} {line.decode()[:20]} {answered}{self.drifts(len(self.scripts))}\n".encode()
                for part in (text[:3], text[3:]):
                    said += line_frames.encode_frame(line_frames.SAID, line_frames.numbered(session, part))
        if self.answers is not None:
            said = line_frames.encode_frame(line_frames.SAID, line_frames.numbered(1, self.answers))
        if self.mute:
            said = line_frames.encode_frame(line_frames.SAID, line_frames.numbered(1, b"half a li"))
        shape = Shape(mode="exact", memory_bytes=1 << 29, cpus=1)
        none: Any = None
        common = {"begun": none, "ended": none, "stdout": b"", "stderr": b"", "console": b"", "wall_s": 1.0}
        return GuestRun(shape=shape, emulator="", failure=self.failure, said=said, **common)


@pytest.fixture
def guest() -> Guest:
    return Guest()


@pytest.fixture
def talk(guest: Guest) -> Replay:
    return Replay(guest.boot)


def test_each_answer_comes_of_all_that_was_said_before(talk: Replay, guest: Guest) -> None:
    user, root = talk.open(["serve"], root=False), talk.open(["serve"], root=True)
    talk.write(user, b"hello\n")
    assert talk.answer(user) == b"1 hello 1\n"
    talk.write(root, b"apply\n")
    talk.write(user, b"verify\n")
    assert talk.answer(user) == b"1 verify 3\n"
    assert talk.answer(root) == b"2 apply 2\n"
    assert talk.boots == len(guest.scripts) == 3
    assert {len(script) for script in guest.scripts} == {SCRIPT_BYTES}
    taken = [frames_of(script) for script in guest.scripts]
    assert taken[0] == taken[1][: len(taken[0])]
    assert taken[1] == taken[2][: len(taken[1])]
    started = [msgspec.json.decode(content) for kind, content in taken[0] if kind == line_frames.START]
    assert started == [
        {"session": 1, "arguments": ["serve"], "root": False},
        {"session": 2, "arguments": ["serve"], "root": True},
    ]
    assert [content for kind, content in taken[2] if kind == line_frames.WAIT] == [
        b"\0\0\0\1\0\0\0\1",
        b"\0\0\0\1\0\0\0\2",
        b"\0\0\0\2\0\0\0\1",
    ]


def test_what_is_long_goes_in_pieces_that_the_guest_takes(talk: Replay, guest: Guest) -> None:
    session = talk.open([], root=False)
    talk.write(session, b"x" * 100_000 + b"\n")
    assert talk.answer(session) == b"1 xxxxxxxxxxxxxxxxxxxx 1\n"
    assert max(len(content) for _, content in frames_of(guest.scripts[0])) < 1 << 16


def test_an_end_is_said_and_waited_for_and_costs_no_boot(talk: Replay, guest: Guest) -> None:
    first, second = talk.open([], root=False), talk.open([], root=False)
    talk.hang_up(first)
    talk.let_end(first)
    assert guest.scripts == []
    talk.write(second, b"a\n")
    talk.answer(second)
    assert frames_of(guest.scripts[0])[2:4] == [
        (line_frames.INPUT, b"\0\0\0\1"),
        (line_frames.WAIT, b"\0\0\0\1\xff\xff\xff\xff"),
    ]


def test_a_guest_that_does_not_answer_as_before_is_an_error(talk: Replay, guest: Guest) -> None:
    session = talk.open([], root=False)
    for word in (b"a\n", b"b\n"):
        talk.write(session, word)
        talk.answer(session)
    guest.drifts = lambda boots: "!" if boots == 3 else ""
    talk.write(session, b"c\n")
    with pytest.raises(GuestDiffers, match=r"line 1 of its session 1 was '1 a 1' and is now '1 a 1!'"):
        talk.answer(session)


def test_a_session_that_ends_instead_has_said_half_a_line(talk: Replay, guest: Guest) -> None:
    guest.mute = True
    assert talk.answer(talk.open([], root=False)) == b"half a li"
    assert talk.answer(talk.open([], root=False)) == b""


def test_a_guest_that_fails_is_lost(talk: Replay, guest: Guest) -> None:
    guest.failure = "the kernel panicked: oops"
    with pytest.raises(AgentError, match="the guest failed: the kernel panicked: oops"):
        talk.answer(talk.open([], root=False))


def test_there_is_an_end_to_what_can_be_said(talk: Replay) -> None:
    session = talk.open([], root=False)
    talk.write(session, b"x" * SCRIPT_BYTES)
    with pytest.raises(KtrialError, match="the input of an exact guest exceeds 2 MiB"):
        talk.answer(session)


def test_a_request_that_goes_on_is_answered_at_once(talk: Replay, guest: Guest) -> None:
    told = b'{"id":1,"begun":true}\n{"id":1,"chunk":"a"}\n{"id":1,"ok":{}}\n{"id":2,"seen":{}}\n'
    guest.answers = told
    session = talk.open([], root=True)
    assert talk.answer(session) == b'{"id":1,"begun":true}\n'
    assert talk.rest(session) == [b'{"id":1,"chunk":"a"}\n', b'{"id":1,"ok":{}}\n']
    assert frames_of(guest.scripts[-1])[-1] == (line_frames.REPLIES, b"\0\0\0\1\0\0\0\1")
    guest.answers = told + b'{"error":{},"id":2}\n'
    assert talk.rest(session) == [b'{"id":2,"seen":{}}\n', b'{"error":{},"id":2}\n']
    assert frames_of(guest.scripts[-1])[-1] == (line_frames.REPLIES, b"\0\0\0\1\0\0\0\2")
    # An agent that ends instead.
    guest.answers = guest.answers + b'{"id":3,"seen":{}}\n{"id":3,"s'
    assert talk.rest(session) == [b'{"id":3,"seen":{}}\n', b'{"id":3,"s']
    assert talk.rest(session) == [b'{"id":3,"s']
    guest.answers = guest.answers[:-10]
    assert talk.rest(session) == [b""]


@pytest.mark.parametrize(
    "line, ends",
    [
        (b'{"id":1,"ok":{}}\n', True),
        (b'{"error":{"kind":"io"},"id":null}\n', True),
        (b'{"id":1,"begun":true}\n', False),
        (b'{"id":1,"seen":{"ok":1,"error":2}}\n', False),
        (b"no JSON\n", True),
    ],
)
def test_what_ends_a_request(line: bytes, ends: bool) -> None:
    assert is_reply(line) == ends


def test_what_was_said_goes_on_in_the_next_command(guest: Guest) -> None:
    first = Replay(guest.boot)
    user, root = first.open(["a"], root=False), first.open(["b"], root=True)
    for session in (user, root):
        first.write(session, b"x\n")
        first.answer(session)
    first.hang_up(user)
    first.let_end(user)
    first.write(root, b"never waited for\n")
    later = Replay(guest.boot, first.past)
    session = later.open(["c"], root=False)
    later.write(session, b"y\n")
    assert later.answer(session) == b"3 y 3\n"
    before, after = frames_of(guest.scripts[-2]), frames_of(guest.scripts[-1])
    assert after[: len(before)] == before
    assert after[len(before) : len(before) + 4] == [
        (line_frames.INPUT, b"\0\0\0\1"),
        (line_frames.WAIT, b"\0\0\0\1\xff\xff\xff\xff"),
        (line_frames.INPUT, b"\0\0\0\2"),
        (line_frames.WAIT, b"\0\0\0\2\xff\xff\xff\xff"),
    ]
    guest.drifts = lambda _: "!"
    later.write(session, b"z\n")
    with pytest.raises(GuestDiffers, match=r"line 1 of its session 1 was '1 x 1' and is now '1 x 1!'"):
        later.answer(session)
    assert later.past.said == {1: (b"1 x 1\n",), 2: (b"2 x 2\n",), 3: (b"3 y 3\n",)}
