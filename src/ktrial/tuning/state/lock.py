# SPDX-License-Identifier: Apache-2.0
"""One trial at a time on a machine, whoever starts it and wherever it is kept (docs/decisions/0025).

Builds of kernels are seen by trials, and trials by them; neither keeps the other away.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import time
from collections.abc import Sequence
from pathlib import Path

from ktrial.kit.errors import Busy, KtrialError
from ktrial.tuning.state.lock_holder import LockedFile, Process, holders, told_process

#: The kernel's own object for all that share its clock, containers included; before Linux 5.6 a folder of its.
PLACES = (Path("/proc/self/ns/time"), Path("/sys/kernel"))
#: The same for those that build a kernel, of whom there may be many.
BUILD_PLACES = (Path("/proc/self/ns/user"), Path("/sys/kernel/mm"))
_PROC = Path("/proc")
#: Fields of /proc/PID/stat after the name, which ends with the last bracket: the start is the 22nd of all.
_START_FIELD = 19


class MachineLock:
    """Held by at most one trial; the kernel takes it back from whoever ends, however that ends."""

    def __init__(self, machine_root: Path | None = None) -> None:
        self._places = PLACES if machine_root is None else (machine_root,)
        self._build_places = BUILD_PLACES if machine_root is None else (machine_root / "proc",)
        self._descriptor: int | None = None
        self._build: int | None = None

    def take(self) -> bool:
        """Keep other trials away until `close`; whether it was not held before. Raises Busy, with who holds it."""
        if self._descriptor is not None:
            return False
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            found = os.fstat(descriptor)
            os.close(descriptor)
            file = LockedFile(os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)
            raise Busy(
                "busy",
                f"another trial runs on this machine: {_holder(file)}",
                hint="two trials disturb each other, whatever their stores: wait for it, or end it with Ctrl-C",
            ) from None
        self._descriptor = descriptor
        return True

    def build(self) -> None:
        """Let trials see until `close` that a kernel is built; where there is no place for it they do not."""
        if self._build is None:
            with contextlib.suppress(OSError):
                self._build = _opened(self._build_places)
                fcntl.flock(self._build, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def others_building(self) -> tuple[str, ...]:
        """Return other processes that build a kernel on this machine, in words."""
        return _others(self._build_places)

    def others_trying(self) -> tuple[str, ...]:
        """Return another process that tries something on this machine, in words."""
        return _others(self._places)

    def close(self) -> None:
        for descriptor in (self._descriptor, self._build):
            if descriptor is not None:
                os.close(descriptor)
        self._descriptor = self._build = None

    def _open(self) -> int:
        try:
            return _opened(self._places)
        except OSError:
            raise KtrialError(
                f"this machine cannot be locked: {' and '.join(map(str, self._places))} cannot be opened",
                hint="a trial needs /proc and /sys for more than this: mount them",
            ) from None


def _opened(places: Sequence[Path]) -> int:
    """Return the first of them that can be opened."""
    for place in places[:-1]:
        with contextlib.suppress(OSError):
            return os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    return os.open(places[-1], os.O_RDONLY | os.O_CLOEXEC)


def _others(places: Sequence[Path]) -> tuple[str, ...]:
    """Processes besides this one that hold a lock there."""
    try:
        descriptor = _opened(places)
    except OSError:
        return ()
    found = os.fstat(descriptor)
    os.close(descriptor)
    file = LockedFile(os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)
    return tuple(told_process(look(pid)) for pid in holders(_text(_PROC / "locks"), file) if pid != os.getpid())


def _holder(file: LockedFile) -> str:
    found = holders(_text(_PROC / "locks"), file)
    if not found:
        return "a process that /proc/locks does not show here; outside of this container?"
    return told_process(look(found[0]))


def look(pid: int) -> Process:
    """Return a process of this machine, as far as this user may see it."""
    folder = _PROC / str(pid)
    pairs = [word.partition("=") for word in _text(folder / "environ").split("\0")[:-1]]
    return Process(
        pid=pid,
        user=_user(folder),
        words=tuple(_text(folder / "cmdline").split("\0")[:-1]),
        environment={name: value for name, _, value in pairs} or None,
        started=_start_of(folder),
    )


def _text(path: Path) -> str:
    """Return what a file of the kernel shows; nothing if this user may not read it, or the process is gone."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _line(path: Path, begin: str) -> str:
    """Return the first word after the beginning of a line."""
    return next((line.split()[1] for line in _text(path).splitlines() if line.startswith(begin)), "")


def _user(folder: Path) -> str | None:
    """By its status: the folder of a process that gave up root belongs to root."""
    uid = _line(folder / "status", "Uid:")
    if not uid:
        return None
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except KeyError:
        return f"user {uid}"


def _start_of(folder: Path) -> str | None:
    """When it began, on the clock of this place."""
    after_name = _text(folder / "stat").rpartition(")")[2].split()
    booted = _line(_PROC / "stat", "btime ")
    if len(after_name) <= _START_FIELD or not booted:
        return None
    began = int(booted) + int(after_name[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began))
