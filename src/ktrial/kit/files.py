# SPDX-License-Identifier: Apache-2.0
"""Read a file that the user names, up to a size limit."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from ktrial.kit.errors import BadInput, in_lower_case
from ktrial.kit.units import show_bytes


def read_file(path: Path, limit_bytes: int) -> bytes:
    """Return the bytes of a file. Raise BadInput if it is unreadable, not a regular file or larger than the limit."""
    shown = str(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            os.close(descriptor)
            raise BadInput("not a regular file", file=shown, hint="name a file, not a folder, pipe or device")
        with os.fdopen(descriptor, "rb") as file:
            data = b"" if about.st_size > limit_bytes else file.read(limit_bytes + 1)
    except OSError as error:
        is_forbidden = error.errno in {errno.EACCES, errno.EPERM}
        hint = "check the permissions of the file and its folders" if is_forbidden else "check the path"
        raise BadInput(why_unread(error), file=shown, hint=hint) from None
    size = max(about.st_size, len(data))
    if size > limit_bytes:
        raise BadInput(
            f"too large: {show_bytes(size)} (maximum {show_bytes(limit_bytes)})",
            file=shown,
            hint="use a smaller file, for example a part of this one",
        )
    return data


def why_unread(error: OSError) -> str:
    """Return in words why a file cannot be read, such as `no such file`."""
    return "no such file" if error.errno == errno.ENOENT else in_lower_case(error.strerror or str(error))
