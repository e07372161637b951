# SPDX-License-Identifier: Apache-2.0
"""Sessions with agents elsewhere, multiplexed over one line: a guest's serial port, or the pipes of ssh."""

from __future__ import annotations

import contextlib
import os
import time
from queue import SimpleQueue
from threading import Condition, Thread
from typing import IO, Any, NamedTuple

import msgspec

from ktrial.agent import line_frames
from ktrial.agent.carrier import Ends
from ktrial.agent.line_frames import Garbled, LineFrames

_CHUNK_BYTES = 1 << 16
#: Seconds to wait for room to start or end a session; if the other end hangs, there is never any.
_ROOM_LIMIT_S = 20.0


class Window(NamedTuple):
    """The maximum number of bytes sent but not yet read at the other end, and of bytes in one frame."""

    total_bytes: int
    piece_bytes: int


#: A guest's terminal buffers 4095 unread bytes and drops the rest.
GUEST_WINDOW = Window(total_bytes=3000, piece_bytes=1000)


class SessionLine:
    """Carries sessions over a line; `frames` may hold frames that were read earlier."""

    def __init__(
        self, to_agents: IO[bytes], from_agents: IO[bytes], frames: LineFrames, window: Window = GUEST_WINDOW
    ) -> None:
        self._to_agents = to_agents
        # A duplicate, so that closing the stream elsewhere does not close it under the thread that reads.
        self._listened = os.dup(from_agents.fileno())
        self._frames = frames
        self._window = window
        #: When the other end last sent anything, on the monotonic clock.
        self.heard_s = time.monotonic()
        self._changed = Condition()
        self._under_way = 0
        self._closed = False
        self._sessions: dict[int, SimpleQueue[bytes]] = {}
        self._next = 1
        #: Why the line broke; None while it works, or if it was closed in order.
        self.broken: str | None = None
        self._listening = Thread(target=self._listen, daemon=True)
        self._listening.start()

    def open(self, arguments: list[str], *, root: bool, **more: Any) -> Ends:
        """Start a session; `more` are further fields of the message that starts it."""
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
        start = {"session": session, "arguments": arguments, "root": root, **more}
        if not self._send(line_frames.START, msgspec.json.encode(start), _ROOM_LIMIT_S):
            said.put(b"")
        Thread(target=self._pass_on, args=(session, here), daemon=True).start()
        return Ends(to_agent, from_agent, session)

    def kill(self, session: int) -> None:
        self._send(line_frames.KILL, line_frames.numbered(session, b""), _ROOM_LIMIT_S)

    def end(self) -> None:
        self._send(line_frames.END, b"", _ROOM_LIMIT_S)

    def bear_silence(self, seconds: int, limit_s: float | None = None) -> bool:
        """Tell the other end to wait `seconds` for the next frame.

        Return False if the line is closed, or has no room within `limit_s`.
        """
        return self._send(line_frames.SILENCE, seconds.to_bytes(4, "big"), limit_s)

    def bear_next_silence(self, seconds: int, limit_s: float | None = None) -> bool:
        """Tell the other end to wait `seconds` for a frame after the next request; otherwise like `bear_silence`."""
        return self._send(line_frames.NEXT_SILENCE, seconds.to_bytes(4, "big"), limit_s)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def is_unanswered(self) -> bool:
        """Whether the other end has yet to confirm that it read everything."""
        return self._under_way > 0

    def heard_out(self, limit_s: float) -> None:
        """Wait at most `limit_s` until everything that the other end sent is read; do not close the streams earlier."""
        self._listening.join(limit_s)

    def _pass_on(self, session: int, here: int) -> None:
        """Send the head's input to a session, up to the empty frame that ends it."""
        piece = b" "
        while piece:
            piece = os.read(here, self._window.piece_bytes)
            if not self._send(line_frames.INPUT, line_frames.numbered(session, piece)):
                break
        os.close(here)

    def _send(self, kind: bytes, content: bytes, limit_s: float | None = None) -> bool:
        """Send a frame once the other end has room for it; return False if the line is closed or the limit passes."""
        frame = line_frames.encode_frame(kind, content)

        def ready() -> bool:
            return self._closed or not self._under_way or self._under_way + len(frame) <= self._window.total_bytes

        with self._changed:
            if not self._changed.wait_for(ready, limit_s) or self._closed:
                return False
            self._under_way += len(frame)
            try:
                self._to_agents.write(frame)
                self._to_agents.flush()
            except OSError:
                return False
        return True

    def _listen(self) -> None:
        try:
            while piece := os.read(self._listened, _CHUNK_BYTES):
                self.heard_s = time.monotonic()
                for frame in self._frames.feed(piece):
                    self._take(frame.kind, frame.content)
        except (Garbled, OSError) as error:
            self.broken = str(error)
        finally:
            os.close(self._listened)
        with self._changed:
            self._closed = True
            left = list(self._sessions.values())
            self._sessions.clear()
            self._changed.notify_all()
        for said in left:
            said.put(b"")

    def _take(self, kind: bytes, content: bytes) -> None:
        if kind == line_frames.TAKEN:
            with self._changed:
                self._under_way -= int.from_bytes(content, "big")
                self._changed.notify_all()
        elif kind == line_frames.SAID:
            session, rest = line_frames.number_of(content)
            if session in self._sessions:
                self._sessions[session].put(rest)
        elif kind == line_frames.OVER:
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
        raise Garbled(f"cannot read the agent's message that a session has ended: {error}") from None


def _hand_over(said: SimpleQueue[bytes], there: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        while piece := said.get():
            left = memoryview(piece)
            while left:
                left = left[os.write(there, left) :]
    os.close(there)
