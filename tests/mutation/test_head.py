# SPDX-License-Identifier: Apache-2.0
"""Mutants of the head, in a project of its own: caught, survived, timed out, not run; and tests that do not pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mutation.listed import ROOT

RUN = """
import sys, time
from pathlib import Path
from mutation import head
from mutation.errors import CannotRun
from mutation.listed import Group, Listed
head._TIMES, head._MORE_S = 2, 2
head._HEAVY = ()  # the tests of this project need none of it
group = Group("g", "head", 90, (Listed("src/tiny/count.py", ("steps", "most")),), (sys.argv[2],))
side = head.Head(2, Path(sys.argv[1]))
try:
    for mutant, fate in side.run(group, side.all_mutants(group), time.monotonic() + float(sys.argv[3])):
        print(fate.value, mutant.what)
except CannotRun as error:
    print(error)
"""
SOURCE = """
def steps(left):
    found = 0
    while left > 0:
        left -= 2
        found += 1
    return found


def most(times=2):
    return 3 * times


MOST = most()


def other():
    return 7
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\naddopts = ["--import-mode=importlib"]\n',
        "src/tiny/__init__.py": "",
        "src/tiny/count.py": SOURCE,
        "tests/test_good.py": "from tiny.count import MOST, steps\ndef test_one(): assert steps(3) == 2\n"
        "def test_two(): assert MOST == 6\n",
        "tests/test_bad.py": "from tiny.count import steps\ndef test_one(): assert steps(3) == 9\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run(project: Path, test: str, seconds: float = 600) -> list[str]:
    """In a process of its own, because this one has threads; what it prints."""
    command = [sys.executable, "-B", "-c", RUN, str(project), test, str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_each_mutant_has_its_fate_and_no_source_changes(project: Path) -> None:
    assert run(project, "tests/test_good.py") == [
        "caught `0`: becomes 1",
        "caught `0`: becomes 1 (2)",
        "caught `1`: becomes 2",
        "caught `2`: becomes 3",
        "caught `2`: becomes 3",
        "caught `3 * times`: * becomes /",
        "caught `3`: becomes 4",
        "caught `found += 1`: deleted",
        "caught `return 3 * times`: returns None",
        "caught `return found`: returns None",
        "survived `left > 0`: > becomes >=",
        "timed out `left -= 2`: deleted",
    ]
    assert (project / "src/tiny/count.py").read_text(encoding="utf-8") == SOURCE


def test_after_the_deadline_none_is_begun(project: Path) -> None:
    assert run(project, "tests/test_good.py", 0) == []


@pytest.mark.parametrize(
    "test, status", [("tests/test_bad.py", 1), ("tests/test_absent.py", 4)], ids=["failing", "missing"]
)
def test_tests_that_do_not_pass_without_a_fault_are_named(project: Path, test: str, status: int) -> None:
    assert f"without any mutant, these end with {status}: {test}" in run(project, test)
