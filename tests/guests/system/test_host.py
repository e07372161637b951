# SPDX-License-Identifier: Apache-2.0
"""A guest as the host of a command: ktrial's verbs against real kernels, through sessions on the guest's line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktrial.recordings.ktrial import read_recording
from tests.guests.system.kernels import KERNELS, Kernel, fetch, release


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def ktrial(kernel: Kernel, *words: str) -> subprocess.CompletedProcess[str]:
    """The command's result in a guest with this kernel."""
    fetch(kernel)
    argv = [sys.executable, "-m", "ktrial", "--host", f"guest:{kernel.tree}", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=dict(os.environ))


def told(kernel: Kernel, *words: str) -> Any:
    """Its JSON."""
    done = ktrial(kernel, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_facts_and_settings_are_those_of_the_guest(kernel: Kernel) -> None:
    facts = told(kernel, "facts", "kernel.release", "cpu.threads")["facts"]
    assert facts["kernel.release"]["value"] == release(kernel.tree)
    assert facts["cpu.threads"]["value"] == 2
    done = ktrial(kernel, "apply", "vm.swappiness=17", "--yes")
    assert done.returncode == 0, done.stderr
    assert "vm.swappiness" in done.stdout
    assert Path("/proc/sys/vm/swappiness").read_text() != "17\n"


#: A shell with its threads' worth of work, and two streams.
WORK = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo number $$; echo words >&2; exit 3"


def test_a_program_is_watched_in_the_guest(tmp_path: Path) -> None:
    done = ktrial(KERNELS[-1], "watch", "-o", str(tmp_path / "own"), "--json", "--", "sh", "-c", WORK)
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout[done.stdout.rindex('{\n  "event": "ended"') :])
    assert ended["exit_status"] == 3
    # Standard output is for the events; both streams of the program are on the other one.
    assert "\nwords\n" in done.stderr
    (number,) = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("number ")]
    recording = read_recording((tmp_path / "own" / "recording.ktr").read_bytes(), "own")
    assert f"threads.{number}.run" in recording.series
    assert recording.command is not None
    assert recording.command[0].endswith("/sh")
    assert {source.name for source in recording.sources}.isdisjoint({"nvidia"})


def test_what_is_of_this_machine_is_refused_before_a_guest_boots(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    cases = {
        ("--", "not-there-at-all"): "not-there-at-all: no such program",
        ("--frames-from", str(log), "--pattern", r"(?P<ms>\d+)"): "cannot combine --frames-from with --host",
        ("--rate", "nvidia=5"): "reads NVIDIA cards of this machine only",
    }
    for words, why in cases.items():
        done = ktrial(KERNELS[-1], "watch", "-o", str(tmp_path / "own"), *words)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
        assert "host: a guest" not in done.stderr
