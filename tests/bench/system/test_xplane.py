# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of X-Plane with a program in its place, which writes its log as public parsers take it apart."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from ktrial.cli.main import main
from tests.support.kept import raw, records
from tests.support.tree import Ran

STAGE = "FRAMERATE TEST: time=30.0, frames={frames}, fps={fps} GPU LOAD: time=30.0, wait=1.0, load=98.0%"
THREE = "\n".join(
    ("Log.txt for X-Plane 12.1.4 (x)", *(STAGE.format(frames=30 * fps, fps=f"{fps}.00") for fps in (40, 50, 60)))
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for the head."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def simulator(home: Path) -> Callable[[str], Path]:
    """Makes the program, which writes this into its log and what it was asked for to stdout."""

    def made(log: str) -> Path:
        program = home / "X-Plane 12" / "X-Plane-x86_64"
        program.parent.mkdir(exist_ok=True)
        (program.parent / "log").write_text(f"{log}\n")
        write = 'cp "${0%/*}/log" "${0%/*}/Log.txt"' if log else ":"
        program.write_text(f'#!/bin/sh\necho "$DISPLAY $*"\n{write}\n')
        program.chmod(0o755)
        return program

    return made


def bench(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(["bench", "-n", "1", *argv], out, err), out.getvalue(), err.getvalue())


def test_the_log_beside_the_program_is_read(home: Path, simulator: Callable[[str], Path]) -> None:
    program = simulator(THREE)
    ran = bench("xplane", "-p", f"program={program}", "-p", "test=33")
    assert ran.status == 0, ran.err
    (record,) = records(home)
    values = {one["outcome"]: one["value"] for one in record["measurements"]}
    assert values == {"fps-panel": 40.0, "fps-no-panel": 50.0, "fps-paused": 60.0}
    assert record["tool_version"] == "12.1.4"
    assert record["argv"][-4:] == [str(program), "--fps_test=33", "--weather_seed=1", "--time_seed=1"]
    assert raw(home, record["raw"]["stdout"]).decode() == ":0 --fps_test=33 --weather_seed=1 --time_seed=1\n"
    assert raw(home, record["raw"]["files/Log.txt"]).decode() == f"{THREE}\n"


def test_an_older_log_is_not_taken(home: Path, simulator: Callable[[str], Path]) -> None:
    program = simulator("")
    program.with_name("Log.txt").write_text(THREE)
    ran = bench("xplane", "-p", f"program={program}")
    assert ran.status == 1
    assert "wrote no Log.txt" in ran.err


def test_a_replay_has_one_stage(home: Path, simulator: Callable[[str], Path]) -> None:
    program = simulator(THREE)
    words = ("xplane-replay", "-p", f"program={program}", "-p", "replay=Output/replays/flight.fdr")
    ran = bench(*words)
    assert ran.status == 1
    assert "expected 1 stages of the frame rate test, got 3" in ran.err
    simulator("\n".join(THREE.splitlines()[:2]))
    ran = bench(*words)
    assert ran.status == 0, ran.err
    record = records(home)[-1]
    assert [(one["outcome"], one["value"]) for one in record["measurements"]] == [("fps", 40.0)]
    assert "--load_smo=Output/replays/flight.fdr" in record["argv"]


def test_without_its_place_it_is_left_out(home: Path) -> None:
    ran = bench("xplane")
    assert ran.status == 1
    assert "the path of X-Plane is not set" in ran.err
    assert "-p 'program=" in ran.err
