# SPDX-License-Identifier: Apache-2.0
"""Chooses the folder of a recording, if possible on a disk that the recording does not watch."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ktrial.machine.disks import disks_of

#: World-writable folders for files that persist.
_OTHERS = (Path("/var/tmp"),)


def recording_place(
    usual: Path,
    watched: Iterable[Path] | None,
    others: Sequence[Path] = _OTHERS,
    disks: Callable[[Path], frozenset[str]] = disks_of,
) -> Path:
    """Return `usual`, or a private folder on another disk if the disk of `usual` is watched.

    If no other disk is suitable, or `watched` is None because the watched disks are unknown, return `usual`.
    """
    if watched is None:
        return usual
    busy = frozenset().union(*(disks(path) for path in watched))
    there = next((folder for folder in (usual, *usual.parents) if folder.exists()), usual)
    if not disks(there) & busy:
        return usual
    for other in others:
        quiet = disks(other)
        if quiet and not quiet & busy and (own := _own(other)) is not None:
            return own
    return usual


def paths_of(words: Sequence[str] | None, pid: int | None, proc: Path = Path("/proc")) -> list[Path] | None:
    """Return paths whose disks are watched: swap, and the program with its working folder, or else `/`.

    Return None if the location of swap is unknown.
    """
    if pid is not None:
        found = [proc / str(pid) / "exe", proc / str(pid) / "cwd"]
    elif words:
        found = [Path.cwd(), *(Path(program) for program in [shutil.which(words[0])] if program is not None)]
    else:
        found = [Path("/")]
    try:
        lines = (proc / "swaps").read_text().splitlines()[1:]
    except FileNotFoundError:
        # A kernel without swap has no such file.
        return found if (proc / "self").exists() else None
    except OSError:
        return None
    return [*found, *(Path(_plain(line.split()[0])) for line in lines if line.startswith("/"))]


def _plain(name: str) -> str:
    """Decode a name in /proc/swaps, which writes blanks in octal."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), name)


def _own(folder: Path) -> Path | None:
    """Return a subfolder that only this user can write to; None if there can be none."""
    own = folder / f"ktrial-{os.geteuid()}"
    try:
        own.mkdir(mode=0o700, exist_ok=True)
        found = own.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return own if private else None
