# SPDX-License-Identifier: Apache-2.0
"""The lock that allows one measurement per user at a time, and the folder for its runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ktrial.bench.run.command_journal import CommandJournalFile
from ktrial.kit.errors import Busy, KtrialError
from ktrial.tuning.state.lock import MachineLock


class MeasuringPlace:
    """The lock `FOLDER/lock`, the folder `FOLDER/work`, the journal of commands, and the machine's lock."""

    def __init__(self, folder: Path, machine: MachineLock) -> None:
        self._folder = folder
        self._machine = machine
        self._lock: int | None = None

    @property
    def work(self) -> Path:
        return self._folder / "work"

    @property
    def commands(self) -> CommandJournalFile:
        return CommandJournalFile(self._folder)

    @property
    def machine(self) -> MachineLock:
        """The lock that trials and builds on this machine share."""
        return self._machine

    def lock(self) -> None:
        """Prevent other measurements of this user until `close`. Raise Busy if another measurement is running."""
        if self._lock is not None:
            return
        self._machine.measure()
        path = self._folder / "lock"
        with _writing(path):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise Busy(
                "busy",
                f"another measurement is running (process {owner or 'unknown'})",
                hint="wait until that process ends",
            ) from None
        with _writing(path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        self._lock = descriptor

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        self._machine.close()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KtrialError(
            f"cannot write {path}: {error.strerror}",
            hint="set XDG_STATE_HOME to a writable folder with free space",
        ) from None
