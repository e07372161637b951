# SPDX-License-Identifier: Apache-2.0
"""A machine watched by an agent, what it hands over kept in a file as it comes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ktrial.domain.errors import AgentError, BadInput
from ktrial.domain.watching import Ended, Seen
from ktrial.domain.wire import read_bytes
from ktrial.host.agent import AgentSession, Progress
from ktrial.host.interrupts import Interrupts


class Watching:
    """Implements `services.ports.Watching`: one look at a machine, kept in `file`."""

    def __init__(self, session: AgentSession, interrupts: Interrupts, file: Path) -> None:
        self._session = session
        self._interrupts = interrupts
        self._file = file

    def watch(self, fields: dict[str, Any], begun: Callable[[], None]) -> Iterator[Seen | Ended]:
        """Begin, call `begun`, and tell what is seen; a Ctrl-C ends it in order. Raises AgentError, BadInput."""
        file = self._file
        descriptor = _new_file(file)
        try:
            self._session.send("watch", **fields)
            self._session.receive_begun("watch")
            begun()
            yield from self._lines(descriptor, file)
        finally:
            os.close(descriptor)

    def _lines(self, descriptor: int, file: Path) -> Iterator[Seen | Ended]:
        interrupted = False
        while True:
            try:
                self._session.wait(self._interrupts)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                self._session.hang_up()
            line = self._session.receive_next("watch")
            if not isinstance(line, Progress):
                yield msgspec.structs.replace(_typed(line, Ended), interrupted=interrupted)
                return
            if line.chunk is not None:
                _write(descriptor, read_bytes(line.chunk), file)
            if line.seen is not None:
                yield _typed(line.seen, Seen)


def _new_file(file: Path) -> int:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        raise BadInput(f"{file} exists", hint="give another folder with -o") from None
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}") from None


def _write(descriptor: int, data: bytes, file: Path) -> None:
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError as error:
        raise AgentError(
            "io",
            f"{file} cannot be written: {error.strerror}",
            hint="what was written before can be read: `ktrial diagnose` takes it up to the cut",
        ) from None


def _typed(found: dict[str, Any], shape: type[Any]) -> Any:
    try:
        return msgspec.convert(found, shape)
    except msgspec.ValidationError as error:
        raise AgentError("lost", f"what the agent tells is not as agreed: {error}") from None
