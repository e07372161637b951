# SPDX-License-Identifier: Apache-2.0
"""States of machines and other documents that ktrial saves by name, one file each."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.files import why_unread

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LIMIT_BYTES = 64 << 20


class SavedStates:
    """The documents that are saved as `FOLDER/NAME.json`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(path.stem for path in self._folder.glob("*.json")))

    def has(self, name: str) -> bool:
        return name != "now" and bool(_NAME.fullmatch(name)) and self._path(name).is_file()

    def read(self, name: str) -> tuple[bytes, str]:
        return read_limited(self._path(name)), str(self._path(name))

    def save(self, name: str, data: bytes) -> Path:
        """Save a document, in place of any document of the same name. Raise BadInput for an invalid name."""
        if not _NAME.fullmatch(name) or name == "now":
            raise BadInput(
                f"invalid name {name!r} for a state",
                hint="use letters, digits and . _ - with a letter or digit first; `now` is reserved",
            )
        path = self._path(name)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise KtrialError(
                f"cannot create {self._folder}: {error.strerror}",
                hint=f"make {self._folder.parent} writable, or point XDG_STATE_HOME to another folder",
            ) from None
        write_whole(path, data)
        return path

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def read_limited(path: Path) -> bytes:
    """Return the content of a file. Raise BadInput if it cannot be read, or is too large for a state."""
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT_BYTES + 1)
    except OSError as error:
        hint = "check the path" if isinstance(error, FileNotFoundError) else "name a file that you may read"
        raise BadInput(why_unread(error), file=str(path), hint=hint) from None
    if len(data) > _LIMIT_BYTES:
        raise BadInput(
            f"not a saved state: larger than {_LIMIT_BYTES >> 20} MiB",
            file=str(path),
            hint="use a file that `ktrial state save` wrote",
        )
    return data


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically, and return when its content is on disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise KtrialError(
            f"cannot write {path}: {error.strerror}", hint=f"check the free space and the permissions of {path.parent}"
        ) from None
