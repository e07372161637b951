# SPDX-License-Identifier: Apache-2.0
"""Files that a user names, read whole up to a limit."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ktrial.kit.errors import BadInput


def read_file(path: Path, limit_bytes: int) -> bytes:
    """Return the bytes of a regular file; one that is larger is refused before it is read."""
    shown = str(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            os.close(descriptor)
            raise BadInput("not a file of data", file=shown, hint="name a regular file")
        with os.fdopen(descriptor, "rb") as file:
            data = b"" if about.st_size > limit_bytes else file.read(limit_bytes + 1)
    except OSError as error:
        raise BadInput(why_unread(error), file=shown) from None
    size = max(about.st_size, len(data))
    if size > limit_bytes:
        raise BadInput(
            f"{size} bytes are more than the {limit_bytes} that are read",
            file=shown,
            hint="is it a file of results? cut it into several, or export fewer columns",
        )
    return data


def why_unread(error: OSError) -> str:
    """Return what is wrong with a file that a user named."""
    return "no such file" if error.errno == errno.ENOENT else f"cannot read it: {error.strerror}"
