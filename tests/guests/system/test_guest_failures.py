# SPDX-License-Identifier: Apache-2.0
"""Guests that fail: what `ktrial kernel boot` says and its exit status. A script stands in for QEMU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support import kernels

#: Finds the files of its two serial ports as QEMU would, then does what the case says.
EMULATOR = """#!/bin/sh
if [ "$1" = --version ]; then echo 'QEMU emulator version 7.2.22'; exit; fi
for word; do case $word in *id=console*) console=${{word##*path=}};; *id=line*) line=${{word##*path=}};; esac; done
{what}
"""
BEGUN = {
    "release": "6.12.7-test",
    "version": "#3",
    "architecture": "x86_64",
    "command_line": "quiet",
    "uptime_s": 1.5,
    "cpus": 1,
    "memory_bytes": 1 << 30,
    "unloaded": [],
}


def frame(kind: str, content: str) -> str:
    """A frame as words of `printf`."""
    length = "".join(f"\\{byte:03o}" for byte in len(content).to_bytes(4, "big"))
    return f"printf '{kind}{length}' >> $line; printf '%s' '{content}' >> $line"


BEGIN = frame("B", json.dumps(BEGUN))


@pytest.fixture
def boot(tmp_path: Path) -> Any:
    """Boots a small image with a stand-in that does `what`."""
    (tmp_path / "bzImage").write_bytes(kernels.image())

    def run(what: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        emulator = tmp_path / "bin" / "qemu-system-x86_64"
        emulator.parent.mkdir(exist_ok=True)
        emulator.write_text(EMULATOR.format(what=what))
        emulator.chmod(0o755)
        command = [sys.executable, "-m", "ktrial", "kernel", "boot", str(tmp_path / "bzImage"), "--mode", "emulated"]
        environment = {**os.environ, "PATH": f"{emulator.parent}:/usr/bin:/bin", "TMPDIR": str(tmp_path)}
        return subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=False, env=environment, timeout=60
        )

    return run


@pytest.mark.parametrize(
    "what, status, told",
    [
        ("printf 'x\\n[ 1.0] Kernel panic - not syncing: no root\\n' > $console", 125, "the kernel panicked: no root"),
        ("sleep 50", 124, "limit of 2 s passed before the guest's first process ran"),
        (f"{BEGIN}; echo late > $console; sleep 50", 124, "limit of 2 s passed while the guest ran its program"),
        (f"{BEGIN}; exec cat /dev/zero > $console", 125, "wrote more than 16 MiB to its console"),
        (BEGIN, 125, "the guest ended without reporting the result of its program"),
        ("echo hello > $console", 125, "the guest ended before its first process ran"),
        (f"{BEGIN}; echo nonsense >> $line; sleep 50", 125, "expected a message from the agent, got b'nonsense"),
        (frame("B", "{}"), 125, "cannot read a message from the guest"),
        ("echo 'no such machine' >&2; exit 1", 1, "QEMU 7.2.22 ended with status 1: no such machine"),
    ],
    ids=["panic", "never answers", "hangs", "floods", "dies", "dies early", "writes", "other frames", "QEMU fails"],
)
def test_what_became_of_a_guest_is_told(boot: Any, tmp_path: Path, what: str, status: int, told: str) -> None:
    begin = time.monotonic()
    done = boot(what, "--limit", "2s")
    assert told in done.stderr
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert time.monotonic() - begin < 40
    assert not list(tmp_path.glob("ktrial-guest-*"))


def test_the_console_s_last_lines_are_shown(boot: Any) -> None:
    done = boot("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do echo line-$i >> $console; done")
    assert "\n  line-14\n" in done.stderr
    assert "line-2\n" not in done.stderr


def test_streams_and_status_are_the_program_s(boot: Any) -> None:
    what = "; ".join([BEGIN, frame("o", "out"), frame("e", "err"), frame("x", '{"status": 7}'), frame("z", "{}")])
    done = boot(what, "--", "true")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out", "err")
    told = json.loads(boot(what, "--json", "--", "true").stdout)
    assert (told["schema"], told["exit_status"], told["stdout"], told["stderr"]) == ("ktrial.guest/1", 7, "out", "err")
    assert told["guest"]["release"] == "6.12.7-test"


def test_an_exact_guest_that_is_not_is_an_error(boot: Any, tmp_path: Path) -> None:
    end = [frame("x", '{"status": 0}'), frame("z", "{}")]
    done = boot("; ".join([BEGIN, "echo same > $console; echo $$ >> $console", *end]), "--mode", "exact")
    assert done.returncode == 125
    assert "three runs of the same exact guest differ: line 2 of the console is '" in done.stderr
    done = boot("; ".join([BEGIN, "echo same > $console", *end]), "--mode", "exact")
    assert done.returncode == 0
    assert "two runs are identical to the last byte: SHA-256 " in done.stderr
    assert "of three runs" not in done.stderr
    once = f"if mkdir {tmp_path}/once; then echo odd >> $console; fi 2>&-"
    done = boot("; ".join([BEGIN, "echo same > $console", once, *end]), "--mode", "exact")
    assert done.returncode == 0
    assert "one of three runs differed from the other two: line 2 of the console is " in done.stderr
    assert "two runs are identical to the last byte: SHA-256 " in done.stderr
    assert "Time in this guest counts instructions" in done.stderr


@pytest.mark.parametrize("mode", ["emulated", "exact"])
def test_ctrl_c_ends_the_guest_and_leaves_nothing(boot: Any, tmp_path: Path, mode: str) -> None:
    boot("exit 9")
    emulator = tmp_path / "bin" / "qemu-system-x86_64"
    emulator.write_text(EMULATOR.format(what=f"touch {tmp_path}/up.$$; exec sleep 50"))
    command = [sys.executable, "-m", "ktrial", "kernel", "boot", str(tmp_path / "bzImage"), "--mode", mode]
    environment = {**os.environ, "PATH": f"{emulator.parent}:/usr/bin:/bin", "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while len(list(tmp_path.glob("up.*"))) < (2 if mode == "exact" else 1):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert not list(tmp_path.glob("ktrial-guest-*"))
    for mark in tmp_path.glob("up.*"):
        assert not Path(f"/proc/{mark.suffix[1:]}").exists()


def test_what_cannot_be_asked_for(boot: Any) -> None:
    for arguments, told in (
        (["--memory", "1MiB"], "a guest needs at least 64 MiB"),
        (["--memory", "lots"], "'lots' is not a number"),
        (["--mode", "exact", "--cpus", "2"], "an exact guest has one CPU"),
        (["--", "no-such-program"], "cannot find program 'no-such-program' in PATH"),
        (["--limit", "never"], "--limit never: not a duration"),
    ):
        done = boot("exit 9", *arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert told in done.stderr
