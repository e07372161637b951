# SPDX-License-Identifier: Apache-2.0
"""Mutants of the head: first in functions that are loaded; those that live on there, in the place of their module.

No file of the checkout is changed. What is large and no part of ktrial is loaded once, before the processes part.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from mutation.errors import CannotRun
from mutation.listed import ROOT, Group
from mutation.loaded import Planter
from mutation.mutant import Fate, Mutant
from mutation.operators import mutants, planted
from mutation.pool import Pool, forked, new_folder, output_in

_HEAVY = ("numpy", "scipy.stats", "scipy.optimize", "msgspec", "click", "hypothesis", "sqlalchemy", "duckdb", "alembic")
_OPTIONS = (
    *("-x", "-q", "-c", "pyproject.toml", "-p", "no:cacheprovider", "-p", "no:logging"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # hypothesis is loaded already
)
#: A mutant may take this much longer than the code as it is; the machine may be busy.
_TIMES, _MORE_S = 4, 20


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

    def run(self, group: Group, sample: Sequence[Mutant], deadline: float) -> Iterator[tuple[Mutant, Fate]]:
        """The fate of each mutant, as they come to their ends. After the deadline no more are begun.

        Raises CannotRun where the tests do not pass without a fault.
        """
        # All tests once: dict, because a file that is named twice runs twice.
        tests = tuple(dict.fromkeys(test for one in sample for test in group.tests_of(one.file)))
        pool = Pool(self._jobs, deadline)
        began, usual_s = time.monotonic(), 0.0
        lived = []
        for mutant, fate in self._in_loaded(sample, tests, pool):
            usual_s = usual_s or time.monotonic() - began  # all tests have run when the first fate comes
            if fate is Fate.SURVIVED:
                lived.append(mutant)
            else:
                yield mutant, fate

        def alone(mutant: Mutant, folder: Path) -> int:
            return _run_tests(self._root, mutant, group.tests_of(mutant.file), folder)

        yield from pool.fates(lived, alone, lambda _: _limit_s(usual_s))

    def _in_loaded(self, sample: Sequence[Mutant], tests: Sequence[str], pool: Pool) -> Iterator[tuple[Mutant, Fate]]:
        """The fates of mutants in functions that are loaded already."""
        folder, (reading, writing) = new_folder(), os.pipe()

        def tell(mutant: Mutant, fate: Fate) -> None:
            os.write(writing, f"{sample.index(mutant)} {fate.value}\n".encode())

        def session() -> int:
            planter = Planter(self._root, sample, pool, _limit_s, tell)
            return _run_tests(self._root, None, tests, folder, planter)

        pid = forked(session, folder)
        os.close(writing)
        try:
            with os.fdopen(reading, encoding="ascii") as fates:
                for line in fates:
                    place, _, fate = line.rstrip().partition(" ")
                    yield sample[int(place)], Fate(fate)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if status:
                named = " ".join(tests)
                raise CannotRun(f"without any mutant, these end with {status}: {named}\n{output_in(folder)}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _limit_s(usual_s: float) -> float:
    return usual_s * _TIMES + _MORE_S


def _run_tests(
    root: Path, mutant: Mutant | None, tests: Sequence[str], folder: Path, planter: Planter | None = None
) -> int:
    os.chdir(root)
    if mutant is not None:
        sys.meta_path.insert(0, _Finder(root, mutant))
    options = [*_OPTIONS, f"--basetemp={folder / 'temporary'}"]
    return int(pytest.main([*options, *tests], plugins=[planter] if planter else []))
