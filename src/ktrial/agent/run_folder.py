# SPDX-License-Identifier: Apache-2.0
"""Private folders of runs: where they may lie in memory, and how they are taken away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ktrial.kit.errors import KtrialError
from ktrial.kit.mounts import MOUNTS, file_system
from ktrial.agent.user_folders import state_folder

_NAME = "ktrial-work"
_RUN = "run-"
#: Where root looks besides XDG_RUNTIME_DIR.
ROOTS_OWN = Path("/run")
_OF_USERS = Path("/run/user")


def own_tmpfs() -> Path:
    """The folder on a tmpfs that nobody else may write: below XDG_RUNTIME_DIR, /run/user, or root's below /run."""
    mounts = Path(MOUNTS).read_text(encoding="utf-8", errors="surrogateescape")
    for place in _places():
        if (
            place.is_dir()
            and place.stat().st_uid == os.geteuid()
            and file_system(str(place.resolve()), mounts) == "tmpfs"
        ):
            return place / _NAME
    raise KtrialError(
        "this benchmark needs a private tmpfs, and this user has none",
        hint="set XDG_RUNTIME_DIR to a folder of yours on a tmpfs: mkdir -m 700 /dev/shm/NAME",
    )


def private_place(name: str) -> Path:
    """A folder of that name below one of this user's own that goes with the session, or else beside the results."""
    own = (place for place in _places() if place.is_dir() and place.stat().st_uid == os.geteuid())
    return next(own, state_folder()) / name


def _places() -> tuple[Path, ...]:
    """Where such folders may be. sudo drops XDG_RUNTIME_DIR from the environment: systemd's own place is tried too."""
    stated, user = os.environ.get("XDG_RUNTIME_DIR"), os.geteuid()
    return (*([Path(stated)] if stated else []), *([ROOTS_OWN] if user == 0 else []), _OF_USERS / str(user))


def work_folders(work: Path) -> list[Path]:
    """Return every folder in which private ones are made, made themselves where they are not there yet."""
    folders = [work]
    if any(place.is_dir() for place in _places()):
        with contextlib.suppress(KtrialError):
            folders.append(own_tmpfs())
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folders


class PrivateFolder:
    """The folder of one run. Nobody takes it for a leftover while this process has it, whatever its results' folder."""

    def __init__(self, work: Path) -> None:
        """A fresh one. Raises OSError."""
        work.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _alone_in(work):
            self.path = Path(tempfile.mkdtemp(prefix=_RUN, dir=work))
            self._held = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with contextlib.suppress(OSError):  # a file system of the network may know no locks of folders
                fcntl.flock(self._held, fcntl.LOCK_SH)

    def remove(self) -> None:
        """Take it away with all that is in it."""
        remove(self.path)
        os.close(self._held)


def remove_leftovers(work: Path) -> None:
    """Take away the private directories of runs whose head was killed; the caller holds the lock of all runs there.

    That lock lies with the results. Folders in memory are those of all whose session is the same: there only what
    nobody holds is taken away.
    """
    left = list(work.glob(f"{_RUN}*"))
    for place in (place / _NAME for place in _places()):
        if _is_own(place):
            with _alone_in(place):
                left += [folder for folder in place.glob(f"{_RUN}*") if not _is_held(folder)]
    for folder in left:
        remove(folder)


def _is_own(place: Path) -> bool:
    """Whether it is a folder of this user's, and no link: another user could lead root elsewhere, or let it wait."""
    try:
        status = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


@contextlib.contextmanager
def _alone_in(place: Path) -> Iterator[None]:
    """Others make no folder there and look for none meanwhile."""
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
    except OSError:  # a file system that knows no locks of folders: nobody could hold it
        return False
    finally:
        os.close(descriptor)
    return False


def remove(folder: Path) -> None:
    """Also what the run made unreadable for its own user. What stays is taken away before the next measurement."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for place, names, _ in os.walk(folder):
            for name in names:
                if not (Path(place) / name).is_symlink():
                    (Path(place) / name).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
