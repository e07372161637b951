# SPDX-License-Identifier: Apache-2.0
"""The machine for one test at a time, whatever the number of workers and checkouts."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator


@contextlib.contextmanager
def the_machine() -> Iterator[None]:
    """Wait until no other test has the machine.

    The lock is on a folder that a Debian of its own (tests/alone) has from this machine; its /proc is another one.
    """
    descriptor = os.open("/sys/kernel", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
