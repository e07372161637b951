# SPDX-License-Identifier: Apache-2.0
"""Files that the user's builds write: their digests, and whether a build has replaced them since."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec


def look(path: str) -> SeenFile | None:
    """Return the present state of a file; None if it is missing or unreadable."""
    try:
        with Path(path).open("rb") as file:
            about = os.fstat(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
    return SeenFile(sha256=digest, written=(about.st_ino, about.st_mtime_ns, about.st_ctime_ns))


class SeenFile(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a file; `written` changes whenever the file is written or replaced."""

    sha256: str
    written: tuple[int, int, int]
