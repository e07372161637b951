# SPDX-License-Identifier: Apache-2.0
"""Files that the user's builds write: what is in them, and whether they were written anew."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec


def look(path: str) -> SeenFile | None:
    """None if there is no such file, or it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            about = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    return SeenFile(sha256=digest, written=(about.st_ino, about.st_mtime_ns, about.st_ctime_ns))


class SeenFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was looked at. `written` is another one when it was written or made again since."""

    sha256: str
    written: tuple[int, int, int]
