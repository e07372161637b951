# SPDX-License-Identifier: Apache-2.0
"""Sessions as runs: recorded beside a benchmark, and recordings that become runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.memory import mounted_tmpfs
from tests.support.watching import instances, knows_threads, watch

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="tracing needs root"),
    pytest.mark.xdist_group("watch"),
]

#: Writes past the page cache, so that the disk is asked.
#: It ends with a moment in which the agent wakes up some times.
WRITER = "sh -c 'dd if=/dev/zero of={} bs=64k count=200 oflag=direct; sleep 0.5'"


def ktrial(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """With a state of its own."""
    homes = {name: str(folder / "home") for name in ("XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    return subprocess.run(
        [sys.executable, "-m", "ktrial", *words],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **homes},
        check=False,
    )


def outcomes(done: subprocess.CompletedProcess[str], file: Path) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [
        {one["outcome"]: one["value"] for one in run["measurements"]} for run in json.loads(file.read_text())["runs"]
    ]


def test_a_program_is_recorded_from_its_begin_to_its_end(tmp_path: Path, disk_path: Path) -> None:
    file = tmp_path / "r.json"
    program = f"program={WRITER.format(disk_path / 'written')}"
    runs = outcomes(ktrial(tmp_path, "bench", "watch", "-p", program, "-n", "2", "-o", str(file)), file)
    assert len(runs) == 2
    for found in runs:
        assert found["written"] >= 200 * 65_536
        assert found["write-latency"] > 0
        assert ("frame-reclaim" in found) == knows_threads()
        assert {"stutter-rate", "late-share", "allocation-stalls", "slow-io"} <= set(found)
    assert instances() == []


def test_a_session_of_the_machine_and_what_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    words = ("-p", "duration_s=4", "-p", "skip_s=1", "-p", "per_phase=yes", "-n", "1", "-o", str(file))
    (found,) = outcomes(ktrial(tmp_path, "bench", "watch", *words), file)
    assert found["late-share"] < 1
    assert not any(name.startswith("steady.") for name in found), "four seconds have no steady state"
    (run,) = json.loads(file.read_text())["runs"]
    assert run["details"]["length_s"] == pytest.approx(4, abs=1.5)
    assert {"files/recording.ktr", "files/phases.json"} <= set(run["raw"])


def test_frames_of_the_loop_are_those_of_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "r.json"
    words = ("-p", "frame_loop=calm", "-p", "duration_s=4", "-p", "limit_ms=5", "-n", "1", "-o", str(file))
    with mounted_tmpfs(tmp_path / "memory", "1m") as memory:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(memory))
        (found,) = outcomes(ktrial(tmp_path, "bench", "watch", *words), file)
    (run,) = json.loads(file.read_text())["runs"]
    assert run["details"]["frames"]["kind"] == "frame"
    assert 200 <= run["details"]["frames"]["count"] < 240
    assert found["stutter-rate"] > 45, "each of 60 frames a second takes more than 5 ms"
    assert ("frame-reclaim" in found) == knows_threads()


def test_frames_that_a_program_tells_are_those_of_the_session(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    draws = "import time\nfor _ in range(40): time.sleep(0.02); print('frame', time.monotonic(), 20)"
    program = f'program={sys.executable} -c "{draws}"'
    pattern = r"pattern=frame (?P<at>\S+) (?P<ms>\d+)"
    words = ("-p", program, "-p", pattern, "-n", "1", "-o", str(file))
    outcomes(ktrial(tmp_path, "bench", "watch", *words), file)
    (run,) = json.loads(file.read_text())["runs"]
    assert run["details"]["frames"] == {"kind": "frame", "count": 40}
    done = ktrial(tmp_path, "bench", "watch", "-p", program, "-p", r"pattern=Bild (?P<at>\S+) (?P<ms>\d+)", "-n", "1")
    assert done.returncode != 0
    assert "matches none of 40 lines" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "words, says",
    [
        (("-p", "frame_loop=wild"), "calm or pressure"),
        (("-p", "frame_loop=[1]"), "calm or pressure"),
        (("-p", "frame_loop=calm", "-p", "program=true"), "cannot combine the parameters frame_loop and program"),
        (("-p", r"pattern=(?P<at>\S+) (?P<ms>\d+)"), "set the parameter program"),
        (("-p", "program=true", "-p", r"pattern=(?P<ms>\d+)"), "no group `at`"),
        (("-p", "frame_loop=calm", "-p", "duration_s=4000"), "3600"),
    ],
)
def test_frames_that_cannot_be_told_are_refused(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = ktrial(tmp_path, "bench", "watch", *words, "-n", "1")
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())


def test_a_program_that_fails_fails_the_run(tmp_path: Path) -> None:
    done = ktrial(tmp_path, "bench", "watch", "-p", "program=false", "-n", "1")
    assert done.returncode != 0
    assert "status 1" in done.stdout + done.stderr
    assert instances() == []


def test_recordings_become_runs_that_are_compared(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        watch(tmp_path / name, "--for", "2s", "--no-trace")
    for label, names in (("stock", ("a", "b")), ("tuned", ("c", "d"))):
        done = ktrial(
            tmp_path,
            *("diagnose", "--runs", str(tmp_path / f"{label}.csv"), *(str(tmp_path / name) for name in names)),
        )
        assert done.returncode == 0, done.stderr
        assert "slow-io: events were not traced (not asked for)" in done.stderr
    done = ktrial(tmp_path, "compare", str(tmp_path / "stock.csv"), str(tmp_path / "tuned.csv"))
    assert done.returncode in {0, 1}, done.stderr
    assert "late-share" in done.stdout
    again = ktrial(tmp_path, "diagnose", "--runs", str(tmp_path / "stock.csv"), str(tmp_path / "a"))
    assert again.returncode == 2
    assert "--force" in again.stderr
