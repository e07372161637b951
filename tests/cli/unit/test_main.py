# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ktrial.cli.main import Verbs, cli, main

KTRIAL = [sys.executable, "-I", "-m", "ktrial"]


def run(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(argv, out, err), out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    "argv, status, error, hint",
    [
        (("plan", "vm.swapiness=1", "--json"), 2, "unknown knob: 'vm.swapiness'", "did you mean vm.swappiness?"),
        (("plan", "--json", "--nope"), 2, "No such option '--nope'.", "ktrial plan --help"),
        (("statsu", "--json"), 2, "unknown command: 'statsu'", "did you mean status?"),
        (("review", "/none", "--json"), 2, "/none: no such file", "check the path"),
        (("runs", "--json", "--store", "x.db"), 2, "--store must come before runs", "ktrial --store … runs …"),
    ],
)
def test_an_error_is_json_where_the_answer_would_be(
    argv: tuple[str, ...], status: int, error: str, hint: str | None
) -> None:
    ended, out, err = run(*argv)
    assert json.loads(out) == {"schema": "ktrial.error/1", "error": error, "status": status, "next": hint}
    assert (ended, error in err) == (status, True)
    assert run(*(word for word in argv if word != "--json"))[1] == ""


def test_an_error_of_the_system_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/var/lib/x")

    monkeypatch.setattr("ktrial.cli.main.cli.main", fail)
    ended, out, err = run("runs", "--json")
    assert (ended, json.loads(out)["error"]) == (1, "/var/lib/x: Permission denied")
    assert err == "ktrial: /var/lib/x: Permission denied\n"


def test_a_word_after_two_hyphens_asks_for_no_json(tmp_path: Path) -> None:
    assert run("with", "vm.swapiness=1", "--", "true", "--json")[:2] == (2, "")


@pytest.mark.parametrize(
    "argv, status, words",
    [
        (("plan",), 2, "no profile or setting given"),
        (("plan", "vm.swappiness="), 2, "has no value"),
        (("plan", "=1"), 2, "is not a knob's name"),
        (("plan", ""), 2, "unknown profile: ''"),
        (("plan", "./nofile.toml"), 2, "nofile.toml: no such file"),
        (("plan", "vm.swappiness"), 2, "write vm.swappiness=VALUE"),
        (("plan", "vm.swappiness=\x1b[31m"), 2, "vm.swappiness=\\x1b[31m: not a whole number"),
        (("plan", "net.ipv4.tcp_congestion_control=\udcff"), 2, "not UTF-8"),
        (("plan", "vm.swappiness=1_0"), 2, "not a whole number"),
        (("plan", "vm.swappiness=\N{ARABIC-INDIC DIGIT THREE}"), 2, "not a whole number"),
        (("plan", "vm.min_free_kbytes=" + "9" * 400 + "GiB"), 2, "is not a number with one of the units"),
        (("plan", "queue:scheduler@[rotational=none"), 2, "has no closing bracket"),
        (("explain", "ktweak"), 2, "ktweak is a profile, not a knob\n  next: ktrial profiles ktweak"),
        (("explain", "vm.swappiness@x"), 2, "unknown instance of vm.swappiness: 'x'"),
        (("explain", "boot:nohz_full@x"), 2, "this machine has no instance"),
        (
            ("kernel", "bisect", "a", "b", "--outcome", "x.y"),
            2,
            "add --config FILE (`ktrial kernel config` writes one)",
        ),
        (("facts", "cpu.mod"), 2, "did you mean cpu.model?"),
        (("knobs", "swapines"), 2, "did you mean vm.swappiness?"),
        (("apply", "vm.swappiness=1", "--for", "9" * 15 + "h"), 2, "longer than 30 days"),
        (("apply", "vm.swappiness=1", "--for", "0"), 2, "not a duration above 0"),
        (("watermarks", "--lead", "2G"), 2, "'2G' is not a number with one of the units B, kB"),
        (("statsu",), 2, "did you mean status?"),
        (("runs", "--store", "x.db"), 2, "next: ktrial --store … runs …"),
        (("state", "diff", "--no-sudo"), 2, "--no-sudo must come before state diff"),
        (("runs", "--stor"), 2, "No such option '--stor'"),
    ],
)
def test_odd_words_are_answered_with_what_is_wrong(argv: tuple[str, ...], status: int, words: str) -> None:
    got, _, err = run(*argv)
    assert (got, words in err) == (status, True), err


@pytest.mark.parametrize(
    "verb, words",
    [
        ("uninstall", ("ktrial keep", "results and trials", "/etc/ktrial")),
        ("diagnose", ("vmstat -t 1",)),
        ("kernel bisect", ("ktrial kernel config", "LOAD.RESULT")),
    ],
)
def test_help_answers_what_readers_asked(verb: str, words: tuple[str, ...]) -> None:
    shown = " ".join(run(*verb.split(), "--help")[1].split())
    assert [word for word in words if word not in shown] == []


def test_a_list_of_one() -> None:
    assert "1 knob;" in run("knobs", "vm.swappiness")[1]


@pytest.mark.parametrize("verb", [["knobs"], ["knobs", "--json"], ["profiles"]])
def test_a_reader_that_goes_away_is_no_error(verb: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        ran = subprocess.run([*KTRIAL, *verb], stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_full_disk_behind_the_output_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run([*KTRIAL, "knobs"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (ran.returncode, ran.stderr) == (1, b"ktrial: No space left on device\n")


@pytest.mark.parametrize("closing, status", [(">&-", 1), ("2>&- >/dev/null", 0), ("<&- >/dev/null", 0)])
def test_closed_streams(closing: str, status: int) -> None:
    ran = subprocess.run(["/bin/sh", "-c", f'"$@" {closing}', "sh", *KTRIAL, "knobs"], capture_output=True, check=False)
    assert (ran.returncode, b"Traceback" in ran.stderr) == (status, False)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_narrow_character_sets_lose_characters_not_the_answer(encoding: str) -> None:
    argv = [sys.executable, "-c", "import sys; from ktrial.__main__ import run; sys.exit(run())", "knobs", "swappiness"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    ran = subprocess.run(argv, capture_output=True, check=True, env=environment)
    assert b"vm.swappiness" in ran.stdout


def test_every_table_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = [line.split()[0] for line in run("profiles")[1].splitlines()[2:] if line[:1].islower()]
    for argv in (["profiles"], ["knobs"], ["facts"], *(["profiles", name] for name in names)):
        for line in run(*argv)[1].splitlines():
            assert len(line) <= 80, f"{argv}: {line}"


def test_every_verb_stands_in_one_group_of_the_help_in_one_line() -> None:
    context = click.Context(cli, info_name="ktrial")
    formatter = click.HelpFormatter(width=80)
    assert isinstance(cli, Verbs)
    cli.format_commands(context, formatter)
    lines = formatter.getvalue().splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(listed) == cli.list_commands(context)
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert titles[0] == "Start here:"
    assert "Others:" not in titles
