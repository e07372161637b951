# SPDX-License-Identifier: Apache-2.0
"""Gives the machine to one test at a time, across all workers and checkouts."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator


@contextlib.contextmanager
def the_machine() -> Iterator[None]:
    """Wait until no other test uses the machine.

    The lock is on a folder that a separate Debian (tests/alone) shares with this machine, because its /proc is another
    one.
    """
    descriptor = os.open("/sys/kernel", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
