# SPDX-License-Identifier: Apache-2.0
"""Private folders of runs: where they may lie in memory, and how they are removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ktrial.agent.user_folders import state_folder
from ktrial.kit.errors import KtrialError
from ktrial.kit.mounts import MOUNTS, file_system

_NAME = "ktrial-work"
_RUN = "run-"
#: Where root looks in addition to XDG_RUNTIME_DIR.
ROOTS_OWN = Path("/run")
_OF_USERS = Path("/run/user")


def own_tmpfs() -> Path:
    """Return the folder for runs on this user's private tmpfs: in XDG_RUNTIME_DIR, /run/user or, for root, /run.

    Raise KtrialError if this user has no private tmpfs.
    """
    mounts = Path(MOUNTS).read_text(encoding="utf-8", errors="surrogateescape")
    for place in _places():
        if (
            place.is_dir()
            and place.stat().st_uid == os.geteuid()
            and file_system(str(place.resolve()), mounts) == "tmpfs"
        ):
            return place / _NAME
    raise KtrialError(
        "cannot run this benchmark: it needs a private tmpfs, and this user has none",
        hint="mkdir -m 700 /dev/shm/NAME && export XDG_RUNTIME_DIR=/dev/shm/NAME",
    )


def private_place(name: str) -> Path:
    """Return folder `name` in the user's runtime folder, which lasts until logout.

    If the user has no runtime folder, return folder `name` in the state folder.
    """
    own = (place for place in _places() if place.is_dir() and place.stat().st_uid == os.geteuid())
    return next(own, state_folder()) / name


def _places() -> tuple[Path, ...]:
    """Return the candidates, including systemd's default, because sudo drops XDG_RUNTIME_DIR."""
    stated, user = os.environ.get("XDG_RUNTIME_DIR"), os.geteuid()
    return (*([Path(stated)] if stated else []), *([ROOTS_OWN] if user == 0 else []), _OF_USERS / str(user))


def work_folders(work: Path) -> list[Path]:
    """Return the folders that hold the private folders of runs, and create those that are missing."""
    folders = [work]
    if any(place.is_dir() for place in _places()):
        with contextlib.suppress(KtrialError):
            folders.append(own_tmpfs())
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folders


class PrivateFolder:
    """The folder of one run, locked so that no other process removes it as a leftover."""

    def __init__(self, work: Path) -> None:
        """Create the folder in `work`. Raise OSError if that fails."""
        work.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _alone_in(work):
            self.path = Path(tempfile.mkdtemp(prefix=_RUN, dir=work))
            self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with contextlib.suppress(OSError):  # network file systems may not support locks on folders
                fcntl.flock(self._held, fcntl.LOCK_SH)

    def remove(self) -> None:
        remove(self.path)
        os.close(self._held)


def remove_leftovers(work: Path) -> None:
    """Remove the private folders of killed runs. The caller must hold the lock of all runs in `work`.

    That lock does not cover folders in memory, which all of the user's measurements share. There, remove only folders
    that no process has locked.
    """
    left = list(work.glob(f"{_RUN}*"))
    for place in (place / _NAME for place in _places()):
        if _is_own(place):
            with _alone_in(place):
                left += [folder for folder in place.glob(f"{_RUN}*") if not _is_held(folder)]
    for folder in left:
        remove(folder)


def _is_own(place: Path) -> bool:
    """Return whether `place` is this user's folder and not a link, which another user could point elsewhere."""
    try:
        status = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


@contextlib.contextmanager
def _alone_in(place: Path) -> Iterator[None]:
    """Keep other processes from creating or removing run folders in `place`."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_held(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # the file system does not support locks on folders, so nobody can hold one
        return False
    finally:
        os.close(descriptor)
    return False


def remove(folder: Path) -> None:
    """Remove `folder`, including parts that the run made unreadable. The next measurement removes the rest, if any."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for place, names, _ in os.walk(folder):
            for name in names:
                if not (Path(place) / name).is_symlink():
                    (Path(place) / name).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
