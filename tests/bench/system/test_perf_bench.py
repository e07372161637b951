# SPDX-License-Identifier: Apache-2.0
"""How the child of `perf bench sched pipe` is moved, with programs in place of perf and taskset."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import RawOutput
from ktrial.kit.errors import BadRun
from ktrial.machine.facts import FactBook

BENCHMARK = all_benchmarks()["perf-pipe-cross-cpu"]
#: Runs a program, or "moves" a process after a while.
TASKSET = '#!/bin/sh\ncase $1 in -c) shift 2; exec "$@" ;; -pc) sleep 0.3; exit {status} ;; esac\n'


def moved(folder: Path, perf: str, *, status: int = 0) -> tuple[int, str | None]:
    """The script's exit status, and what it says of the move."""
    programs = {"perf": f"#!/bin/sh\n{perf}\n", "taskset": TASKSET.format(status=status)}
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    argv = list(BENCHMARK.invocation({}, FactBook({})).argv)
    argv[2] = argv[2].replace("PATH=", f"PATH={folder}:", 1)
    done = subprocess.run(argv, cwd=folder, capture_output=True, timeout=10, check=False)
    said = folder / "pinned"
    return done.returncode, said.read_text() if said.exists() else None


def test_a_child_that_was_moved(tmp_path: Path) -> None:
    assert moved(tmp_path, "sleep 1.2 & wait") == (0, "0 1\n")


@pytest.mark.parametrize("status", [0, 1])
def test_a_run_that_was_over_sooner(tmp_path: Path, status: int) -> None:
    """Its child is gone, or lies there dead and can still be moved."""
    assert moved(tmp_path, "sleep 0.05 & wait", status=status) == (0, "over\n")
    assert moved(tmp_path, "sleep 0.05 & exec sleep 1.2", status=status) == (0, "over\n")


def test_perf_that_fails_at_once_is_not_waited_for(tmp_path: Path) -> None:
    assert moved(tmp_path, "exit 129") == (129, "over\n")


def test_a_child_that_cannot_be_moved(tmp_path: Path) -> None:
    assert moved(tmp_path, "sleep 1.2 & wait", status=1) == (0, None)


def test_a_run_that_was_over_sooner_is_told_so() -> None:
    with pytest.raises(BadRun, match="ended before its second process moved") as error:
        BENCHMARK.parse(RawOutput(files={"pinned": b"over\n"}, exit_status=0), {})
    assert "loops" in str(error.value.hint)
