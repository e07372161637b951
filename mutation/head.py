# SPDX-License-Identifier: Apache-2.0
"""Mutants of the head: each is loaded in the place of its module, in a process of its own, and the tests run there.

No file of the checkout is changed. What is large and no part of ktrial is loaded once, before the processes part.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from mutation.errors import CannotRun
from mutation.listed import ROOT, Group
from mutation.mutant import Fate, Mutant
from mutation.operators import mutants, planted

_HEAVY = ("numpy", "scipy.stats", "scipy.optimize", "msgspec", "click", "hypothesis", "sqlalchemy", "duckdb", "alembic")
_OPTIONS = (
    *("-x", "-q", "-c", "pyproject.toml", "-p", "no:cacheprovider", "-p", "no:logging"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # hypothesis is loaded already
)
_MEMORY = 8 << 30
#: A mutant may take this much longer than the code as it is; the machine may be busy.
_TIMES, _MORE_S = 4, 20
_PASSED, _BROKEN = pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED


def all_mutants(group: Group, root: Path = ROOT) -> list[Mutant]:
    """All mutants of the functions that a group names. Raises CannotRun."""
    found = []
    for listed in group.files:
        found += listed.named(mutants(listed.file, (root / listed.file).read_text(encoding="utf-8")))
    return found


class _Planted(SourceFileLoader):
    """Loads a module from a tree instead of its file."""

    tree: ast.Module

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.tree, self.path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    """Finds one module of a source folder with a fault in it."""

    def __init__(self, root: Path, mutant: Mutant) -> None:
        self._path = root / mutant.file
        self._name = mutant.file.removeprefix("src/").removesuffix(".py").replace("/", ".")
        self._tree = planted(mutant.file, self._path.read_text(encoding="utf-8"), mutant)

    def find_spec(self, fullname: str, _path: object, _target: object = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Planted(fullname, str(self._path))
        loader.tree = self._tree
        return importlib.util.spec_from_file_location(fullname, self._path, loader=loader)


@dataclass
class _Process:
    mutant: Mutant
    began: float
    folder: Path


class Head:
    """The mutants of the head, run some at a time."""

    def __init__(self, jobs: int, root: Path = ROOT) -> None:
        self._jobs = jobs
        self._root = root
        os.environ.pop("KTRIAL_FUZZ", None)  # the same inputs for every mutant
        for name in _HEAVY:
            importlib.import_module(name)

    def all_mutants(self, group: Group) -> list[Mutant]:
        """All mutants of the functions that a group names. Raises CannotRun."""
        return all_mutants(group, self._root)

    def seconds(self, tests: Sequence[str]) -> float:
        """How long tests take without a fault. Raises CannotRun where they do not pass."""
        folder = Path(tempfile.mkdtemp(prefix="ktrial-mutation-"))
        began = time.monotonic()
        try:
            pid = self._fork(None, tests, folder)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if status != _PASSED:
                output = (folder / "output").read_text(encoding="utf-8", errors="replace")
                raise CannotRun(f"without any mutant, these end with {status}: {' '.join(tests)}\n{output[-4000:]}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return time.monotonic() - began

    def run(self, group: Group, sample: Sequence[Mutant], deadline: float) -> Iterator[tuple[Mutant, Fate]]:
        """The fate of each mutant, as they come to their ends. After the deadline no more are begun."""
        # All tests once: dict, because a file that is named twice runs twice.
        usual = self.seconds(tuple(dict.fromkeys(test for one in sample for test in group.tests_of(one.file))))
        waiting = list(reversed(sample))
        running: dict[int, _Process] = {}
        while running or (waiting and time.monotonic() < deadline):
            while waiting and len(running) < self._jobs and time.monotonic() < deadline:
                mutant = waiting.pop()
                folder = Path(tempfile.mkdtemp(prefix="ktrial-mutation-"))
                pid = self._fork(mutant, group.tests_of(mutant.file), folder)
                running[pid] = _Process(mutant, time.monotonic(), folder)
            for pid, process in list(running.items()):
                fate = _fate(pid, process, usual * _TIMES + _MORE_S)
                if fate is not None:
                    del running[pid]
                    shutil.rmtree(process.folder, ignore_errors=True)
                    yield process.mutant, fate
            time.sleep(0.02)

    def _fork(self, mutant: Mutant | None, tests: Sequence[str], folder: Path) -> int:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            status = int(_BROKEN)
            try:
                status = _run_tests(self._root, mutant, tests, folder)
            except Exception:  # noqa: BLE001 -- told in the output of the process, which ends here
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        return pid


def _run_tests(root: Path, mutant: Mutant | None, tests: Sequence[str], folder: Path) -> int:
    os.setsid()
    output = os.open(folder / "output", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    os.chdir(root)
    if mutant is not None:
        sys.meta_path.insert(0, _Finder(root, mutant))
    return int(pytest.main([*_OPTIONS, f"--basetemp={folder / 'temporary'}", *tests]))


def _fate(pid: int, process: _Process, limit: float) -> Fate | None:
    """What became of a process; none while it goes on. What it started ends with it."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended == 0 and time.monotonic() - process.began < limit:
        return None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if ended == 0:
        os.waitpid(pid, 0)
        return Fate.TIMED_OUT
    code = os.waitstatus_to_exitcode(status)
    if code in {pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise CannotRun((process.folder / "output").read_text(encoding="utf-8", errors="replace")[-4000:])
    return Fate.SURVIVED if code == _PASSED else Fate.CAUGHT
