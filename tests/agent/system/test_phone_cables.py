# SPDX-License-Identifier: Apache-2.0
"""Cables pulled at random moments: the phone restores everything by itself, and no run is lost or stored twice."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.system.test_remote_kills import (
    LONG,
    SETTINGS,
    SHORT,
    VALUES,
    WAIT_S,
    check_store,
    path_of,
    start,
    state,
    stored,
    values,
)
from tests.support.phone import Phone, phone
from tests.support.terminal import eventually
from tests.support.trial_process import check_nothing_is_lost

COMMANDS: dict[str, tuple[str, ...]] = {
    "apply": ("apply", *SETTINGS),
    "revert": ("revert",),
    "session": ("try", *SETTINGS, "--no-profile", "--settle", "0s", "--budget", "7", "--", *SHORT),
    "bench": ("bench", "-n", "4", "--", *SHORT),
    "long run": ("bench", "-n", "1", "--", *LONG),
}
#: How long each takes here, about: the moment is drawn from that time; of a long run, from its beginning.
TAKES_S = {"apply": 1.3, "revert": 1.3, "session": 9.0, "bench": 4.0, "long run": 1.0}


@pytest.fixture(scope="module")
def pixel() -> Iterator[Phone]:
    with phone(more="; ".join(f"echo {value} > {path_of(knob)}" for knob, value in VALUES.items())) as made:
        yield made


def pull(pixel: Phone, command: str, seed: int, said: Path) -> str:
    """Pull the cable once during a command, put it in again, and look at everything that must hold afterwards."""
    state(pixel).mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    before, files = stored(pixel), pixel.left()
    if command == "revert":
        assert pixel.ktrial("apply", *SETTINGS).returncode == 0
    head = start(pixel, said, *COMMANDS[command])
    try:
        if command == "long run":
            assert eventually(lambda: bool(pixel.processes(" ".join(LONG))), 60), said.read_text()
        time.sleep(rng.random() * TAKES_S[command])
        pixel.pull()
        if command != "session":  # a trial waits for the phone
            assert eventually(lambda: not pixel.processes("ktrial-agent"), 10), said.read_text()
            assert eventually(lambda: not pixel.processes(" ".join(LONG)), 5), said.read_text()
        time.sleep(rng.random())
        assert pixel.plug_in() == "device"
        status = head.wait(WAIT_S)
    finally:
        head.kill()
        head.wait()
    text = said.read_text()
    assert "Traceback" not in text, text
    assert eventually(lambda: not pixel.processes("ktrial-agent"), 10), text
    if command in {"apply", "revert"}:
        _check_settings(pixel, command, status, text)
    if command == "session" and status != 0:
        assert "trial resume" in text or "lost" in text or "cannot" in text, text
    assert values(pixel) == VALUES, (status, text)
    assert pixel.left() == files, text
    check_store(pixel, before, text)
    if command == "session" and status == 0:
        check_nothing_is_lost(pixel.folder / "here")
    return f"{command}, {seed}: {status}"


def _check_settings(pixel: Phone, command: str, status: int, text: str) -> None:
    """The settings are in force as a whole, or not at all; what was announced has happened."""
    found, changed = values(pixel), {"net.core.somaxconn": "512", "net.ipv4.tcp_fin_timeout": "33"}
    assert found in (VALUES, changed), (found, text)
    if status == 0:
        assert found == (changed if command == "apply" else VALUES), text
    for words in (("recover",), ("revert", "--all")):
        done = pixel.ktrial(*words)
        assert done.returncode in {0, 4}, done.stderr


@pytest.mark.parametrize("command", ["apply", "revert", "long run"])
def test_a_pulled_cable_leaves_nothing_behind(pixel: Phone, tmp_path: Path, command: str) -> None:
    pull(pixel, command, 4, tmp_path / "said")


def test_a_program_that_was_copied_there_is_gone_with_the_cable(pixel: Phone, tmp_path: Path) -> None:
    script = tmp_path / "own-load"
    script.write_text(f"#!/system/bin/sh\n{' '.join(LONG)}\n")
    state(pixel).mkdir(parents=True, exist_ok=True)
    files = pixel.left()
    head = start(pixel, tmp_path / "said", "bench", "-n", "1", "--", str(script))
    try:
        assert eventually(lambda: bool(pixel.processes(" ".join(LONG))), 60), (tmp_path / "said").read_text()
        assert "programs" in pixel.left()
        pixel.pull()
        assert eventually(lambda: pixel.left() == files, 10), pixel.left()
        assert eventually(lambda: not pixel.processes(" ".join(LONG)), 5)
    finally:
        assert pixel.plug_in() == "device"
        head.wait(WAIT_S)


def test_a_trial_goes_on_when_the_cable_is_in_again(pixel: Phone, tmp_path: Path) -> None:
    said = tmp_path / "said"
    state(pixel).mkdir(parents=True, exist_ok=True)
    head = start(pixel, said, *COMMANDS["session"])
    try:
        assert eventually(lambda: "block 1/" in said.read_text(), 60), said.read_text()
        pixel.pull()
        assert eventually(lambda: values(pixel) == VALUES and not pixel.processes("ktrial-agent"), 10), said.read_text()
        assert eventually(lambda: "is not back yet" in said.read_text(), 30), said.read_text()
        assert pixel.plug_in() == "device"
        assert head.wait(WAIT_S) == 0, said.read_text()
    finally:
        head.kill()
        head.wait()
    assert "is back" in said.read_text()
    check_nothing_is_lost(pixel.folder / "here")
    assert values(pixel) == VALUES


def test_a_phone_that_falls_asleep_restores_its_values_within_a_minute(pixel: Phone, tmp_path: Path) -> None:
    """Nothing goes over the cable any more, and neither side is told."""
    state(pixel).mkdir(parents=True, exist_ok=True)
    head = start(pixel, tmp_path / "said", *COMMANDS["session"])
    try:
        assert eventually(lambda: "block 1/" in (tmp_path / "said").read_text(), 60)
        pixel.way.freeze()
        assert eventually(lambda: not pixel.processes("ktrial-agent"), 100)
        assert values(pixel) == VALUES
        pixel.way.thaw()
        assert pixel.plug_in() == "device"
        assert head.wait(WAIT_S) == 0, (tmp_path / "said").read_text()
    finally:
        pixel.way.thaw()
        head.kill()
        head.wait()
    check_nothing_is_lost(pixel.folder / "here")


@pytest.mark.timeout(1800)
def test_fifty_pulled_cables_leave_nothing_behind(pixel: Phone, tmp_path: Path) -> None:
    for seed in range(50):
        command = tuple(COMMANDS)[seed % len(COMMANDS)]
        try:
            sys.stderr.write(pull(pixel, command, seed, tmp_path / f"{seed}") + "\n")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {command}") from error
