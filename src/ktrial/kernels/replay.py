# SPDX-License-Identifier: Apache-2.0
"""A conversation with a guest that holds none: for each answer it is booted anew with all that was said before.

When a byte comes is part of an exact guest. So what is said to it lies in it, in a file of one size: two boots with
scripts that begin alike do the same up to where the scripts differ. The time that a person or the head takes is none.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ktrial.domain.errors import AgentError, KtrialError
from ktrial.domain.guest import GuestDiffers, GuestRun
from ktrial.formats import guest_line
from ktrial.formats.guest_line import Frames

#: Where a guest finds it, and how long it is: what follows the end is never looked at.
SCRIPT = "/ktrial/script"
SCRIPT_BYTES = 2 << 20
#: What is said in one frame.
_PIECE_BYTES = 1 << 14
#: So many lines no session says: to wait for them is to wait for its end.
_ITS_END = (1 << 32) - 1
_LINES_BYTES = 4


class Replay:
    """Sessions of a guest; `boot` boots it with a script, and what it says there is what it always says."""

    def __init__(self, boot: Callable[[bytes], GuestRun]) -> None:
        self._boot = boot
        self._script = bytearray()
        #: The lines that each session said, as far as they were waited for.
        self._said: dict[int, list[bytes]] = {}
        #: How often it was booted with another script.
        self.boots = 0
        #: The last boot.
        self.run: GuestRun | None = None

    def open(self, arguments: list[str], *, root: bool) -> int:
        """An agent with these arguments: its number."""
        session = len(self._said) + 1
        self._said[session] = []
        start = {"session": session, "arguments": arguments, "root": root}
        self._add(guest_line.START, msgspec.json.encode(start))
        return session

    def write(self, session: int, data: bytes) -> None:
        """What an agent reads next."""
        for at in range(0, len(data), _PIECE_BYTES):
            self._add(guest_line.INPUT, guest_line.numbered(session, data[at : at + _PIECE_BYTES]))

    def hang_up(self, session: int) -> None:
        """The end of what an agent reads."""
        self._add(guest_line.INPUT, guest_line.numbered(session, b""))

    def let_end(self, session: int) -> None:
        """What follows is said when the agent has ended."""
        self._wait(session, _ITS_END)

    def answer(self, session: int) -> bytes:
        """The next line that an agent says; what it said last, without the line's end, where it ended instead.

        Raises AgentError where the guest fails, GuestDiffers where it is not as before.
        """
        known = self._said[session]
        self._wait(session, len(known) + 1)
        run = self.run = self._boot(self._whole())
        self.boots += 1
        if run.failure is not None:
            raise AgentError("lost", f"the guest failed: {run.failure}", hint="what was set in it is gone with it")
        heard = _heard(run.said)
        for one, lines in self._said.items():
            _compare(one, lines, heard.get(one, b""))
        lines = heard.get(session, b"").splitlines(keepends=True)[len(known) :]
        line = lines[0] if lines else b""
        if line.endswith(b"\n"):
            known.append(line)
        return line

    def _wait(self, session: int, lines: int) -> None:
        self._add(guest_line.WAIT, guest_line.numbered(session, lines.to_bytes(_LINES_BYTES, "big")))

    def _add(self, kind: bytes, content: bytes) -> None:
        self._script += guest_line.encoded(kind, content)

    def _whole(self) -> bytes:
        """The script with its end, in the size that it always has."""
        whole = bytes(self._script) + guest_line.encoded(guest_line.END, b"")
        if len(whole) > SCRIPT_BYTES:
            raise KtrialError(
                f"more than {SCRIPT_BYTES >> 20} MiB were said to an exact guest", hint="ask it for less at a time"
            )
        return whole.ljust(SCRIPT_BYTES, b"\0")


def _heard(said: bytes) -> dict[int, bytes]:
    """All that each session said."""
    found: dict[int, bytes] = {}
    for frame in Frames().feed(said):
        if frame.kind == guest_line.SAID:
            session, rest = guest_line.number_of(frame.content)
            found[session] = found.get(session, b"") + rest
    return found


def _compare(session: int, known: list[bytes], heard: bytes) -> None:
    """Raise GuestDiffers where a session did not say again what it had said."""
    lines = heard.splitlines(keepends=True)
    for number, line in enumerate(known):
        other = lines[number] if number < len(lines) else b"nothing"
        if line != other:
            raise GuestDiffers(
                f"the exact guest did not answer as before: line {number + 1} of its session {session} was "
                f"{_shown(line)} and is {_shown(other)}",
                hint="its answers cannot be used; does the same command do it again?",
            )


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip()
    return repr(text if len(text) <= 200 else f"{text[:200]}…")
