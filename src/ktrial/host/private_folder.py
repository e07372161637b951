# SPDX-License-Identifier: Apache-2.0
"""Private folders of runs: where they may lie in memory, and how they are taken away."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from ktrial.domain.errors import KtrialError
from ktrial.domain.mounts import MOUNTS, file_system
from ktrial.host.folders import state_folder

_NAME = "ktrial-work"
#: Where root looks besides XDG_RUNTIME_DIR.
ROOTS_OWN = Path("/run")
_OF_USERS = Path("/run/user")


def own_tmpfs() -> Path:
    """The folder on a tmpfs that nobody else may write: below XDG_RUNTIME_DIR, or root's below /run."""
    mounts = Path(MOUNTS).read_text(encoding="utf-8", errors="surrogateescape")
    for place in _places():
        if (
            place.is_dir()
            and place.stat().st_uid == os.geteuid()
            and file_system(str(place.resolve()), mounts) == "tmpfs"
        ):
            return place / _NAME
    raise KtrialError(
        "this benchmark works in memory, and there is no tmpfs of this user's own",
        hint="set XDG_RUNTIME_DIR to a folder of yours on a tmpfs: mkdir -m 700 /dev/shm/NAME",
    )


def private_place(name: str) -> Path:
    """A folder of that name below one of this user's own that goes with the session, or else beside the results."""
    places = (*_places(), _OF_USERS / str(os.geteuid()))
    own = (place for place in places if place.is_dir() and place.stat().st_uid == os.geteuid())
    return next(own, state_folder()) / name


def _places() -> tuple[Path, ...]:
    stated = os.environ.get("XDG_RUNTIME_DIR")
    return (*([Path(stated)] if stated else []), *([ROOTS_OWN] if os.geteuid() == 0 else []))


def work_folders(work: Path) -> list[Path]:
    """Every folder in which private ones are made, made themselves where they are not there yet."""
    folders = [work]
    if any(place.is_dir() for place in _places()):
        with contextlib.suppress(KtrialError):
            folders.append(own_tmpfs())
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folders


def remove_leftovers(work: Path) -> None:
    """Take away the private directories of runs whose head was killed; the caller holds the lock of all runs."""
    for place in (work, *(place / _NAME for place in _places())):
        for folder in place.glob("run-*"):
            remove(folder)


def remove(folder: Path) -> None:
    """Also what the run made unreadable for its own user. What stays is taken away before the next measurement."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for place, names, _ in os.walk(folder):
            for name in names:
                if not (Path(place) / name).is_symlink():
                    (Path(place) / name).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
