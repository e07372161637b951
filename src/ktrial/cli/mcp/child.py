# SPDX-License-Identifier: Apache-2.0
"""Runs one command of ktrial for a tool: no shell, no terminal, an empty working folder, and bounded output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.abc
import msgspec

from ktrial.kit.errors import KtrialError

#: Bytes that a command may write before it is stopped, and how many of them are examined.
_MOST_BYTES = 16 << 20
_MOST_SAID = 16 << 10
#: How long a command may take, after it was interrupted, to restore everything.
_PATIENCE_S = 120.0
#: Number of short commands that run at the same time; others wait.
_MOST_AT_ONCE = 4
_HIDDEN = frozenset(("COLUMNS", "LINES", "PAGER", "KTRIAL_PASSWORD_FD"))

LineListener = Callable[[bytes], Awaitable[None]]


async def _no_listener(_: bytes) -> None: ...


class CommandAnswer(NamedTuple):
    """What a command wrote, and its exit status."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON document that the command wrote; None if it wrote none."""
        try:
            return msgspec.json.decode(self.out)
        except msgspec.DecodeError:
            return None


class Commands:
    """Starts commands with the options that the operator gave to `ktrial mcp`, in an empty `folder`."""

    def __init__(self, options: Sequence[str], folder: Path) -> None:
        self._program = (sys.executable, "-P", "-m", "ktrial", *options)
        self.folder = folder
        self._few = anyio.Semaphore(_MOST_AT_ONCE)

    async def run(
        self, words: Sequence[str], *, limit_s: float | None, heard: LineListener = _no_listener
    ) -> CommandAnswer:
        """Run a command to its end; `heard` gets each line of its output. A cancellation interrupts the command.

        Raise KtrialError if it takes too long or writes too much.
        """
        if limit_s is None:
            return await self._run(words, None, heard)
        async with self._few:
            return await self._run(words, limit_s, heard)

    async def _run(self, words: Sequence[str], limit_s: float | None, heard: LineListener) -> CommandAnswer:
        environment = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
        process = await anyio.open_process(
            [*self._program, *words],
            stdin=subprocess.DEVNULL,
            cwd=self.folder,
            env={**environment, "COLUMNS": "100", "NO_COLOR": "1"},
            start_new_session=True,  # without a terminal the command cannot prompt the operator
        )
        out, err = _WrittenLines(heard, keeps=limit_s is not None), _SpokenEnd()
        try:
            with anyio.fail_after(limit_s):
                async with anyio.create_task_group() as group:
                    group.start_soon(_read, process.stdout, out)
                    group.start_soon(_read, process.stderr, err)
                if out.is_full:
                    await _stop(process)
                await process.wait()
        except TimeoutError:
            await _stop(process)
            raise KtrialError(
                f"ktrial stopped the command after {limit_s:g} s", hint="call the tool again, or ask for less"
            ) from None
        except BaseException:
            await _stop(process)
            raise
        if out.is_full:
            raise KtrialError("ktrial stopped the command because its answer is too long", hint="ask for less")
        return CommandAnswer(process.returncode or 0, bytes(out.data).decode(errors="replace"), err.text)


class _WrittenLines:
    """The lines that a command writes, up to a limit.

    Unless `keeps` is set, lines given to a listener are not stored.
    """

    def __init__(self, heard: LineListener, *, keeps: bool) -> None:
        self.data = bytearray()
        self._heard = heard
        self._keeps = keeps
        self._begun = 0

    @property
    def is_full(self) -> bool:
        return len(self.data) > _MOST_BYTES

    async def take(self, part: bytes) -> bool:
        self.data += part
        while (end := self.data.find(b"\n", self._begun)) >= 0:
            await self._heard(bytes(self.data[self._begun : end]))
            self._begun = end + 1
        if not self._keeps:
            del self.data[: self._begun]
            self._begun = 0
        return not self.is_full


class _SpokenEnd:
    """The end of what a command writes to stderr."""

    def __init__(self) -> None:
        self._data = b""

    @property
    def text(self) -> str:
        return self._data.decode(errors="replace")

    async def take(self, part: bytes) -> bool:
        self._data = (self._data + part)[-_MOST_SAID:]
        return True


async def _read(stream: anyio.abc.ByteReceiveStream | None, into: _WrittenLines | _SpokenEnd) -> None:
    assert stream is not None
    async for part in stream:
        if not await into.take(part):
            return


async def _stop(process: anyio.abc.Process) -> None:
    """Interrupt a command like Ctrl-C, so that it restores everything, and wait for its end."""
    with anyio.CancelScope(shield=True):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if process.returncode is None:
                process.send_signal(number)
            with anyio.move_on_after(_PATIENCE_S):
                async with anyio.create_task_group() as group:
                    group.start_soon(_read, process.stdout, _WrittenLines(_no_listener, keeps=False))
                    group.start_soon(_read, process.stderr, _SpokenEnd())
                await process.wait()
                return
