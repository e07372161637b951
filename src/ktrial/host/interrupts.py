# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C as something that is noticed in waits made for it, and never breaks into what is being written."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Self

#: So many presses break in wherever it is: the way out of a wait that nobody made for it.
_PATIENCE = 3


class Interrupts:
    """Within its `with` block SIGINT is only noted; `wait` and `check` raise the KeyboardInterrupt.

    Outside, in other threads, and where the caller ignores or handles SIGINT, nothing is changed.
    """

    def __init__(self) -> None:
        self._pipe: tuple[int, int] | None = None
        self._pressed = 0

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._pressed = 0
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pipe is not None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            pipe, self._pipe = self._pipe, None
            for descriptor in pipe:
                os.close(descriptor)

    def wait(self, descriptors: Sequence[int], limit_s: float | None = None) -> bool:
        """Wait until one of them can be read, or `limit_s` is over (then False); an answer goes before a Ctrl-C."""
        own = [self._pipe[0]] if self._pipe is not None else []
        ready, _, _ = select.select([*descriptors, *own], [], [], limit_s)
        if set(ready) & set(descriptors):
            return True
        self.check()
        return False

    def check(self) -> None:
        """Raise KeyboardInterrupt when Ctrl-C was pressed since the last time."""
        if self._pipe is None:
            return
        try:
            os.read(self._pipe[0], 64)
        except BlockingIOError:
            return
        raise KeyboardInterrupt

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._pressed += 1
        if self._pressed >= _PATIENCE:
            raise KeyboardInterrupt
        if self._pipe is not None:
            os.write(self._pipe[1], b"!")
