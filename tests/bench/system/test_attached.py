# SPDX-License-Identifier: Apache-2.0
"""Programs run where the user stands, and which files count as captures."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from ktrial.bench.record import Exit
from ktrial.bench.run.foreground import AttachedLauncher, Captures, FreshLog
from ktrial.kit.errors import KtrialError

RUN = """
import sys
from ktrial.bench.run.foreground import AttachedLauncher
ended = AttachedLauncher.run(sys.argv[1:], {"PATH": "/usr/bin:/bin", "GAME": "yes"}, quiet=False)
print(ended.status, ended.signal, flush=True)
"""


RUN_BESIDE_A_THREAD = """
import threading, time
from ktrial.bench.run.foreground import AttachedLauncher
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
for _ in range(200):
    assert AttachedLauncher.run(["/bin/true"], {}, quiet=True).status == 0
"""


def run(script: str, *, quiet: bool = False) -> Exit:
    """In a process without other threads: here, a thread of an earlier test could take the signal that is awaited."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as head:
        return head.submit(AttachedLauncher.run, ["/bin/sh", "-c", script], dict(os.environ), quiet=quiet).result()


def started(script: str) -> subprocess.Popen[str]:
    """Another head that runs the script, which has said that it is there."""
    head = subprocess.Popen(
        [sys.executable, "-c", RUN, "/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert head.stdout is not None
    assert head.stdout.readline() == "ready\n"
    return head


def test_the_exit_status_is_that_of_the_program() -> None:
    assert run("exit 7") == Exit(status=7)
    assert run("kill -9 $$") == Exit(signal=9)


def test_what_cannot_be_started_is_said() -> None:
    with pytest.raises(KtrialError, match="cannot start /no/such: No such file"):
        AttachedLauncher.run(["/no/such"], {}, quiet=False)


def test_it_stands_where_we_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run("pwd; ps -o pgid= -p $$")
    where, group = capfd.readouterr().out.split()
    assert (where, int(group)) == (str(tmp_path), os.getpgrp())
    run("echo loud; exit 0", quiet=True)
    assert capfd.readouterr() == ("", "loud\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT])
def test_signals_are_passed_on(number: signal.Signals) -> None:
    head = started(f"trap 'exit 42' {number.value}; echo ready; while :; do sleep 0.05; done")
    head.send_signal(number)
    out, _ = head.communicate(timeout=10)
    assert (out, head.returncode) == ("42 None\n", 0)


def test_a_program_may_outlive_a_signal() -> None:
    head = started("trap '' TERM; echo ready; sleep 0.5; exit 5")
    head.send_signal(signal.SIGTERM)
    assert head.communicate(timeout=10)[0] == "5 None\n"


def test_signals_are_not_blocked_in_the_program() -> None:
    assert run("kill -TERM $$; sleep 5") == Exit(signal=15)
    blocked = subprocess.run(
        [sys.executable, "-c", RUN, "/bin/grep", "SigBlk", "/proc/self/status"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert blocked.stdout.split()[1] == "0" * 16


def test_a_thread_that_takes_the_signal_of_the_end_does_not_hold_it_up() -> None:
    subprocess.run([sys.executable, "-c", RUN_BESIDE_A_THREAD], check=True, timeout=60)


def test_only_what_is_new_counts(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    home.mkdir()
    (home / "old.csv").write_text("old")
    captures = Captures(work, [home])
    start_ms = time.time_ns() // 1_000_000
    assert captures.found(start_ms) == ()
    (Path(captures.folder) / "game_1.csv").write_text("new")
    (Path(captures.folder) / "game_1_summary.csv").write_text("no")
    (home / "old.csv").write_text("written again, but not new")
    (home / "moved.csv").write_text("moved here")
    os.utime(home / "moved.csv", (1, 1))
    (home / "else_1.csv").write_text("else")
    (home / "link.csv").symlink_to(home / "old.csv")
    os.mkfifo(home / "pipe.csv")
    found = captures.found(start_ms)
    assert sorted((one.name, one.data) for one in found) == [("else_1.csv", b"else"), ("game_1.csv", b"new")]
    assert Path(captures.folder).stat().st_mode & 0o777 == 0o700
    captures.close()
    assert list(work.iterdir()) == []


def test_a_log_counts_when_it_was_written_since(tmp_path: Path) -> None:
    path = tmp_path / "Log.txt"
    path.write_text("old")
    os.utime(path, ns=(time.time_ns(), time.time_ns() - 5_000_000_000))
    log = FreshLog(path)
    start_ms = time.time_ns() // 1_000_000
    assert log.read(start_ms) is None
    path.write_text("new")
    assert log.read(start_ms) == b"new"
    assert FreshLog(tmp_path / "none").read(start_ms) is None
