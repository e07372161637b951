# SPDX-License-Identifier: Apache-2.0
"""Sessions with agents in a running guest, multiplexed over its serial line."""

from __future__ import annotations

import contextlib
import os
from queue import SimpleQueue
from threading import Condition, Thread
from typing import IO

import msgspec

from ktrial.bench.guest_tools import Ends
from ktrial.guests import guest_line
from ktrial.guests.guest_line import Garbled, GuestLineFrames

#: The guest's terminal buffers 4095 unread bytes and drops the rest.
_WINDOW_BYTES = 3000
_PIECE_BYTES = 1000
_CHUNK_BYTES = 1 << 16
#: How long to wait for room to open or end a session; a guest that hangs never has any.
_ROOM_LIMIT_S = 20.0


class ConsoleLine:
    """Carries sessions. `to_guest` and `from_guest` are the guest's line; `frames` may hold frames read earlier."""

    def __init__(self, to_guest: IO[bytes], from_guest: IO[bytes], frames: GuestLineFrames) -> None:
        self._to_guest = to_guest
        self._from_guest = from_guest
        self._frames = frames
        self._changed = Condition()
        self._under_way = 0
        self._closed = False
        self._sessions: dict[int, SimpleQueue[bytes]] = {}
        self._next = 1
        #: Why the line broke; None while it works, or if it was closed in order.
        self.broken: str | None = None
        self._listening = Thread(target=self._listen, daemon=True)
        self._listening.start()

    def open(self, arguments: list[str], *, root: bool) -> Ends:
        here, to_agent = os.pipe()
        from_agent, there = os.pipe()
        said: SimpleQueue[bytes] = SimpleQueue()
        with self._changed:
            session, self._next = self._next, self._next + 1
            self._sessions[session] = said
            gone = self._closed
        if gone:
            said.put(b"")
        Thread(target=_hand_over, args=(said, there), daemon=True).start()
        start = {"session": session, "arguments": arguments, "root": root}
        if not self._send(guest_line.START, msgspec.json.encode(start), _ROOM_LIMIT_S):
            said.put(b"")
        Thread(target=self._pass_on, args=(session, here), daemon=True).start()
        return Ends(to_agent, from_agent, session)

    def kill(self, session: int) -> None:
        self._send(guest_line.KILL, guest_line.numbered(session, b""), _ROOM_LIMIT_S)

    def end(self) -> None:
        self._send(guest_line.END, b"", _ROOM_LIMIT_S)

    @property
    def closed(self) -> bool:
        return self._closed

    def heard_out(self, limit_s: float) -> None:
        """Wait until everything that an ended guest wrote has been read; then its streams can be closed."""
        self._listening.join(limit_s)

    def _pass_on(self, session: int, here: int) -> None:
        """Send the head's input to a session, up to the empty frame that ends it."""
        piece = b" "
        while piece:
            piece = os.read(here, _PIECE_BYTES)
            if not self._send(guest_line.INPUT, guest_line.numbered(session, piece)):
                break
        os.close(here)

    def _send(self, kind: bytes, content: bytes, limit_s: float | None = None) -> bool:
        """Send a frame once the guest has room for it; return False if the line is closed or the limit passes."""
        frame = guest_line.encode_frame(kind, content)

        def ready() -> bool:
            return self._closed or not self._under_way or self._under_way + len(frame) <= _WINDOW_BYTES

        with self._changed:
            if not self._changed.wait_for(ready, limit_s) or self._closed:
                return False
            self._under_way += len(frame)
            try:
                self._to_guest.write(frame)
                self._to_guest.flush()
            except OSError:
                return False
        return True

    def _listen(self) -> None:
        try:
            while piece := os.read(self._from_guest.fileno(), _CHUNK_BYTES):
                for frame in self._frames.feed(piece):
                    self._take(frame.kind, frame.content)
        except (Garbled, OSError) as error:
            self.broken = str(error)
        with self._changed:
            self._closed = True
            left = list(self._sessions.values())
            self._sessions.clear()
            self._changed.notify_all()
        for said in left:
            said.put(b"")

    def _take(self, kind: bytes, content: bytes) -> None:
        if kind == guest_line.TAKEN:
            with self._changed:
                self._under_way -= int.from_bytes(content, "big")
                self._changed.notify_all()
        elif kind == guest_line.SAID:
            session, rest = guest_line.number_of(content)
            if session in self._sessions:
                self._sessions[session].put(rest)
        elif kind == guest_line.OVER:
            with self._changed:
                said = self._sessions.pop(_session_of(content), None)
            if said is not None:
                said.put(b"")


class _Over(msgspec.Struct):
    """The end of a session; the head only needs its number."""

    session: int


def _session_of(content: bytes) -> int:
    try:
        return msgspec.json.decode(content, type=_Over).session
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Garbled(f"malformed end of a session: {error}") from None


def _hand_over(said: SimpleQueue[bytes], there: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        while piece := said.get():
            left = memoryview(piece)
            while left:
                left = left[os.write(there, left) :]
    os.close(there)
