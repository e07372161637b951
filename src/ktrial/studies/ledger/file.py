# SPDX-License-Identifier: Apache-2.0
"""The ledger as a small file beside the store, for commands that are too quick to open the store."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ktrial.kit.errors import KtrialError


class LedgerFile:
    """The ledger in a file; each write replaces the whole file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def path(self) -> Path:
        return self._path

    def of_others(self) -> LedgerFile:
        """Return the file with the verdicts of others, beside this file. No store can recreate these verdicts."""
        return LedgerFile(self._path.with_name(f"{self._path.stem}-elsewhere.json"))

    def read(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise KtrialError(
                f"cannot read {self._path}: {error.strerror}", hint=_hint(error, "make the file readable")
            ) from None

    def write(self, data: bytes) -> None:
        part = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            part.write_bytes(data)
            part.chmod(0o600)
            part.replace(self._path)
        except OSError as error:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise KtrialError(
                f"cannot write {self._path}: {error.strerror}",
                hint=_hint(error, "free some space, or make the folder writable"),
            ) from None


def _hint(error: OSError, usual: str) -> str:
    """Return the next step: the usual one, or another if a folder lies in the file's place."""
    return "move this folder elsewhere" if isinstance(error, IsADirectoryError) else usual
