# SPDX-License-Identifier: Apache-2.0
"""A fleet of two whole machines: emulated guests with Debian, systemd and sshd, for settings of the whole machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.test_remote_guests import Pair, swappiness
from tests.support.remote_machine import CHECKOUT

pytestmark = [pytest.mark.xdist_group("debian-guest"), pytest.mark.timeout(4500)]

TRIAL = """\
name = "swap"
command = ["sleep", "0.2"]
[design]
settle = "0s"
[arms.control]
[arms.less]
set = { "vm.swappiness" = 10 }
[fleet]
waves = ["100%"]
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"))
    try:
        for name in made.guests:
            made.boot(name)
        yield made
    finally:
        for guest in made.guests.values():
            guest.kill()


def test_two_whole_machines_are_measured_and_shown_side_by_side(pair: Pair, tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.ini"
    inventory.write_text("".join(f"{name} ansible_host={name} ansible_become=true\n" for name in pair.guests))
    trial = tmp_path / "trial.toml"
    trial.write_text(TRIAL)
    environment = {**pair.environment, "PYTHONPATH": str(CHECKOUT / "src")}
    words = [sys.executable, "-m", "ktrial", "fleet"]
    done = subprocess.run(
        [*words, "run", str(trial), "-i", str(inventory), "-y"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [swappiness(guest) for guest in pair.guests.values()] == ["60", "60"]
    shown = subprocess.run([*words, "report", "--json"], env=environment, capture_output=True, text=True, check=True)
    (one,) = json.loads(shown.stdout)["contrasts"]
    assert one["scope"] == "these machines"
    assert one["why"] == "2 of 2 machines can be pooled (minimum 3)"
    assert [machine["blocks"] for machine in one["pooled"]["machines"]] == [7, 7]
