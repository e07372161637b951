# SPDX-License-Identifier: Apache-2.0
"""Run records on disk: one file per run, on the disk the moment the run ends; raw output beside them by its SHA-256."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ktrial.domain.errors import Busy, KtrialError
from ktrial.domain.run import Artefact, RunRecord


class RunStore:
    """`FOLDER/SESSION/0001-BENCHMARK.json` and `FOLDER/raw/ab/SHA-256`; implements `services.ports.RunStore`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock: int | None = None

    @property
    def work(self) -> Path:
        """Where private directories of runs are made."""
        return self._folder / "work"

    def lock(self) -> None:
        """Keep other measurements of this user away until `close`; they would disturb each other."""
        self._make(self._folder)
        path = self._folder / "lock"
        with self._writing(path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise Busy(
                "busy", f"another measurement runs (process {owner or 'unknown'})", hint="wait for it, or stop it"
            ) from None
        with self._writing(path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        self._lock = descriptor

    def close(self) -> None:
        """Let others measure."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def begin(self) -> str:
        """The name of a new session; its folder is made."""
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
        self._make(self._folder / name)
        return name

    def folder_of(self, session: str) -> str:
        """The folder with the records of a session."""
        return str(self._folder / session)

    def save(self, record: RunRecord, parts: Mapping[str, bytes]) -> str:
        """Write the raw output, then the record, each atomically and fsynced; the record's path."""
        for data in parts.values():
            name = Artefact.of(data).sha256
            path = self._folder / "raw" / name[:2] / name
            if not path.exists():
                self._put(path, data)
        session = self._folder / record.session.session
        path = session / f"{record.run:04d}-{_plain(record.benchmark)}.json"
        self._put(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
        return str(path)

    def _put(self, path: Path, data: bytes) -> None:
        self._make(path.parent)
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        with self._writing(path):
            try:
                descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(descriptor)
                part.rename(path)
                _sync_folder(path.parent)
            except OSError:
                with contextlib.suppress(OSError):
                    part.unlink(missing_ok=True)
                raise

    def _make(self, folder: Path) -> None:
        """Make a folder and what it lies in, for their owner alone."""
        if folder.is_dir():
            return
        self._make(folder.parent)
        with self._writing(folder):
            folder.mkdir(exist_ok=True, mode=0o700)
            _sync_folder(folder.parent)

    @contextlib.contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise KtrialError(
                f"{path} cannot be written: {error.strerror}",
                hint="runs that were recorded before are kept; free some space, or set XDG_STATE_HOME elsewhere",
            ) from None


def _plain(name: str) -> str:
    return "".join(character if character.isalnum() or character in "-_." else "-" for character in name)[:80]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
