# SPDX-License-Identifier: Apache-2.0
"""`ktrial bench` through the real agent, on this machine, with programs that take no time."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ktrial.cli.main import main
from tests.results.system.test_database import mounted
from tests.support.kept import raw, records, work
from tests.support.terminal import KTRIAL, Terminal
from tests.support.tree import FakeRoot, Ran, use_compiled_catalog

SUITE = """name = "short"
summary = "Short."

[[benchmark]]
use = "hackbench-pipe-thread"
parameters = { groups = 1, loops = 20 }

[[benchmark]]
use = "hello"

[load]
share = 0.5
"""
HELLO = """name = "hello"
what = "Says hello."
argv = ["sh", "-c", "echo speed: 12.5; echo $TMPDIR; pwd; umask"]

[[metric]]
name = "speed_mb_per_s"
direction = "higher"
match = "speed: ([0-9.]+)"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for the head."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    use_compiled_catalog(folder)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(list(argv), out, err), out.getvalue(), err.getvalue())


def own(home: Path, kind: str, name: str, text: str) -> None:
    path = home / ".config/ktrial" / kind / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_any_command(home: Path) -> None:
    ran = run("bench", "-n", "3", "--label", "first", "--", "sh", "-c", "pwd; echo $LC_ALL $TZ")
    assert ran.status == 0, ran.err
    assert ran.out.splitlines()[2].split()[:3] == ["sh", "wall*", "3"]
    assert [line.partition(" ")[0] for line in ran.err.splitlines() if line.startswith("[")] == [
        "[1/3]",
        "[2/3]",
        "[3/3]",
    ]
    kept = records(home)
    assert [record["run"] for record in kept] == [1, 2, 3]
    assert {record["session"]["label"] for record in kept} == {"first"}
    assert kept[0]["session"]["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert raw(home, kept[0]["raw"]["stdout"]).decode() == f"{home}\nC UTC\n"
    assert list(work(home).iterdir()) == []


def test_a_command_is_prepared_before_each_run_and_warmed_up(home: Path) -> None:
    prepare = ("--prepare", "sh -c 'echo one two >> prepared; rm -f made'", "--prepare", "touch 'a file'")
    ran = run("bench", "-n", "2", "--warmup", "1", *prepare, "--", "sh", "-c", "test ! -e made && touch made")
    assert ran.status == 0, ran.err
    kept = records(home)
    assert [record["round"] for record in kept] == [0, 1, 2]
    assert [record["steps"] for record in kept] == [
        [["/usr/bin/sh", "-c", "echo one two >> prepared; rm -f made"], ["/usr/bin/touch", "a file"]]
    ] * 3
    assert (home / "prepared").read_text() == "one two\n" * 3
    assert (home / "a file").exists()
    wall = next(line.split() for line in ran.out.splitlines() if " wall* " in line)
    assert wall[2] == "2", "a warm-up counts in no summary"


def test_a_preparation_that_fails_fails_the_run(home: Path) -> None:
    ran = run("bench", "-n", "1", "--prepare", "sh -c 'echo no disk >&2; exit 3'", "--", "touch", "made")
    assert ran.status == 1
    assert records(home)[0]["failure"] == (
        "did not complete: /usr/bin/sh, which must run first, ended with status 3; it said: no disk"
    )
    assert not (home / "made").exists()


def test_a_program_given_by_its_path(home: Path) -> None:
    script = home / "below" / "say"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    assert run("bench", "-n", "1", "--", "below/../below/say").status == 0
    assert records(home)[0]["argv"] == [str(script)]


def test_a_number_that_a_command_prints(home: Path) -> None:
    ran = run("bench", "-n", "2", "--json", "--metric", "p99_ms:lower=p99: ([0-9.]+)", "--", "echo", "p99: 1.5")
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert [event["event"] for event in events] == ["began", "run-began", "run", "run-began", "run", "ended"]
    assert events[-1]["summaries"][0] == {
        "benchmark": "echo",
        "outcome": "p99",
        "unit": "s",
        "direction": "lower",
        "headline": True,
        "n": 2,
        "median": 0.0015,
        "minimum": 0.0015,
        "maximum": 0.0015,
        "cv": 0.0,
    }


def test_peak_memory_is_that_of_the_run_alone(home: Path) -> None:
    big = "x = b'1' * (300 << 20)"
    run("bench", "-n", "1", "--", sys.executable, "-I", "-c", big)
    run("bench", "-n", "1", "--", "true")
    peaks = [record["resources"]["max_rss_bytes"] for record in records(home)]
    assert max(peaks) > 300 << 20
    assert min(peaks) < 50 << 20


def test_a_whole_suite_under_load(home: Path) -> None:
    own(home, "benchmarks", "hello", HELLO)
    own(home, "suites", "short", SUITE)
    ran = run("bench", "short", "-n", "2", "--seed", "7", "-o", "result.json")
    assert ran.status == 0, ran.err
    document = json.loads((home / "result.json").read_text())
    assert (document["schema"], document["wanted"], document["complete"]) == ("ktrial.bench/1", 2, 2)
    assert document["session"]["seed"] == 7
    assert len(document["runs"]) == 4
    for record in document["runs"]:
        outcomes = {measured["outcome"]: measured["value"] for measured in record["measurements"]}
        assert outcomes["load.throughput"] > 0
        assert record["background"]["alive_at_end"]
    hackbench = next(record for record in document["runs"] if record["tool"] == "hackbench-pipe-thread")
    assert hackbench["argv"][0].endswith("/hackbench")
    hello = next(record for record in document["runs"] if record["benchmark"] == "hello")
    assert hello["measurements"][0]["value"] == 12.5e6
    assert hello["directory"].startswith(str(work(home)))
    again = run("bench", "short", "-n", "1", "-o", "result.json")
    assert (again.status, "file exists" in again.err) == (2, True)


def test_a_wrong_own_file_is_named_and_blocks_only_itself(home: Path) -> None:
    own(home, "benchmarks", "hello", HELLO)
    own(home, "benchmarks", "torn", HELLO.replace('"hello"', '"other"').replace("([0-9.]+)", "x"))
    own(home, "suites", "wrong", 'name = "wrong"\nsumary = "x"\n')
    torn, wrong = (f"{home}/.config/ktrial/{name}.toml:" for name in ("benchmarks/torn", "suites/wrong"))
    ran = run("bench", "hello", "-n", "1")
    assert ran.status == 0, ran.err
    assert f"skipped: {torn}" in ran.err
    assert f"skipped: {wrong}" in ran.err
    listed = run("bench", "--list")
    assert (listed.status, "hello" in listed.out, f"skipped: {wrong}" in listed.err) == (0, True, True)
    for asked, path in (("other", torn), ("wrong", wrong)):
        refused = run("bench", asked, "-n", "1")
        assert (refused.status, refused.out, refused.err.count("skipped")) == (2, "", 0)
        assert f"ktrial: {path}" in refused.err


def test_what_is_missing_makes_it_partial(home: Path) -> None:
    own(home, "benchmarks", "hello", HELLO)
    own(home, "benchmarks", "absent", 'name = "absent"\nwhat = "x"\nargv = ["no-such-program"]\n')
    own(home, "suites", "short", SUITE.replace("hackbench-pipe-thread", "absent").replace("groups = 1, loops = 20", ""))
    for label in ("stock", "tuned"):
        ran = run("bench", "short", "-n", "1", "--label", label, "-o", f"{label}.json")
        assert ran.status == 1
        assert "partial 1/2\n  absent: no-such-program is not installed" in ran.err
        assert "hello" in ran.out
    for words in (("stock", "tuned"), ("stock.json", "tuned.json")):
        compared = run("compare", *words)
        assert compared.status == 0, compared.err
        assert re.search(r"^absent +stock, tuned +- +- +not comparable +0\+0", compared.out, re.MULTILINE), compared.out
        assert "absent: not measured in stock and tuned (no-such-program is not installed)" in compared.out


def test_a_command_that_never_ends_is_killed_with_its_children(home: Path) -> None:
    mark = f"77{os.getpid()}"
    away = f"setsid sh -c 'sleep {mark} & setsid sleep {mark}' >/dev/null 2>&1 & setsid sleep {mark} &"
    ran = run("bench", "-n", "1", "--limit", "300ms", "--", "sh", "-c", f"sleep {mark} & {away} sleep {mark}")
    assert ran.status == 1
    assert "exceeded its time limit and was killed" in ran.err
    assert processes(mark) == []
    assert records(home)[0]["exit"]["timed_out"]


def test_too_much_output_fails_the_run_where_numbers_are_read_from_it(home: Path) -> None:
    command = ("--", "head", "-c", "3000000", "/dev/zero")
    ran = run("bench", "-n", "1", "--metric", "x_count:lower=x: ([0-9]+)", *command)
    assert ran.status == 1
    assert "FAILED: printed more than is captured" in ran.err
    ran = run("bench", "-n", "1", *command)
    assert ran.status == 0, ran.err
    assert records(home)[-1]["notes"] == [
        "the command printed more than ktrial captures; only the beginning of its output is stored"
    ]


def processes(mark: str) -> list[str]:
    """Command lines of running processes that hold the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        if mark.encode() in words:
            found.append(str(words))
    return found


def eventually(what: str, seconds: float = 15) -> Any:
    """A generator that is used in a loop until it is left; fails when the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.02)
    pytest.fail(f"never came: {what}")


