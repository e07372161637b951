# SPDX-License-Identifier: Apache-2.0
"""The kernels that were built here: a record in each one's folder, and a list of the folders."""

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
#: Kernels of arms that nobody used for so many days are removed when another one is built.
UNUSED_DAYS = 30
_DAY_S = 24 * 3600


class BuiltKernels:
    """Keeps the list in `folder`: one file for each place that kernels were built in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, made: KernelMade) -> Path:
        """Write the record beside the kernel, and note the place."""
        record = Path(made.folder) / RECORD
        data = msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"
        try:
            _write(record, data)
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(self._folder / f"{hashlib.sha256(made.folder.encode()).hexdigest()[:16]}", made.folder.encode())
        except OSError as error:
            raise KtrialError(f"cannot write {error.filename}: {error.strerror}") from None
        return record

    @staticmethod
    def at(folder: Path) -> KernelMade | None:
        """Return the kernel that was built there, if its image is still the one of the record."""
        with contextlib.suppress(OSError, msgspec.DecodeError):
            made = msgspec.json.decode((folder / RECORD).read_bytes(), type=KernelMade)
            if hashlib.sha256(Path(made.image).read_bytes()).hexdigest() == made.image_sha256:
                return made
        return None

    @staticmethod
    def use(folder: Path) -> None:
        """Note that the kernel that was built there is used now."""
        with contextlib.suppress(OSError):
            os.utime(folder / RECORD)

    @staticmethod
    def unused(used: Path) -> list[Path]:
        """Folders beside that of a kernel which was used just now, of kernels that nobody used for long before."""

        def last_s(folder: Path) -> float:
            for place in (folder / RECORD, folder):
                with contextlib.suppress(OSError):
                    return place.stat().st_mtime
            return math.inf  # another process has taken it away

        latest_s = last_s(used) - UNUSED_DAYS * _DAY_S
        return sorted(one for one in used.parent.glob("built-*") if one.is_dir() and last_s(one) < latest_s)

    def all(self) -> list[KernelMade]:
        """Return those that are still there, the newest first."""
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
