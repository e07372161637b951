# SPDX-License-Identifier: Apache-2.0
"""Lets other processes of the same user pause, continue or stop a running live trial.

A running trial holds a lock on its file; the kernel releases the lock when the process ends for any reason. The content
of the file is the latest request.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Literal, get_args

from ktrial.kit.errors import Busy, Refused

Wanted = Literal["run", "pause", "stop"]


class TrialDesk:
    """Receives the requests to a trial, in the process that runs the trial."""

    def __init__(self, folder: Path, trial: str) -> None:
        self._file = folder / trial
        self._descriptor: int | None = None

    def open(self) -> None:
        """Register the trial as running. Raise Busy if another process runs it."""
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while self._descriptor is None:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise Busy(
                    "busy",
                    f"another process is running {self._file.name}",
                    hint=f"wait for that process, or run `ktrial trial stop {self._file.name}`",
                ) from None
            if self._file.exists():  # if the file is missing, a process that looked for dead trials has removed it
                self._descriptor = descriptor
            else:
                os.close(descriptor)
        os.ftruncate(self._descriptor, 0)

    def request(self) -> Wanted:
        """Return the latest request to the trial."""
        if self._descriptor is None:
            return "run"
        text = os.pread(self._descriptor, 16, 0).decode(errors="replace").strip()
        return next((one for one in get_args(Wanted) if one == text), "run")

    def close(self) -> None:
        """Remove the trial from the list of running trials."""
        if self._descriptor is not None:
            with contextlib.suppress(FileNotFoundError):
                self._file.unlink()
            os.close(self._descriptor)
            self._descriptor = None


def running_trials(folder: Path) -> tuple[str, ...]:
    """Return the live trials that processes of this user run now, sorted; remove the files of killed processes."""
    found = []
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        with contextlib.suppress(FileNotFoundError), file.open("rb") as opened:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(file.name)
            else:
                file.unlink()
    return tuple(found)


def ask_of(folder: Path, trial: str, wanted: Wanted) -> None:
    """Send the request `wanted` to a running trial. Raise Refused if no process runs the trial."""
    if trial not in running_trials(folder):
        raise Refused(f"{trial} is not running", hint=f"run `ktrial trial resume {trial}`")
    with (folder / trial).open("r+b") as opened:
        opened.write(f"{wanted:<16}".encode())
