# SPDX-License-Identifier: Apache-2.0
"""A conversation with a guest that holds none: for each answer it is booted anew with all that was said before.

When a byte comes is part of an exact guest. So what is said to it lies in it, in a file of one size: two boots with
scripts that begin alike do the same up to where the scripts differ. The time that a person or the head takes is none.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ktrial.bench.guest_tools import GuestDiffers, GuestRun, ProgramPast
from ktrial.guests import guest_line
from ktrial.guests.guest_line import GuestLineFrames
from ktrial.kit.errors import AgentError, KtrialError
from ktrial.kit.json_strict import decode_as

#: Where a guest finds it, and how long it is: what follows the end is never looked at.
SCRIPT = "/ktrial/script"
SCRIPT_BYTES = 2 << 20
#: What is said in one frame.
_PIECE_BYTES = 1 << 14
#: So many lines no session says: to wait for them is to wait for its end.
_ITS_END = (1 << 32) - 1
_COUNT_BYTES = 4


class Replay:
    """Sessions of a guest; `boot` boots it with a script, and what it says there is what it always says.

    `past` is what other commands have said to it.
    """

    def __init__(self, boot: Callable[[bytes], GuestRun], past: ProgramPast | None = None) -> None:
        self._boot = boot
        #: What was said up to the last answer, with nobody talking after it.
        self.past = ProgramPast() if past is None else past
        self._script = bytearray(self.past.script)
        #: The lines that each session said, as far as they were waited for.
        self._said: dict[int, list[bytes]] = {one: list(lines) for one, lines in self.past.said.items()}
        #: Sessions whose end nobody waits for yet.
        self._going: set[int] = set()
        #: How often it was booted with another script.
        self.boots = 0

    def open(self, arguments: list[str], *, root: bool) -> int:
        """Return an agent with these arguments: its number."""
        session = len(self._said) + 1
        self._said[session] = []
        self._going.add(session)
        start = {"session": session, "arguments": arguments, "root": root}
        self._add(guest_line.START, msgspec.json.encode(start))
        return session

    def write(self, session: int, data: bytes) -> None:
        for at in range(0, len(data), _PIECE_BYTES):
            self._add(guest_line.INPUT, guest_line.numbered(session, data[at : at + _PIECE_BYTES]))

    def hang_up(self, session: int) -> None:
        self._add(guest_line.INPUT, guest_line.numbered(session, b""))

    def let_end(self, session: int) -> None:
        self._wait(guest_line.WAIT, session, _ITS_END)
        self._going.discard(session)

    def answer(self, session: int) -> bytes:
        """Return the next line that an agent says; what it said last, without the line's end, where it ended instead.

        Raises AgentError if the guest fails, GuestDiffers where it is not as before.
        """
        known = self._said[session]
        self._wait(guest_line.WAIT, session, len(known) + 1)
        more = self._more(session)
        line = more[0] if more else b""
        self._keep(session, [line])
        return line

    def rest(self, session: int) -> list[bytes]:
        """Return all further lines up to the one that ends the request; as `answer`."""
        replies = sum(map(is_reply, self._said[session])) + 1
        self._wait(guest_line.REPLIES, session, replies)
        more = self._more(session)
        end = next((number for number, line in enumerate(more, 1) if is_reply(line)), None)
        lines = more[:end] if end is not None else [*more, b""]
        self._keep(session, lines)
        return lines

    def booted(self) -> GuestRun:
        return self._boot(self._whole())

    def _more(self, session: int) -> list[bytes]:
        """Boot it: what the session says after what was known."""
        run = self.booted()
        self.boots += 1
        if run.failure is not None:
            raise AgentError("lost", f"the guest failed: {run.failure}", hint="what was set in it is gone with it")
        heard = _by_session(run.said)
        for one, lines in self._said.items():
            _compare(one, lines, heard.get(one, b""))
        return heard.get(session, b"").splitlines(keepends=True)[len(self._said[session]) :]

    def _keep(self, session: int, lines: list[bytes]) -> None:
        self._said[session] += [line for line in lines if line.endswith(b"\n")]
        ends = b"".join(_end_of(one) for one in sorted(self._going))
        said = {one: tuple(known) for one, known in self._said.items()}
        self.past = ProgramPast(script=bytes(self._script) + ends, said=said)

    def _wait(self, kind: bytes, session: int, count: int) -> None:
        self._add(kind, guest_line.numbered(session, count.to_bytes(_COUNT_BYTES, "big")))

    def _add(self, kind: bytes, content: bytes) -> None:
        self._script += guest_line.encode_frame(kind, content)

    def _whole(self) -> bytes:
        """Return the script with its end, in the size that it always has."""
        whole = bytes(self._script) + guest_line.encode_frame(guest_line.END, b"")
        if len(whole) > SCRIPT_BYTES:
            raise KtrialError(
                f"more than {SCRIPT_BYTES >> 20} MiB were said to an exact guest", hint="ask it for less at a time"
            )
        return whole.ljust(SCRIPT_BYTES, b"\0")


class _Line(msgspec.Struct):
    ok: msgspec.Raw | None = None
    error: msgspec.Raw | None = None


def is_reply(line: bytes) -> bool:
    """Whether a line ends a request, rather than tells what goes on; what is none of the protocol ends it too."""
    try:
        told = decode_as(line, _Line)
    except msgspec.DecodeError:
        return True
    return told.ok is not None or told.error is not None


def _end_of(session: int) -> bytes:
    """Return the end of what an agent reads, and its own."""
    count = _ITS_END.to_bytes(_COUNT_BYTES, "big")
    return guest_line.encode_frame(guest_line.INPUT, guest_line.numbered(session, b"")) + guest_line.encode_frame(
        guest_line.WAIT, guest_line.numbered(session, count)
    )


def _by_session(said: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for frame in GuestLineFrames().feed(said):
        if frame.kind == guest_line.SAID:
            session, rest = guest_line.number_of(frame.content)
            found[session] = found.get(session, b"") + rest
    return found


def _compare(session: int, known: list[bytes], heard: bytes) -> None:
    """Raise GuestDiffers if a session did not say again what it had said."""
    lines = heard.splitlines(keepends=True)
    for number, line in enumerate(known):
        other = lines[number] if number < len(lines) else b"nothing"
        if line != other:
            raise GuestDiffers(
                f"the exact guest did not answer as before: line {number + 1} of its session {session} was "
                f"{_show_line(line)} and is {_show_line(other)}",
                hint="its answers cannot be used; does the same command do it again?",
            )


def _show_line(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip()
    return repr(text if len(text) <= 200 else f"{text[:200]}…")
