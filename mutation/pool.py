# SPDX-License-Identifier: Apache-2.0
"""A process for each mutant, some at a time; what it started ends with it."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from mutation.errors import CannotRun
from mutation.mutant import Fate, Mutant

_MEMORY = 8 << 30
_PASSED, _BROKEN = pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED


@dataclass
class _Process:
    mutant: Mutant
    began: float
    folder: Path


@dataclass(frozen=True)
class Pool:
    """How many mutants run at a time, and the time after which none is begun."""

    jobs: int
    deadline: float

    def fates(
        self,
        sample: Sequence[Mutant],
        tests: Callable[[Mutant, Path], int],
        limit_s: Callable[[Mutant], float],
    ) -> Iterator[tuple[Mutant, Fate]]:
        """The fate of each mutant, as they come to their ends. `tests` runs in its own process, in a new folder."""
        waiting = list(reversed(sample))
        running: dict[int, _Process] = {}
        while running or (waiting and time.monotonic() < self.deadline):
            while waiting and len(running) < self.jobs and time.monotonic() < self.deadline:
                mutant, folder = waiting.pop(), new_folder()
                pid = forked(lambda mutant=mutant, folder=folder: tests(mutant, folder), folder)  # type: ignore[misc]
                running[pid] = _Process(mutant, time.monotonic(), folder)
            for pid, process in list(running.items()):
                fate = _fate(pid, process, limit_s(process.mutant))
                if fate is not None:
                    del running[pid]
                    shutil.rmtree(process.folder, ignore_errors=True)
                    yield process.mutant, fate
            time.sleep(0.01)


def new_folder() -> Path:
    """A folder for one process."""
    return Path(tempfile.mkdtemp(prefix="ktrial-mutation-"))


def output_in(folder: Path) -> str:
    """The end of what a process printed."""
    return (folder / "output").read_text(encoding="utf-8", errors="replace")[-4000:]


def forked(tests: Callable[[], int], folder: Path) -> int:
    """The number of a process that runs tests and ends with their status."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = int(_BROKEN)
        try:
            _part(folder)
            status = tests()
        except Exception:  # noqa: BLE001 -- told in the output of the process, which ends here
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return pid


def _part(folder: Path) -> None:
    os.setsid()
    output = os.open(folder / "output", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


def _fate(pid: int, process: _Process, limit_s: float) -> Fate | None:
    """What became of a process; none while it goes on."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended == 0 and time.monotonic() - process.began < limit_s:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if ended == 0:
        os.waitpid(pid, 0)
        return Fate.TIMED_OUT
    code = os.waitstatus_to_exitcode(status)
    if code in {pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise CannotRun(output_in(process.folder))
    return Fate.SURVIVED if code == _PASSED else Fate.CAUGHT