def test_the_agents_own_load_in_the_background(home: Path) -> None:
    # Long enough for the load to get something done beside it.
    own(home, "benchmarks", "hello", HELLO.replace("echo speed", "sleep 0.5; echo speed"))
    text = 'name = "short"\nsummary = "x"\n[[benchmark]]\nuse = "hello"\n[load]\nuse = "spin"\n'
    own(home, "suites", "short", text)
    ran = run("bench", "short", "-n", "1")
    assert ran.status == 0, ran.err
    (record,) = records(home)
    assert record["measurements"][-1]["outcome"] == "load.throughput"
    assert record["measurements"][-1]["value"] > 0
    assert record["background"]["agent_load"]["name"] == "spin"


@pytest.mark.parametrize(
    "load, number, status, word",
    [
        (False, signal.SIGINT, 130, "interrupted; 2 runs"),
        (True, signal.SIGINT, 130, "interrupted; 2 runs"),
        (True, signal.SIGTERM, 143, "interrupted by SIGTERM; 2 runs"),
        (False, signal.SIGHUP, 129, "interrupted by SIGHUP; 2 runs"),
    ],
)
def test_an_interruption_keeps_the_runs_and_leaves_no_process(
    home: Path, load: bool, number: signal.Signals, status: int, word: str
) -> None:
    mark = f"88{os.getpid()}{int(load)}{int(number)}"
    leave = f"setsid sleep {mark} >/dev/null 2>&1 & exec sleep {mark}"
    script = f"echo begun; [ -e {home}/first ] && {{ {leave}; }}; : > {home}/first"
    own(home, "benchmarks", "hello", f"name = 'hello'\nwhat = 'x'\nargv = ['sh', '-c', '{script}']\n")
    suite = "name = 'short'\nsummary = 'x'\n[[benchmark]]\nuse = 'hello'\n" + ("[load]\n" if load else "")
    own(home, "suites", "short", suite)
    head = subprocess.Popen(
        [sys.executable, "-m", "ktrial", "bench", "short", "-n", "9"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "src")},
    )
    for _ in eventually("the second run"):
        if processes(mark):
            break
    os.killpg(head.pid, number)
    out, err = head.communicate(timeout=30)
    assert head.returncode == status, err
    assert "interrupted after 1 of 9 runs" in err, err
    assert err.splitlines()[-1].startswith(f"ktrial: {word} are saved in "), err
    assert "hello" in out
    first, second = records(home)
    assert (first["failure"], second["exit"]["interrupted"]) == (None, True)
    assert re.fullmatch(r"interrupted after \d+\.\d s", second["failure"])
    assert second["argv"][0].endswith("/sh")
    assert raw(home, second["raw"]["stdout"]) == b"begun\n"
    assert processes(mark) == []
    assert list(work(home).iterdir()) == []


