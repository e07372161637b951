# SPDX-License-Identifier: Apache-2.0
"""A conversation with an exact guest, which boots again for each answer and replays all earlier input.

The time at which a byte arrives is part of an exact guest's state. The input is therefore in a file of fixed size
inside the guest. Two boots whose scripts begin alike do the same until the scripts differ. The user's pauses take
no time in the guest.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ktrial.agent import line_frames
from ktrial.agent.line_frames import LineFrames
from ktrial.bench.guest_tools import GuestDiffers, GuestRun, ProgramPast
from ktrial.kit.errors import AgentError, KtrialError
from ktrial.kit.json_strict import decode_as

#: The script's path in the guest, and its fixed size: nothing reads past the script's end.
SCRIPT = "/ktrial/script"
SCRIPT_BYTES = 2 << 20
#: Maximum bytes in one frame.
_PIECE_BYTES = 1 << 14
#: More lines than any session writes. To wait for this many lines is to wait for the session's end.
_ITS_END = (1 << 32) - 1
_COUNT_BYTES = 4


class Replay:
    """The sessions of an exact guest; `boot` boots it with a script. `past` is the history that other commands left."""

    def __init__(self, boot: Callable[[bytes], GuestRun], past: ProgramPast | None = None) -> None:
        self._boot = boot
        #: The history up to the last answer, with all sessions ended.
        self.past = ProgramPast() if past is None else past
        self._script = bytearray(self.past.script)
        #: The lines that each session has written so far.
        self._said: dict[int, list[bytes]] = {one: list(lines) for one, lines in self.past.said.items()}
        #: Sessions whose end the script does not wait for yet.
        self._going: set[int] = set()
        #: The number of boots.
        self.boots = 0

    def open(self, arguments: list[str], *, root: bool) -> int:
        session = len(self._said) + 1
        self._said[session] = []
        self._going.add(session)
        start = {"session": session, "arguments": arguments, "root": root}
        self._add(line_frames.START, msgspec.json.encode(start))
        return session

    def write(self, session: int, data: bytes) -> None:
        for at in range(0, len(data), _PIECE_BYTES):
            self._add(line_frames.INPUT, line_frames.numbered(session, data[at : at + _PIECE_BYTES]))

    def hang_up(self, session: int) -> None:
        self._add(line_frames.INPUT, line_frames.numbered(session, b""))

    def let_end(self, session: int) -> None:
        self._wait(line_frames.WAIT, session, _ITS_END)
        self._going.discard(session)

    def answer(self, session: int) -> bytes:
        """Return the next line that an agent writes; if the agent ends first, return the rest without a line end.

        Raise AgentError if the guest fails, and GuestDiffers if its earlier answers change.
        """
        known = self._said[session]
        self._wait(line_frames.WAIT, session, len(known) + 1)
        more = self._more(session)
        line = more[0] if more else b""
        self._keep(session, [line])
        return line

    def rest(self, session: int) -> list[bytes]:
        """Return all further lines up to the line that ends the request. Raise the same errors as `answer`."""
        replies = sum(map(is_reply, self._said[session])) + 1
        self._wait(line_frames.REPLIES, session, replies)
        more = self._more(session)
        end = next((number for number, line in enumerate(more, 1) if is_reply(line)), None)
        lines = more[:end] if end is not None else [*more, b""]
        self._keep(session, lines)
        return lines

    def booted(self) -> GuestRun:
        return self._boot(self._whole())

    def _more(self, session: int) -> list[bytes]:
        """Boot the guest, and return the session's lines after the known lines."""
        run = self.booted()
        self.boots += 1
        if run.failure is not None:
            raise AgentError(
                "lost", f"the guest failed: {run.failure}", hint="run the command again; the guest's settings are lost"
            )
        heard = _by_session(run.said)
        for one, lines in self._said.items():
            _compare(one, lines, heard.get(one, b""))
        return heard.get(session, b"").splitlines(keepends=True)[len(self._said[session]) :]

    def _keep(self, session: int, lines: list[bytes]) -> None:
        self._said[session] += [line for line in lines if line.endswith(b"\n")]
        script = bytes(self._script)
        count = _ITS_END.to_bytes(_COUNT_BYTES, "big")
        for one in sorted(self._going):
            script += line_frames.encode_frame(line_frames.INPUT, line_frames.numbered(one, b""))
            script += line_frames.encode_frame(line_frames.WAIT, line_frames.numbered(one, count))
        said = {one: tuple(known) for one, known in self._said.items()}
        self.past = ProgramPast(script=script, said=said)

    def _wait(self, kind: bytes, session: int, count: int) -> None:
        self._add(kind, line_frames.numbered(session, count.to_bytes(_COUNT_BYTES, "big")))

    def _add(self, kind: bytes, content: bytes) -> None:
        self._script += line_frames.encode_frame(kind, content)

    def _whole(self) -> bytes:
        """Return the whole script with its end mark, padded to the fixed size."""
        whole = bytes(self._script) + line_frames.encode_frame(line_frames.END, b"")
        if len(whole) > SCRIPT_BYTES:
            raise KtrialError(
                f"the input of an exact guest exceeds {SCRIPT_BYTES >> 20} MiB",
                hint="split the work into several guests",
            )
        return whole.ljust(SCRIPT_BYTES, b"\0")


class _Line(msgspec.Struct):
    ok: msgspec.Raw | None = None
    error: msgspec.Raw | None = None


def is_reply(line: bytes) -> bool:
    """Return whether a line ends a request instead of reporting progress. A malformed line ends a request too."""
    try:
        reply = decode_as(line, _Line)
    except msgspec.DecodeError:
        return True
    return reply.ok is not None or reply.error is not None


def _by_session(said: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for frame in LineFrames().feed(said):
        if frame.kind == line_frames.SAID:
            session, rest = line_frames.number_of(frame.content)
            found[session] = found.get(session, b"") + rest
    return found


def _compare(session: int, known: list[bytes], heard: bytes) -> None:
    lines = heard.splitlines(keepends=True)
    for number, line in enumerate(known):
        other = lines[number] if number < len(lines) else b"nothing"
        if line != other:
            raise GuestDiffers(
                f"the exact guest changed an earlier answer: line {number + 1} of its session {session} was "
                f"{_show_line(line)} and is now {_show_line(other)}",
                hint="run the same command again",
            )


def _show_line(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip()
    return repr(text if len(text) <= 200 else f"{text[:200]}…")
