# SPDX-License-Identifier: Apache-2.0
"""`ktrial bench` with tools that print nonsense, die, never end or fill the disk: no value, and the reason.

A tool is replaced by a script that is mounted in its place, in a mount namespace of the test's own.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ktrial.bench.adapters
from ktrial.cli.main import main
from tests.support.kept import records
from tests.support.terminal import KTRIAL
from tests.support.tree import Ran

CASES = Path(ktrial.bench.adapters.__file__).parent
FIO = (CASES / "fio/cases/3.33-rand-read/files/out.json").read_bytes()
HACKBENCH = (CASES / "hackbench/cases/2.4-thread-pipe/stdout").read_bytes()
#: The parameters of that recorded run.
SUITE = """name = "short"
summary = "Short."
[[benchmark]]
use = "hackbench-pipe-thread"
parameters = { groups = 2, loops = 400 }
"""
#: Its second metric is wrong.
OWN_METRICS = """name = "own"
what = "x"
argv = ["true"]
[[metric]]
name = "a_s"
direction = "lower"
match = "(.)"
[[metric]]
name = "b_s"
direction = "lower"
  match = "$.a[*]"
"""
MIB = 1 << 20


#: Runs a command and writes its peak memory, with that of all that it has waited for: the head, the agent, the tool.
#: A child's peak begins with the size of the process that started it, so that the tests' own cannot start it.
PEAK = """
import os, resource, sys
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status if status >= 0 else 128 - status)
"""


class Bench:
    """`ktrial bench` in a process, a home and a mount namespace of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.peak_bytes = 0
        self._before: list[str] = []

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def replace(self, tool: str, script: str) -> None:
        """From now on `tool` is this shell script."""
        path = self.write(f"tools/{tool}", f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self.before(f"mount --bind {shlex.quote(str(path))} {shutil.which(tool)}")

    def before(self, command: str) -> None:
        """Something to do in the namespace before ktrial starts."""
        self._before.append(command)

    def run(self, *argv: str, **variables: str) -> Ran:
        script = " && ".join([*self._before, 'exec "$@"'])
        command = ["unshare", "--map-root-user", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "LC_", "LANG"))}
        with (self.folder / "out").open("w+") as out, (self.folder / "err").open("w+") as err:
            started = subprocess.Popen(
                [sys.executable, "-c", PEAK, self.folder / "peak", *command, *KTRIAL, "bench", "-n", "1", *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.home,
                env={**kept, "HOME": str(self.home), "COLUMNS": "1000", **variables},
            )
            status = started.wait()
            out.seek(0)
            err.seek(0)
            self.peak_bytes = int((self.folder / "peak").read_text()) * 1024
            return Ran(status, out.read(), err.read())

    def records(self) -> list[Any]:
        return records(self.home)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def failed(bench: Bench, ran: Ran, why: str) -> None:
    """The run has failed with this reason and without a value, and is kept."""
    assert "Traceback" not in ran.err
    assert ran.status == 1, ran.err
    assert why in ran.err
    (record,) = bench.records()
    assert record["measurements"] == []
    assert why in record["failure"]


@pytest.mark.parametrize(
    "script, why",
    [
        ("kill -9 $$", "was killed by signal 9"),
        ("echo cannot >&2; exit 4", "ended with status 4; it said: cannot"),
        (":", "stdout: not text: it is empty"),
        ("head -c 300 /dev/zero", "text: it is binary"),
        (r"printf '\377\376\372'", "is not UTF-8 text"),
        ("printf '\\033[2Jbroken\\n' >&2; exit 1", "it said: \ufffd[2Jbroken"),
    ],
)
def test_a_tool_that_dies_or_prints_no_text(bench: Bench, script: str, why: str) -> None:
    bench.write("home/.config/ktrial/suites/short.toml", SUITE)
    bench.replace("hackbench", script)
    failed(bench, bench.run("short"), why)


@pytest.mark.parametrize(
    "printed, why",
    [
        (b"Time: 0,246", "stdout:3: ' 0,246' is not a decimal number with a decimal point, as"),
        (b"Time: -0.246", "a finite number of 0 or more"),
        (b"Time: nan", "stdout:3: ' nan' is not a decimal number (the time in seconds)"),
        (b"Time: inf", "a decimal number"),
        (b"Time: 1e99", "a number below 1e30"),
        (b"Time: 999999", "expected 0.001 to 3600 s, got"),
        (b"Time: 0.246\nTime: 0.3", "the only time of the run"),
        (b"", "the line 'Time: …' is missing"),
    ],
)
def test_a_tool_that_prints_no_number(bench: Bench, printed: bytes, why: str) -> None:
    output = bench.write("output", HACKBENCH.replace(b"Time: 0.246", printed))
    bench.write("home/.config/ktrial/suites/short.toml", SUITE)
    bench.replace("hackbench", f"cat {shlex.quote(str(output))}")
    failed(bench, bench.run("short"), why)


@pytest.mark.parametrize(
    "output, why",
    [
        (FIO[: len(FIO) // 2], "complete JSON"),
        (b"", "it is empty"),
        (bytes(range(256)), "it is binary"),
        (FIO.replace(b'"jobs" :', b'"fio version": "x", "jobs" :', 1), "'fio version' is not the only key of"),
        (FIO.replace(b'"bw_bytes" : ', b'"bw_bytes" : NaN, "x" : ', 1), "'NaN' is not a finite number"),
        (FIO.replace(b'"bw_bytes" : ', b'"bw_bytes" : -Infinity, "x" : ', 1), "'-Infinity' is not a finite number"),
        (FIO.replace(b'"bw_bytes" : ', b'"bw_bytes" : 1e999, "x" : ', 1), "'1e999' is not a finite number"),
        (re.sub(rb'"runtime" : (\d)', rb'"runtime" : -\1', FIO, count=1), "is not a whole number (runtime)"),
        (FIO.replace(b'"99.000000" : ', b'"99.000000" : -', 1), "a finite number of 0 or more"),
        (FIO.replace(b'"iops" : ', b'"iops" : 7,', 1), "complete JSON"),
    ],
    ids=["cut", "empty", "binary", "twice", "nan", "infinity", "huge", "negative", "negative-latency", "locale"],
)
def test_a_tool_that_writes_no_json(bench: Bench, output: bytes, why: str) -> None:
    assert output != FIO
    bench.replace("fio", f"cat {shlex.quote(str(bench.write('json', output)))} > out.json")
    failed(bench, bench.run("fio-rand-read"), why)
    assert bench.records()[0]["failure"].startswith("out.json")


def test_an_option_that_this_version_does_not_know(bench: Bench) -> None:
    """The real tools, each with one option more."""
    for tool, name in (("hackbench", "hackbench-pipe-thread"), ("fio", "fio-rand-read"), ("perf", "perf-futex-wake")):
        real = bench.folder / f"real-{tool}"
        shutil.copy(shutil.which(tool) or "", real)
        bench.replace(tool, f'exec {shlex.quote(str(real))} "$@" --no-such-option')
        ran = bench.run(name)
        assert ran.status == 1
        assert "it said: " in ran.err
        assert "option" in ran.err.partition("it said: ")[2].splitlines()[0]
        assert "no-such-option" in ran.err.partition("it said: ")[2].splitlines()[0]


def test_a_tool_that_says_nothing_of_a_wrong_option_by_its_status(bench: Bench) -> None:
    """As cyclictest does: its usage, status 0 and no file."""
    bench.replace("fio", "echo fio: what is --json >&2")
    failed(bench, bench.run("fio-rand-read"), "did not write out.json; it said: fio: what is --json")


def test_a_tool_that_is_there_and_cannot_be_started(bench: Bench) -> None:
    bench.replace("hackbench", "")
    (bench.folder / "tools/hackbench").write_text("#!/no/such/shell\n")
    failed(bench, bench.run("hackbench-pipe-thread"), "its interpreter or loader does not exist")


def test_the_locale_is_pinned(bench: Bench) -> None:
    """Whatever language the user speaks, the tool is told C."""
    bench.write("home/.config/ktrial/suites/short.toml", SUITE)
    output = shlex.quote(str(bench.write("output", HACKBENCH)))
    bench.replace("hackbench", f'cat {output}; [ "$LC_ALL" = C ] && [ -z "$LANG$LANGUAGE$LC_NUMERIC" ]')
    ran = bench.run("short", LC_ALL="de_DE.UTF-8", LANG="de_DE.UTF-8", LC_NUMERIC="de_DE.UTF-8", LANGUAGE="de")
    assert ran.status == 0, ran.err
    (record,) = bench.records()
    assert record["measurements"][0]["value"] == 0.246
    assert record["environment"]["LC_ALL"] == "C"


@pytest.mark.parametrize(
    "script", ["head -c 2147483648 /dev/zero", "yes | head -c 2147483648 >&2"], ids=["zeros", "lines"]
)
def test_two_gigabytes_of_output_take_no_memory(bench: Bench, script: str) -> None:
    metric = ("--metric", "x_count:lower=x: ([0-9]+)")
    failed(bench, bench.run(*metric, "--", "sh", "-c", script), "printed more than is captured")
    peak_bytes = bench.peak_bytes
    assert bench.run("--", "true").status == 0
    assert bench.peak_bytes > 10 * MIB
    assert peak_bytes < bench.peak_bytes + 64 * MIB


def test_a_file_of_two_gigabytes_takes_little_memory(bench: Bench) -> None:
    bench.replace("fio", "truncate -s 2G out.json")
    failed(bench, bench.run("fio-rand-read"), "printed more than is captured")
    assert 10 * MIB < bench.peak_bytes < 300 * MIB


def test_no_space_for_the_file_of_a_load(bench: Bench) -> None:
    disk = bench.folder / "disk"
    disk.mkdir()
    bench.before(f"mount -t tmpfs -o size=16m tmpfs {shlex.quote(str(disk))}")
    bench.write(
        "home/.config/ktrial/suites/full.toml",
        f"""name = "full"
summary = "Files of 64 MiB on a disk of 16."
[[benchmark]]
use = "fio-seq-write"
parameters = {{ folder = "{disk}", size = "64m", seconds = 1, direct = false }}
[[benchmark]]
use = "agent-fileio-write-sequential-warm"
parameters = {{ directory = "{disk}", bytes = {64 * MIB}, duration_s = 1 }}
""",
    )
    ran = bench.run("full")
    assert ran.status == 1
    assert "partial 0/2" in ran.err
    failures = {record["tool"]: record["failure"] for record in bench.records()}
    assert f"on file {disk}/ktrial-fio-data: No space left on device" in failures["fio-seq-write"]
    assert f"cannot fill a file in {disk}: No space left on device" in failures["agent-fileio-write-sequential-warm"]


def test_no_space_for_the_records(bench: Bench) -> None:
    disk = bench.folder / "disk"
    disk.mkdir()
    bench.before(f"mount -t tmpfs -o size=1m tmpfs {disk} && head -c 2m /dev/zero > {disk}/full || true")
    ran = bench.run("--", "true", XDG_STATE_HOME=str(disk))
    assert ran.status == 1
    assert "/ktrial/salt: No space left on device" in ran.err
    assert "next: free some disk space" in ran.err


def test_a_clock_that_steps_backwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour back at every look: orders and durations come from the monotonic clock."""
    looks: list[int] = []

    def stepping() -> int:
        looks.append(0)
        return 1_800_000_000_000_000_000 - len(looks) * 3_600_000_000_000

    monkeypatch.setattr(time, "time_ns", stepping)
    monkeypatch.setattr(time, "time", lambda: stepping() / 1e9)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "-n", "3", "-o", "result.json", "--", "sleep", "0.05"], io.StringIO(), io.StringIO()) == 0
    runs = json.loads((tmp_path / "result.json").read_text())["runs"]
    shown = [record["started_unix_ms"] for record in runs]
    assert shown == sorted(shown, reverse=True)
    assert len(set(shown)) == 3 <= len(looks)
    begun = [record["started_monotonic_ns"] for record in runs]
    assert begun == sorted(begun)
    assert all(0.05 <= record["measurements"][0]["value"] < 30 for record in runs)


@pytest.mark.parametrize(
    "text, line, column, why",
    [
        ('name = "bad"\nsummary = "x"\n[[benchmark]\nuse = "quick"\n', 3, 12, "expected ']]'"),
        ('name = "bad"\nsummary = 3\n', 2, 1, "expected `str`, got `int`"),
        ('name = "bad"\nsummary = "x"\nspeed = 1\n', 3, 1, "speed"),
        ('name = "bad"\nsummary = "x"\n[[benchmark]]\nuse = "fio-seq-reed"\n', 4, 1, "fio-seq-reed"),
        (
            'name = "bad"\nsummary = "x"\n[[benchmark]]\nuse = "agent-spin"\ncpus = "x"\n',
            5,
            1,
            "expected a list of CPUs",
        ),
        (
            'name = "bad"\nsummary = "x"\n[[benchmark]]\nuse = "agent-spin"\n[load]\nshare = 90\n',
            6,
            1,
            "at most 8, got 90",
        ),
    ],
)
def test_a_wrong_suite_file_is_named_with_line_and_column(
    bench: Bench, text: str, line: int, column: int, why: str
) -> None:
    path = bench.write("home/.config/ktrial/suites/bad.toml", text)
    ran = bench.run("bad")
    assert ran.status == 2
    assert f"ktrial: {path}:{line}:{column}: " in ran.err
    assert why in ran.err
    assert bench.records() == []


@pytest.mark.parametrize(
    "text, line, column, why",
    [
        ('name = "own" what\n', 1, 14, "TOML"),
        ('name = "own"\nwhat = "x"\nargv = ["true"]\nlimit_s = 0\n', 4, 1, "finite limit_s above 0 for own, got 0"),
        ('name = "own"\nwhat = "x"\nargv = []\n', 3, 1, "`argv` of own is empty"),
        (
            OWN_METRICS,
            11,
            3,
            "invalid JSON path $.a[*] at character 4",
        ),
    ],
)
def test_a_wrong_file_of_an_own_benchmark_is_named_too(
    bench: Bench, text: str, line: int, column: int, why: str
) -> None:
    path = bench.write("home/.config/ktrial/benchmarks/own.toml", text)
    ran = bench.run("own")
    assert ran.status == 2
    assert f"ktrial: {path}:{line}:{column}: " in ran.err
    assert why in ran.err