def test_a_closed_window_keeps_the_runs_and_leaves_no_process(home: Path) -> None:
    mark = f"77{os.getpid()}"
    script = f"[ -e {home}/first ] && exec sleep {mark}; : > {home}/first"
    terminal = Terminal([*KTRIAL, "bench", "-n", "9", "-o", f"{home}/result.json", "--", "sh", "-c", script])
    try:
        for _ in eventually("the second run"):
            if processes(mark):
                break
        terminal.close()
        assert terminal.end() == 129
    finally:
        terminal.kill()
    assert [record["failure"] is None for record in records(home)] == [True, False]
    assert json.loads((home / "result.json").read_text())["interrupted"]
    assert processes(mark) == []


def test_an_error_has_a_line_of_its_own(home: Path) -> None:
    """Not the line of the run that it ends."""
    with mounted(home / "small", "size=2m") as folder:
        ran = run("--store", f"{folder}/results.db", "bench", "-n", "40", "--", "head", "-c", "400000", "/dev/urandom")
    assert ran.status == 1
    last, message, _ = ran.err.splitlines()[-3:]
    assert re.fullmatch(r"\[ ?\d+/40\] head.*: discarded", last), ran.err
    assert message.startswith("ktrial: ")
    assert "full" in message


def test_a_killed_head_leaves_no_process(home: Path) -> None:
    mark = f"99{os.getpid()}"
    head = subprocess.Popen(
        [sys.executable, "-m", "ktrial", "bench", "-n", "9", "--", "sleep", mark],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "src")},
    )
    for _ in eventually("the first run"):
        if processes(mark):
            break
    head.kill()
    head.wait()
    for _ in eventually("the end of what it ran"):
        if not processes(mark):
            break
    assert run("bench", "-n", "1", "--", "true").status == 0
    assert list(work(home).iterdir()) == []


