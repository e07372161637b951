# SPDX-License-Identifier: Apache-2.0
"""Allow one trial at a time on a machine, whoever starts it and whichever store it uses (docs/decisions/0025).

Commands of `ktrial with` and trials exclude each other (docs/decisions/0063). Trials and kernel builds can see each
other; neither excludes the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import time
from collections.abc import Sequence
from pathlib import Path

from ktrial.kit.errors import Busy, KtrialError, Refused
from ktrial.kit.files import why_unread
from ktrial.tuning.state.lock_holder import LockedFile, LockKind, Process, holders, told_process

#: A kernel object that all processes with the same clock share, even in containers; a folder before Linux 5.6.
PLACES = (Path("/proc/self/ns/time"), Path("/sys/kernel"))
#: The same for kernel builds, of which several may run.
BUILD_PLACES = (Path("/proc/self/ns/user"), Path("/sys/kernel/mm"))
_PROC = Path("/proc")
#: Index of the start time among the fields after the name in /proc/PID/stat; it is field 22 of the whole line.
_START_FIELD = 19


class MachineLock:
    """A lock that at most one trial holds; the kernel releases it when the process ends for any reason."""

    def __init__(self, machine_root: Path | None = None) -> None:
        self._is_folder = machine_root is not None
        self._places = PLACES if machine_root is None else (machine_root,)
        self._build_places = BUILD_PLACES if machine_root is None else (machine_root / "proc",)
        self._descriptor: int | None = None
        self._build: int | None = None

    def take(self) -> bool:
        """Exclude other trials until `close`; return False if this object holds the lock already.

        Raise Busy that names the holder if another process holds the lock.
        """
        if self._descriptor is not None:
            return False
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file = _closed(descriptor)
            sharing = holders(_text(_PROC / "locks"), file, "READ")
            if sharing:
                raise Busy(
                    "busy",
                    f"a command of `ktrial with` runs on this machine: {told_process(look(sharing[0]))}",
                    hint="wait until that command ends, because a trial would also measure the command's settings",
                ) from None
            raise Busy(
                "busy",
                f"another trial runs on this machine: {_holder(file)}",
                hint="wait until that trial ends, because two trials disturb each other even with separate stores",
            ) from None
        self._descriptor = descriptor
        return True

    def share(self) -> None:
        """Exclude trials, but not other commands of `ktrial with`, until `close`. Raise Refused while a trial runs."""
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"a trial runs on this machine: {_holder(_closed(descriptor))}",
                hint="wait until the trial ends, because other settings would change what the trial measures",
            ) from None
        self._descriptor = descriptor

    def measure(self) -> None:
        """Do nothing, because the file lock already excludes other measurements; other locks override this method."""

    def build(self) -> None:
        """Let trials see, until `close`, that a kernel build is running; do nothing if no lock file can be opened."""
        if self._build is None:
            with contextlib.suppress(OSError):
                self._build = _opened(self._build_places)
                fcntl.flock(self._build, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def others_building(self) -> tuple[str, ...]:
        return _others(self._build_places, "READ")

    def others_trying(self) -> tuple[str, ...]:
        return _others(self._places, "WRITE")

    def trying(self) -> tuple[Process, ...]:
        """Return the other processes that run trials on this machine."""
        return _holding(self._places, "WRITE")

    def close(self) -> None:
        for descriptor in (self._descriptor, self._build):
            if descriptor is not None:
                os.close(descriptor)
        self._descriptor = self._build = None

    def _open(self) -> int:
        try:
            return _opened(self._places)
        except OSError as error:
            raise KtrialError(
                f"cannot open {' or '.join(map(str, self._places))} to lock this machine: {why_unread(error)}",
                hint="check the folder after --machine-root" if self._is_folder else "mount /proc and /sys",
            ) from None


def _opened(places: Sequence[Path]) -> int:
    for place in places[:-1]:
        with contextlib.suppress(OSError):
            return os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    return os.open(places[-1], os.O_RDONLY | os.O_CLOEXEC)


def _others(places: Sequence[Path], kind: LockKind) -> tuple[str, ...]:
    """Describe the other processes that hold a lock of this kind on one of these places."""
    return tuple(told_process(one) for one in _holding(places, kind))


def _holding(places: Sequence[Path], kind: LockKind) -> tuple[Process, ...]:
    try:
        descriptor = _opened(places)
    except OSError:
        return ()
    file = _closed(descriptor)
    return tuple(look(pid) for pid in holders(_text(_PROC / "locks"), file, kind) if pid != os.getpid())


def _closed(descriptor: int) -> LockedFile:
    """Close a file and return the numbers by which the kernel identifies it."""
    found = os.fstat(descriptor)
    os.close(descriptor)
    return LockedFile(os.major(found.st_dev), os.minor(found.st_dev), found.st_ino)


def _holder(file: LockedFile) -> str:
    found = holders(_text(_PROC / "locks"), file)
    if not found:
        return "a process that /proc/locks does not show, perhaps outside of this container"
    return told_process(look(found[0]))


def look(pid: int) -> Process:
    """Return what this user may see of a process."""
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
    """Return the text of a kernel file; nothing if it is unreadable or the process has ended."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def _line(path: Path, begin: str) -> str:
    """Return the first word after `begin` in the line that starts with it."""
    return next((line.split()[1] for line in _text(path).splitlines() if line.startswith(begin)), "")


def _user(folder: Path) -> str | None:
    """Return the process's user from its status; None if unknown.

    The owner of /proc/PID is no help: it stays root when the process gives up root.
    """
    uid = _line(folder / "status", "Uid:")
    if not uid:
        return None
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except KeyError:
        return f"user {uid}"


def _start_of(folder: Path) -> str | None:
    """Return when the process started, in local time; None if unknown."""
    after_name = _text(folder / "stat").rpartition(")")[2].split()
    booted = _line(_PROC / "stat", "btime ")
    if len(after_name) <= _START_FIELD or not booted:
        return None
    began = int(booted) + int(after_name[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began))
