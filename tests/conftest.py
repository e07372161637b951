# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def real_machine() -> Iterator[None]:
    """The machine's own knobs: one test at a time, whatever the number of workers. Needs root, and fails without."""
    assert os.geteuid() == 0, "this test writes the machine's knobs: run ./check as root"
    lock = Path("/run/ktrial-tests.lock")
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
