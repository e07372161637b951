# SPDX-License-Identifier: Apache-2.0
"""Deliver Ctrl-C and other requests to end only at chosen waits, so that they never interrupt a write."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Self

#: After this many signals each one raises KeyboardInterrupt at once, for code that calls neither `wait` nor `check`.
_PATIENCE = 3
#: Seconds between two calls of `watch`.
_WATCH_EACH_S = 1.0
#: Signals that ask the head to end: Ctrl-C, a supervisor or `kill`, a closed terminal.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Records SIGINT, SIGTERM and SIGHUP within the `with` block. `wait` and `check` then raise KeyboardInterrupt.

    Nothing changes outside the block, in other threads, or for signals that ktrial already ignores. The
    KeyboardInterrupt carries the signal's number, which is also in `number`. Nested blocks have no further effect.
    """

    def __init__(self) -> None:
        self._pipe: tuple[int, int] | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._noted = 0
        self._depth = 0
        self.number: int = signal.SIGINT
        #: Called about once a second during a wait; an exception that it raises ends the wait.
        self.watch: Callable[[], None] | None = None
        self._looked_s = -_WATCH_EACH_S

    def __enter__(self) -> Self:
        self._depth += 1
        if self._depth > 1:
            return self
        if threading.current_thread() is threading.main_thread():
            self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._noted = 0
            self._before = {one: signal.getsignal(one) for one in _SIGNALS}
            self._before = {one: was for one, was in self._before.items() if was not in {None, signal.SIG_IGN}}
            for one in self._before:
                signal.signal(one, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        for one, was in self._before.items():
            signal.signal(one, was)
        self._before = {}
        if self._pipe is not None:
            pipe, self._pipe = self._pipe, None
            for descriptor in pipe:
                os.close(descriptor)

    def wait(self, descriptors: Sequence[int], limit_s: float | None = None) -> bool:
        """Return True when a descriptor is readable, False after `limit_s`.

        Raise KeyboardInterrupt on a signal, unless a descriptor is readable too.
        """
        own = [self._pipe[0]] if self._pipe is not None else []
        end_s = None if limit_s is None else time.monotonic() + limit_s
        while True:
            left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
            nap_s = left_s if self.watch is None else min(_WATCH_EACH_S, _WATCH_EACH_S if left_s is None else left_s)
            ready, _, _ = select.select([*descriptors, *own], [], [], nap_s)
            if set(ready) & set(descriptors):
                return True
            self.check()
            self._look()
            if ready or (end_s is not None and time.monotonic() >= end_s):
                return False

    def _look(self) -> None:
        """Call `watch`, at most once per `_WATCH_EACH_S`."""
        if self.watch is not None and time.monotonic() - self._looked_s >= _WATCH_EACH_S:
            self._looked_s = time.monotonic()
            self.watch()

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived since the last check."""
        if self._pipe is None:
            return
        try:
            noted = os.read(self._pipe[0], 64)
        except BlockingIOError:
            return
        self.number = noted[0]
        raise KeyboardInterrupt(self.number)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._noted += 1
        if self._noted >= _PATIENCE:
            self.number = number
            raise KeyboardInterrupt(number)
        if self._pipe is not None:
            os.write(self._pipe[1], bytes((number,)))
