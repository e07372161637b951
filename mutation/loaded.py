# SPDX-License-Identifier: Apache-2.0
"""Plants faults in functions that are loaded: tests are collected once, and a process for each mutant parts from there.

It runs the tests that call the function, the fastest first. What was computed from a function while modules were
imported stays as it was: what lives on here is not yet a survivor.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import shutil
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, FunctionType
from typing import NamedTuple

import pytest

from mutation.mutant import Fate, Mutant
from mutation.operators import function_in, planted
from mutation.pool import Pool, forked, new_folder, output_in


class _Measured(NamedTuple):
    """How long a test takes, and the functions that it calls: file and qualified name."""

    test: pytest.Item
    seconds: float
    called: list[tuple[str, str]]


class Planter:
    """A plug-in of pytest: it runs all tests as they are, and then those that call what a mutant changes.

    `tell` is given the fate of each mutant. Where a test fails without a fault, none is planted.
    """

    def __init__(
        self,
        root: Path,
        sample: Sequence[Mutant],
        pool: Pool,
        limit_s: Callable[[float], float],
        tell: Callable[[Mutant, Fate], None],
    ) -> None:
        self._root = root
        self._sample = sample
        self._pool = pool
        self._limit_s = limit_s
        self._tell = tell
        self._has_failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._has_failed |= report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        of_function: dict[tuple[str, str], list[_Measured]] = defaultdict(list)
        for measured in sorted(self._measure(session), key=lambda one: one.seconds):
            for name in measured.called:
                of_function[name].append(measured)

        def concerned(mutant: Mutant) -> list[_Measured]:
            return of_function[str(self._root / mutant.file), mutant.function]

        def limit_s(mutant: Mutant) -> float:
            return self._limit_s(sum(one.seconds for one in concerned(mutant)))

        def tests(mutant: Mutant, _folder: Path) -> int:
            return self._run(mutant, [one.test for one in concerned(mutant)])

        if session.testsfailed == 0:
            for mutant, fate in self._pool.fates(self._sample, tests, limit_s):
                self._tell(mutant, fate)
        return True

    def _measure(self, session: pytest.Session) -> list[_Measured]:
        """Runs all tests in another process; where one fails, the session has failed."""
        folder = new_folder()
        files = {str(self._root / one.file) for one in self._sample}

        def measure() -> int:
            found = [(time.monotonic(), sorted(_calls(test, then, files))) for test, then in _in_turn(session.items)]
            ends = [*(began for began, _ in found[1:]), time.monotonic()]
            rows = [(end - began, called) for end, (began, called) in zip(ends, found, strict=True)]
            (folder / "measured").write_text(json.dumps(rows), encoding="utf-8")
            return int(self._has_failed)

        status = os.waitstatus_to_exitcode(os.waitpid(forked(measure, folder), 0)[1])
        session.testsfailed = int(status != 0)
        try:
            if status:
                print(output_in(folder))
                return []
            rows = json.loads((folder / "measured").read_text(encoding="utf-8"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return [
            _Measured(test, seconds, [(file, name) for file, name in called])
            for test, (seconds, called) in zip(session.items, rows, strict=True)
        ]

    def _run(self, mutant: Mutant, tests: Sequence[pytest.Item]) -> int:
        try:
            _put_in_place(self._root / mutant.file, mutant)
        except (NameError, ValueError):  # it needs its class, as `super` does
            return int(pytest.ExitCode.OK)
        for test, then in _in_turn(tests):
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=then)
            if self._has_failed:
                return int(pytest.ExitCode.TESTS_FAILED)
        return int(pytest.ExitCode.OK)


def _in_turn(tests: Sequence[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each test, and the one that follows it."""
    return zip(tests, [*tests[1:], None], strict=True)


def _calls(test: pytest.Item, then: pytest.Item | None, files: set[str]) -> set[tuple[str, str]]:
    """Runs a test; the functions of some files that it called."""
    called = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename in files:
            called.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        test.config.hook.pytest_runtest_protocol(item=test, nextitem=then)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return called


def _put_in_place(path: Path, mutant: Mutant) -> None:
    """Gives the loaded functions of a mutant's name its code and its defaults."""
    tree = planted(mutant.file, path.read_text(encoding="utf-8"), mutant)
    function = function_in(tree, mutant.function)
    function.decorator_list = []
    futures = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    code = compile(ast.Module([*futures, function], []), str(path), "exec", dont_inherit=True)
    gc.unfreeze()  # what is frozen is not listed
    for loaded in [one for one in gc.get_objects() if isinstance(one, FunctionType)]:
        if (loaded.__code__.co_filename, loaded.__code__.co_qualname) == (str(path), mutant.function):
            scope = dict(loaded.__globals__)
            exec(code, scope)  # noqa: S102 -- a function of this checkout
            new = scope[function.name]
            loaded.__code__, loaded.__defaults__ = new.__code__, new.__defaults__
            loaded.__kwdefaults__ = new.__kwdefaults__
