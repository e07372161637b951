# SPDX-License-Identifier: Apache-2.0
"""`ktrial ab` through the real agent, on commands whose numbers are known."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest

from ktrial.cli.main import main
from tests.support.terminal import KTRIAL
from tests.support.tree import Ran, use_compiled_catalog

pytestmark = pytest.mark.usefixtures("machine_alone")
VALUE = ("--metric", "value_ms:lower=^([0-9]+)$")
#: Slow enough to be interrupted.
SLOW = "sh -c 'sleep 0.2; echo 60'"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    use_compiled_catalog(folder)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "KTRIAL_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


def run(*argv: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    return Ran(main(list(argv), out, err), out.getvalue(), err.getvalue())


def test_the_faster_command_is_named_and_its_times_are_exported(home: Path) -> None:
    log = home / "log"
    words = (
        "--setup",
        f"echo begin {{n}} >> {log}",
        "--cleanup",
        f"echo end {{n}} >> {log}",
        "-S",
        "sh",
        "--settle",
        "0s",
    )
    ran = run("ab", *VALUE, "-L", "n", "60,80", *words, "echo {n}", "--export-json", "times.json", "--budget", "7")
    assert ran.status == 0, ran.err
    assert "block 1/7: echo-80 undecided (about +33 %)" in ran.err
    assert "`echo 60` ran 1.33 times as fast as `echo 80` (95 % interval 1.33 to 1.33, 7 blocks)" in ran.out
    assert "echo-80 (3 B) and echo-60 print different output" in ran.out
    results = json.loads((home / "times.json").read_text())["results"]
    assert [(one["command"], len(one["times"])) for one in results] == [("echo 60", 7), ("echo 80", 7)]
    assert [one["parameters"] for one in results] == [{"n": "60"}, {"n": "80"}]
    told = log.read_text().splitlines()
    # Whenever the command changes, the one before it is cleaned up first.
    assert told[0] == "begin 60"
    assert told.count("begin 80") == told.count("end 80") >= 4
    assert [line.replace("begin", "end") for line in told[::2]] == told[1::2]
    (name,) = [line.split()[-1] for line in run("trial", "list").out.splitlines() if line.startswith("20")]
    assert run("trial", "recheck", name).status == 0
    assert "ran 1.33 times as fast" in run("trial", "show", name).out
    assert run("bundle", "all.tar.zst", name).status == 0
    assert run("recheck", "all.tar.zst").status == 0


def test_a_campaign_prints_a_line_and_ends_with_its_last_decision(home: Path) -> None:
    words = ("ab", *VALUE, "--campaign", "tune", "--of", "2", "--budget", "7")
    kept = run(*words, "echo 80", "echo 60")
    assert kept.status == 0, kept.err
    assert kept.out.startswith("keep: `echo 60` ran 1.33 times as fast as `echo 80` (97.5 % interval")
    assert kept.out.endswith("; decision 1 of 2 in campaign tune\n")
    assert kept.out.count("\n") == 1
    assert "doubt: echo-60 (3 B) and echo-80 print different output" in kept.err
    reverted = run(*words, "echo 60", "echo 80", "--json")
    assert reverted.status == 3, reverted.err
    last = json.loads(reverted.out.splitlines()[-1])
    assert last == {
        "event": "decision",
        "decision": {"campaign": "tune", "number": 2, "of": 2, "decision": "revert"},
    }
    refused = run(*words, "echo 60", "echo 80")
    assert (refused.status, refused.out) == (4, "")
    assert "campaign tune has made all its 2 decisions" in refused.err


def test_it_is_resumed_where_it_was_stopped(home: Path) -> None:
    words = [*KTRIAL, "ab", *VALUE, "--campaign", "c", "--of", "1", "--budget", "7", SLOW, SLOW.replace("60", "90")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as head:
        assert head.stderr is not None
        assert head.stdout is not None
        for line in head.stderr:
            if line.startswith("block 2/"):
                head.kill()
        assert head.stdout.read() == ""
    ran = run("trial", "resume")
    assert ran.status == 3, ran.err
    assert "block 2/" not in ran.err
    assert ran.out.startswith("revert: `")
    assert ran.out.endswith("; decision 1 of 1 in campaign c\n")


def test_a_command_that_fails_is_named_with_what_it_said(home: Path) -> None:
    ran = run("ab", "true", "ls /does-not-exist")
    assert ran.status == 1
    assert "warm-up run of ls-does-not-exist: command: ended with status 2; it said:" in ran.err
    assert "cannot access '/does-not-exist'" in ran.err
    ran = run("ab", "true", "no-such-program")
    assert ran.status == 2
    assert "no-such-program: no such program" in ran.err
    ran = run("ab", "-i", "true", "false", "--time", "1ms")
    assert "is not enough for one block" in ran.err
