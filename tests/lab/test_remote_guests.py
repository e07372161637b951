# SPDX-License-Identifier: Apache-2.0
"""Two whole machines over ssh: emulated guests with Debian, systemd and sshd, whose every knob is their own.

Emulated: a boot takes a minute on a quiet machine, three on a busy one. The first run makes the system's image.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.judge.model.log import Event, RunEnded
from ktrial.results.store.database import Database
from ktrial.trial.store import StoredTrials
from tests.support.debian_guest import GuestImages
from tests.support.ssh_guests import SshGuest, SshUser

pytestmark = [pytest.mark.xdist_group("debian-guest"), pytest.mark.timeout(4500)]


class Pair(SshUser):
    """Two guests, and a user here whose ssh knows them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        images = GuestImages.make(folder)
        self.guests: dict[str, SshGuest] = {}
        for name in ("one", "two"):
            (folder / name).mkdir()
            self.guests[name] = SshGuest(images, folder / name)

    def boot(self, name: str) -> None:
        """Start a guest and its sshd."""
        self.guests[name].boot()
        self.let_in(name, self.guests[name])


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


def swappiness(guest: SshGuest) -> str:
    return guest.run("cat /proc/sys/vm/swappiness").out.strip()


def test_each_machine_has_its_own_values(pair: Pair) -> None:
    for name, value in (("one", "17"), ("two", "23")):
        pair.ktrial(name, "apply", f"vm.swappiness={value}", "-y")
    assert [swappiness(guest) for guest in pair.guests.values()] == ["17", "23"]
    for name in pair.guests:
        pair.ktrial(name, "revert")
    assert [swappiness(guest) for guest in pair.guests.values()] == ["60", "60"]
    release = pair.told("one", "facts", "kernel.release")["facts"]["kernel.release"]["value"]
    assert release == pair.guests["one"].run("uname -r").out.strip()


def test_what_is_kept_is_there_after_a_boot_and_goes_away_again(pair: Pair) -> None:
    guest = pair.guests["two"]
    before = guest.run("find /etc -xdev -type f -exec sha256sum {} + | sort").out
    pair.ktrial("two", "keep", "vm.swappiness=17", "-y")
    guest.reboot()
    assert swappiness(guest) == "17"
    pair.let_in("two", guest)
    assert pair.told("two", "drift")["settings"][0]["state"] == "live"
    pair.ktrial("two", "keep", "--undo", "-y")
    guest.run("sysctl -w vm.swappiness=60")  # the value of this boot is the administrator's
    assert guest.run("find /etc -xdev -type f -exec sha256sum {} + | sort").out == before


def test_trials_run_on_both_at_once(pair: Pair) -> None:
    words = ("try", "vm.swappiness=10", "--no-profile", "--budget", "7", "--json", "--", "sleep", "0.2")
    running = {name: pair.start(name, *words) for name in pair.guests}
    for one in running.values():
        _, err = one.communicate(timeout=3000)
        assert one.returncode == 0, err
    assert [swappiness(guest) for guest in pair.guests.values()] == ["60", "60"]


def wait_for_visit(guest: SshGuest) -> None:
    """Wait for a visit of the arm, which is also applied for a moment before the trial begins."""
    deadline = time.monotonic() + 900
    seen = 0
    while seen < 4:
        assert time.monotonic() < deadline
        time.sleep(1)
        seen = seen + 1 if swappiness(guest) == "10" else 0


def test_a_machine_whose_power_fails_during_a_trial_is_as_before(pair: Pair) -> None:
    guest = pair.guests["one"]
    words = ("try", "vm.swappiness=10", "--no-profile", "--budget", "7", "--", "sleep", "5")
    running = pair.start("one", *words)
    wait_for_visit(guest)
    guest.kill()
    time.sleep(2)
    pair.boot("one")
    assert swappiness(guest) == "60"
    _, err = running.communicate(timeout=1800)
    assert running.returncode == 0, err
    assert "one is back" in err
    assert swappiness(guest) == "60"


@pytest.mark.parametrize("way", ["reboot", "power"])
def test_a_plan_that_a_boot_ends_leaves_its_log_and_the_values_of_before(pair: Pair, way: str) -> None:
    """The machine carries out the plan by itself while it is rebooted, or its power fails."""
    guest = pair.guests["two"]
    words = (
        "try",
        "vm.swappiness=10",
        "--unattended",
        "--no-profile",
        "--budget",
        "7",
        "--name",
        way,
        "--",
        "sleep",
        "5",
    )
    running = pair.start("two", *words)
    wait_for_visit(guest)
    if way == "reboot":
        guest.halt()
    else:
        guest.kill()
    time.sleep(2)
    pair.boot("two")
    assert swappiness(guest) == "60"
    _, err = running.communicate(timeout=1800)
    assert running.returncode == 0, err
    assert "two is back" in err
    made = [(event.block, event.arm) for event in log_of(pair, way) if isinstance(event, RunEnded) and event.block]
    assert len(made) == len(set(made)) == 14
    assert swappiness(guest) == "60"


def log_of(pair: Pair, name: str) -> tuple[Event, ...]:
    """Return the log of a trial, from the store here."""
    database = Database.open(f"{pair.folder}/home/state/ktrial/results.db")
    try:
        trials = StoredTrials(lambda: database)
        return trials.log(trials.find(name).trial)
    finally:
        database.close()
