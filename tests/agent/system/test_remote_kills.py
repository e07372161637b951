# SPDX-License-Identifier: Apache-2.0
"""Cuts and kills at random moments: the machine restores everything, and no run is lost or stored twice."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.kept import records
from tests.support.remote_machine import RemoteMachine, remote_machine
from tests.support.terminal import eventually
from tests.support.trial_process import check_nothing_is_lost, children, trials_in, words_of

#: Values of the machine's own network.
VALUES = {"net.core.somaxconn": "4000", "net.ipv4.tcp_fin_timeout": "61"}
SETTINGS = ("net.core.somaxconn=512", "net.ipv4.tcp_fin_timeout=33")
#: Runs of this length would go on after the test if nobody ended them; short ones fit many into a trial.
LONG, SHORT = ("sleep", "20.31"), ("sleep", "0.02")
COMMANDS: dict[str, tuple[str, ...]] = {
    "apply": ("apply", *SETTINGS, "--for", "30m"),
    "bench": ("bench", "-n", "4", "--", *SHORT),
    "long run": ("bench", "-n", "1", "--", *LONG),
    "keep": ("keep", *SETTINGS, "-y"),
    "trial": ("try", *SETTINGS, "--no-profile", "--settle", "0s", "--budget", "7", "--", *SHORT),
}
#: How long each takes here, about: the moment is drawn from that time; of a long run, from its beginning.
TAKES_S = {"apply": 1.3, "bench": 4.0, "long run": 1.0, "keep": 2.0, "trial": 9.0}
WAIT_S = 240.0


def path_of(knob: str) -> str:
    return f"/proc/sys/{knob.replace('.', '/')}"


@pytest.fixture(scope="module")
def web1() -> Iterator[RemoteMachine]:
    set_up = [f"echo {value} > {path_of(knob)}" for knob, value in VALUES.items()]
    # What reads files of sysctl.d at boot; nothing here starts it.
    with remote_machine(more="; ".join([*set_up, "mkdir -p /run/systemd/system"])) as machine:
        yield machine


def values(web1: RemoteMachine) -> dict[str, str]:
    return {knob: web1.read(path_of(knob)) for knob in VALUES}


def kill_ssh(head: subprocess.Popen[bytes]) -> None:
    for child in children(head.pid):
        if any(word.endswith(b"/ssh") for word in words_of(child)[:1]):
            os.kill(child, signal.SIGKILL)


def power_off(web1: RemoteMachine) -> None:
    web1.off()
    web1.boot()


VICTIMS: dict[str, Callable[[RemoteMachine, subprocess.Popen[bytes]], None]] = {
    "way": lambda web1, _: web1.way.cut(),
    "ssh": lambda _, head: kill_ssh(head),
    "head": lambda _, head: head.kill(),
    "relay": lambda web1, _: web1.kill("ktrial-agent relay"),
    "agents": lambda web1, _: web1.kill("serve --role"),
    "root agents": lambda web1, _: web1.kill("serve --role root"),
    "sshd": lambda web1, _: web1.kill("^sshd: remote"),
    "machine": lambda web1, _: power_off(web1),
}


def start(web1: RemoteMachine, said: Path, *words: str) -> subprocess.Popen[bytes]:
    with said.open("wb") as file:
        return subprocess.Popen(
            web1.command(*words),
            env={**web1.environment(), "KTRIAL_STORE": str(state(web1) / "results.db")},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def here(web1: RemoteMachine) -> Path:
    return web1.folder / "here"


def state(web1: RemoteMachine) -> Path:
    return here(web1) / ".local/state/ktrial"


def check(web1: RemoteMachine, command: str, victim: str, seed: int, said: Path) -> str:
    """Kill once, and look at everything that must hold afterwards. Returns what became of the command."""
    state(web1).mkdir(parents=True, exist_ok=True)
    before, files = stored(web1), kept_files(web1)
    trials = len(trials_in(here(web1)))
    head = start(web1, said, *COMMANDS[command])
    try:
        if command == "long run":
            assert eventually(lambda: bool(web1.processes(" ".join(LONG))), 60), said.read_text()
        time.sleep(random.Random(seed).random() * TAKES_S[command])
        VICTIMS[victim](web1, head)
        status = head.wait(WAIT_S)
    finally:
        head.kill()
        head.wait()
    text = said.read_text()
    assert "Traceback" not in text, text
    limit_s = 30.0 if victim == "head" else 10.0
    assert eventually(lambda: not web1.processes("ktrial-agent"), limit_s), (web1.processes("ktrial-agent"), text)
    if victim == "agents":  # nobody is left who could end what they ran
        web1.kill(" ".join(LONG))
    assert eventually(lambda: not web1.processes(" ".join(LONG)), 5.0), text
    if victim == "machine":
        done = web1.ktrial("recover")
        assert done.returncode == 0, done.stderr
    if command in {"apply", "keep"}:
        _check_apply(web1, victim, status, text)
    # If a signal ended the agent, the holder of its lease restores the values a moment later.
    assert eventually(lambda: values(web1) == VALUES, 10.0), (values(web1), status, text)
    assert kept_files(web1) == files, text
    check_store(web1, before, text)
    if command == "trial" and len(trials_in(here(web1))) > trials:
        if status != 0:
            assert victim in {"head", "agents", "root agents", "machine"} or "lost" in text, text
            resumed = web1.ktrial("trial", "resume", more={"KTRIAL_STORE": str(state(web1) / "results.db")})
            assert resumed.returncode == 0, resumed.stderr
        check_nothing_is_lost(here(web1))
        assert values(web1) == VALUES
    return f"{command}, {victim}, {seed}: {status}"


def kept_files(web1: RemoteMachine) -> str:
    """Return names and contents where `keep` writes."""
    return web1.run("sh", "-c", "for file in /etc/sysctl.d/*; do echo $file; cat $file; done")


def _check_apply(web1: RemoteMachine, victim: str, status: int, text: str) -> None:
    """The settings are in force as a whole, or not at all; nothing that was announced is missing."""
    found = values(web1)
    changed = {"net.core.somaxconn": "512", "net.ipv4.tcp_fin_timeout": "33"}
    if "root" not in victim and victim not in {"agents", "machine"}:
        assert found in (VALUES, changed), (found, text)
        assert status != 0 or found == changed, text
    for word in ("recover", "revert"):
        done = web1.ktrial(word, *(["--all"] if word == "revert" else []))
        assert done.returncode in {0, 4}, done.stderr


def stored(web1: RemoteMachine) -> list[tuple[str, str]]:
    return [(one["session"]["session"], one["run"]) for one in records(here(web1)) if not one["exit"]["interrupted"]]


def check_store(web1: RemoteMachine, before: list[tuple[str, str]], text: str) -> None:
    """No run is stored twice, none that was stored is gone, and every run that was shown is stored."""
    found = stored(web1)
    assert len(found) == len(set(found))
    assert set(found) >= set(before)
    shown = len(re.findall(r"^\[\d+/\d+\] .*: wall ", text, re.MULTILINE))
    assert len(found) - len(before) >= shown, text


def draw(seed: int, among: Sequence[tuple[str, str]]) -> tuple[str, str]:
    return random.Random(f"what {seed}").choice(among)


ALL = tuple((command, victim) for command in COMMANDS for victim in VICTIMS)


@pytest.mark.parametrize("case", range(8))
def test_a_kill_loses_nothing(web1: RemoteMachine, tmp_path: Path, case: int) -> None:
    """Every command is broken off, every victim is killed."""
    command, victim = ("apply", "bench", "long run", "keep")[case % 4], list(VICTIMS)[(case + case // 8) % 8]
    check(web1, command, victim, case, tmp_path / "said")


@pytest.mark.parametrize("victim", ["way", "head"])
def test_a_trial_loses_nothing(web1: RemoteMachine, tmp_path: Path, victim: str) -> None:
    check(web1, "trial", victim, 3, tmp_path / "said")


def test_a_trial_goes_on_after_every_cut(web1: RemoteMachine, tmp_path: Path) -> None:
    """Cuts also come while the head connects again and looks at the machine."""
    said = tmp_path / "said"
    head = start(web1, said, *COMMANDS["trial"])
    try:
        assert eventually(lambda: "block 1/" in said.read_text(), 60)
        for number in range(1, 5):
            web1.way.cut()
            assert eventually(lambda: said.read_text().count("web1 is back") >= number, 60), said.read_text()  # noqa: B023
            time.sleep(0.2 * number)
        assert head.wait(WAIT_S) == 0, said.read_text()
    finally:
        head.kill()
        head.wait()
    check_nothing_is_lost(here(web1))
    assert values(web1) == VALUES
    assert eventually(lambda: not web1.processes("ktrial-agent"), 10)


def test_a_line_that_freezes_ends_what_runs_within_a_minute(web1: RemoteMachine, tmp_path: Path) -> None:
    head = start(web1, tmp_path / "said", *COMMANDS["trial"])
    try:
        assert eventually(lambda: "block 1/" in (tmp_path / "said").read_text(), 60)
        web1.way.freeze()
        assert eventually(lambda: not web1.processes("ktrial-agent"), 100)
        assert values(web1) == VALUES
        web1.way.thaw()
        assert head.wait(WAIT_S) == 0, (tmp_path / "said").read_text()
    finally:
        web1.way.thaw()
        head.kill()
        head.wait()
    check_nothing_is_lost(here(web1))


@pytest.mark.timeout(7200)
def test_two_hundred_kills_lose_nothing(web1: RemoteMachine, tmp_path: Path) -> None:
    for seed in range(1000, 1200):
        command, victim = draw(seed, ALL)
        try:
            sys.stderr.write(check(web1, command, victim, seed, tmp_path / f"{seed}") + "\n")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {command}, {victim}") from error


def test_the_same_outcomes_give_the_same_verdict_however_often_the_line_is_cut(
    web1: RemoteMachine, tmp_path: Path
) -> None:
    """The program prints what is in force, so every run of an arm has the same outcome, whenever it is made."""
    metric = ("--metric", "size:higher=([0-9]+)")
    words = ("try", SETTINGS[0], "--no-profile", "--settle", "0s", "--budget", "7", *metric)
    program = ("sh", "-c", "sleep 0.2; cat /proc/sys/net/core/somaxconn")
    found = []
    for cuts in (0, 3):
        said = tmp_path / f"said-{cuts}"
        head = start(web1, said, *words, "--json", "--", *program)
        for _ in range(cuts):
            time.sleep(4)
            web1.way.cut()
        assert head.wait(WAIT_S) == 0, said.read_text()
        assert said.read_text().count("lost the connection") >= min(cuts, 1)
        newest = web1.ktrial("trial", "show", "--json", more={"KTRIAL_STORE": str(state(web1) / "results.db")})
        found.append(json.loads(newest.stdout)["trial"]["looks"])
    assert found[0][-1]["verdict"] == "worse"
    assert found[0] == found[1]
    assert values(web1) == VALUES