@pytest.mark.parametrize(
    "argv, why",
    [
        (("bench",), "nothing to measure"),
        (("bench", "quikc"), "did you mean quick"),
        (("bench", "quick", "--", "true"), "cannot combine a suite with a command"),
        (("bench", "--"), "no command after --"),
        (("bench", "--", "no-such-program"), "no-such-program: no such program"),
        (("bench", "quick", "--metric", "a:lower=(.)"), "after --"),
        (("bench", "quick", "--prepare", "true"), "--prepare requires a command after --"),
        (("bench", "quick", "--warmup", "1"), "--warmup requires a command after --"),
        (("bench", "--prepare", "no-such-program x", "--", "true"), "no-such-program: no such program"),
        (("bench", "--metric", "a=(.)", "--", "true"), "cannot read --metric"),
        (("bench", "-n", "0", "--", "true"), "-n"),
        (("bench", "--limit", "soon", "--", "true"), "not a duration"),
        (("bench", "--cpus", "x", "--", "true"), "expected a list of CPUs"),
        (("bench", "-o", "/no/such/folder/x", "--", "true"), "-o /no/such/folder/x: no folder /no/such/folder"),
    ],
)
def test_bad_usage_is_said_before_anything_runs(home: Path, argv: tuple[str, ...], why: str) -> None:
    ran = run(*argv)
    assert ran.status == 2, ran.err
    assert why in ran.err
    assert records(home) == []


def test_a_cpu_that_is_not_there_is_refused(home: Path) -> None:
    ran = run("bench", "-n", "1", "--cpus", "0-8000", "--", "true")
    assert ran.status == 2
    assert "names CPU" in ran.err
    assert "which is not online" in ran.err
    assert records(home) == []


def test_when_nobody_reads_on_the_measurement_ends_and_is_kept(home: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ktrial", "bench", "-n", "50", "--json", "--", "sleep", "0.1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "src")},
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert any('"event":"run"' in line for line in child.stdout)
        child.stdout.close()
        assert "the reader closed the pipe" in child.stderr.read()
    assert child.returncode == 1
    assert 0 < len(records(home)) < 50


def test_a_wrong_suite_file_is_named(home: Path) -> None:
    own(home, "suites", "short", SUITE.replace('use = "hello"', 'use = "helo"'))
    ran = run("bench", "short")
    assert ran.status == 2
    assert f"{home}/.config/ktrial/suites/short.toml:9:1: unknown benchmark: 'helo'" in ran.err


def test_the_list_says_what_can_run_and_how_to_get_the_rest(root: FakeRoot) -> None:
    root.write("/usr/bin/apt-get", "")
    root.write("/usr/bin/stress-ng", "")
    listed = root.run("bench", "--list", "--json")
    assert listed.status == 0, listed.err
    found = {one["benchmark"]: one for one in listed.json["benchmarks"]}
    assert found["stress-ng-pipe"]["why"] is None
    assert found["hackbench-pipe-thread"]["next"] == "sudo apt install rt-tests"
    text = root.run("bench", "--list").out
    assert "hackbench-socket-process: hackbench is not installed\n  next: sudo apt install rt-tests\n" in text
    assert root.run("bench", "--", "true").status == 4
