# SPDX-License-Identifier: Apache-2.0
"""The kernels that were built on this machine: a record in each build folder, and a list of these folders."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from pathlib import Path

import msgspec

from ktrial.kernels.build_record import KernelMade
from ktrial.kit.errors import KtrialError

RECORD = "ktrial-build.json"
#: Days without use after which a new build removes an arm's kernel.
UNUSED_DAYS = 30
_DAY_S = 24 * 3600


class BuiltKernels:
    """The list of built kernels. `folder` holds one file for each build folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, made: KernelMade) -> Path:
        """Write the record into the build folder, add the folder to the list, and return the path of the record."""
        record = Path(made.folder) / RECORD
        data = msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"
        try:
            _write(record, data)
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(self._folder / f"{hashlib.sha256(made.folder.encode()).hexdigest()[:16]}", made.folder.encode())
        except OSError as error:
            place = Path(error.filename or record)
            raise KtrialError(
                f"cannot write {place}: {error.strerror}",
                hint=f"free some space in {place.parent}, or make that folder writable",
            ) from None
        return record

    @staticmethod
    def at(folder: Path) -> KernelMade | None:
        """Return the kernel built in `folder`; None if the record is missing or no longer matches the image."""
        with contextlib.suppress(OSError, msgspec.DecodeError):
            made = msgspec.json.decode((folder / RECORD).read_bytes(), type=KernelMade)
            if hashlib.sha256(Path(made.image).read_bytes()).hexdigest() == made.image_sha256:
                return made
        return None

    @staticmethod
    def use(folder: Path) -> None:
        """Record that the kernel in `folder` is used now."""
        with contextlib.suppress(OSError):
            os.utime(folder / RECORD)

    @staticmethod
    def unused(used: Path) -> list[Path]:
        """Return the build folders beside `used` whose last use was over UNUSED_DAYS days before its last use."""

        def last_s(folder: Path) -> float:
            for place in (folder / RECORD, folder):
                with contextlib.suppress(OSError):
                    return place.stat().st_mtime
            return math.inf  # another process has removed the folder

        latest_s = last_s(used) - UNUSED_DAYS * _DAY_S
        return sorted(one for one in used.parent.glob("built-*") if one.is_dir() and last_s(one) < latest_s)

    def all(self) -> list[KernelMade]:
        """Return the built kernels whose images still exist, newest first."""
        found = []
        for place in self._folder.glob("*"):
            with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
                folder = Path(place.read_bytes().decode())
                made = msgspec.json.decode((folder / RECORD).read_bytes(), type=KernelMade)
                if Path(made.image).is_file():
                    found.append(made)
        return sorted(found, key=lambda made: -made.ended_unix_ms)


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    part.replace(path)
