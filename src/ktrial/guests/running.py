# SPDX-License-Identifier: Apache-2.0
"""A guest that runs until it is closed: the emulator, and the line that carries its sessions."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from threading import Event
from typing import TypeVar

import msgspec

from ktrial.agent import line_frames
from ktrial.agent.carrier import Ends
from ktrial.agent.line_frames import Frame, Garbled, LineFrames
from ktrial.agent.session_line import SessionLine
from ktrial.bench.guest_tools import STATUS_FAILED, STATUS_LIMIT, GuestFailed, GuestStart
from ktrial.bench.text import duration
from ktrial.kit.errors import AgentError

_CHUNK_BYTES = 1 << 16
_LOOK_S = 0.2
#: Seconds that a guest may take to restart, which ends the emulator.
_END_LIMIT_S = 10.0
_LAST_LINES = 12

T = TypeVar("T")


def decode_frame(frame: Frame, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(frame.content, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Garbled(f"cannot read a message from the guest: {error}") from None


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class RunningGuest:
    """Starts the emulator, and waits for the guest's first process. `close` removes `folder`."""

    def __init__(self, argv: list[str], folder: Path, begin_limit_s: float, stop: Event) -> None:
        self._folder = folder
        self._frames = LineFrames()
        with (folder / "errors").open("wb") as errors:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
        try:
            #: The guest's description of itself.
            self.begun = self._wait_for_begun(begin_limit_s, stop)
        except BaseException:
            self._take_away()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._line = SessionLine(self._process.stdin, self._process.stdout, self._frames)

    def open(self, arguments: list[str], *, root: bool) -> Ends:
        if (gone := self.why_gone()) is not None:
            raise AgentError("lost", gone, hint="run the command again")
        return self._line.open(arguments, root=root)

    def why_gone(self) -> str | None:
        """Return why the guest is gone, with the last lines of its console; None while it runs."""
        if not self._line.closed:
            return None
        broken = f": {self._line.broken}" if self._line.broken is not None else ""
        return f"the guest has ended{broken}{self._last_lines()}"

    def kill(self, session: int) -> None:
        self._line.kill(session)

    def close(self) -> None:
        if self._process.poll() is None:
            self._line.end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_LIMIT_S)
        end(self._process)
        self._line.heard_out(_END_LIMIT_S)
        self._take_away()

    def _take_away(self) -> None:
        end(self._process)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait_for_begun(self, limit_s: float, stop: Event) -> GuestStart:
        stream = self._process.stdout
        assert stream is not None
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and not stop.is_set():
            ready, _, _ = select.select([stream], [], [], _LOOK_S)
            if not ready:
                continue
            piece = os.read(stream.fileno(), _CHUNK_BYTES)
            if not piece:
                said = (self._folder / "errors").read_text(encoding="utf-8", errors="replace").strip()
                why = f": {said}" if said else self._last_lines()
                raise GuestFailed(f"the guest ended before its first process ran{why}", STATUS_FAILED)
            for frame in self._frames.feed(piece):
                if frame.kind == line_frames.BEGUN:
                    return decode_frame(frame, GuestStart)
        why = "was stopped" if stop.is_set() else f"exceeded the time limit of {duration(limit_s)}"
        raise GuestFailed(f"the guest {why} before its first process ran{self._last_lines()}", STATUS_LIMIT)

    def _last_lines(self) -> str:
        text = (self._folder / "console").read_bytes().decode(errors="replace")
        tail = [line.rstrip("\r") for line in text.splitlines() if line.strip()][-_LAST_LINES:]
        return "; last lines of its console:" + "".join(f"\n  {line}" for line in tail) if tail else ""
