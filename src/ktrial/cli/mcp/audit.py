# SPDX-License-Identifier: Apache-2.0
"""The audit log of `ktrial mcp`, `ktrial.audit/1`: each call before ktrial carries it out, and how it ended."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path
from typing import Any

from ktrial.kit import plain_json
from ktrial.kit.errors import KtrialError
from ktrial.machine.ports import Clock

SCHEMA = "ktrial.audit/1"


class AuditLog:
    """A log of JSON lines. ktrial only appends to it, and each line is on disk before anything else happens."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """Open the log. Raise KtrialError if ktrial cannot write to it."""
        self._path = path
        self._clock = clock
        self._session = secrets.token_hex(8)
        self._calls = 0
        self._is_torn = False
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise self._failure(error) from None

    def call(self, tool: str, arguments: Any, client: str | None, *, writes: bool) -> str:
        """Record a call, and return its number."""
        self._calls += 1
        number = f"{self._session}-{self._calls}"
        self._append(number, "call", tool=tool, writes=writes, arguments=arguments, client=client)
        return number

    def outcome(self, number: str, tool: str, outcome: str, *, message: str | None = None) -> None:
        """Record how a call ended."""
        self._append(number, "outcome", tool=tool, outcome=outcome, message=message)

    def close(self) -> None:
        os.close(self._file)

    def _append(self, number: str, event: str, **fields: Any) -> None:
        entry = {"schema": SCHEMA, "call": number, "unix_ms": self._clock.unix_ms(), "event": event, **fields}
        line = ("\n" if self._is_torn else "") + plain_json.line(entry)
        try:
            self._is_torn = os.write(self._file, line.encode()) != len(line.encode())
            if self._is_torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as error:
            raise self._failure(error) from None

    def _failure(self, error: OSError) -> KtrialError:
        return KtrialError(
            f"cannot write {self._path}: {error.strerror}",
            hint=f"free some space, or make {self._path.parent} writable; ktrial does nothing without its audit log",
        )
