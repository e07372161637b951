# SPDX-License-Identifier: Apache-2.0
"""Two whole machines over ssh: emulated guests with Debian, systemd and sshd, whose every knob is their own.

Emulated: a boot takes a minute on a quiet machine, three on a busy one. The first run makes the system's image.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.debian_guest import DebianGuest, GuestImages

pytestmark = [pytest.mark.xdist_group("debian-guest"), pytest.mark.timeout(4500)]

_START = """
set -e
modprobe virtio_net
link=$(ls /sys/class/net | grep -v lo | head -n 1)
ip link set $link up
ip address add 10.0.2.15/24 dev $link
id user >/dev/null 2>&1 || useradd --create-home --shell /bin/bash user
mkdir -p /home/user/.ssh
echo '{key}' > /home/user/.ssh/authorized_keys
chown -R user:user /home/user/.ssh
echo 'user ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/user
chmod 440 /etc/sudoers.d/user
systemctl start ssh
cat /etc/ssh/ssh_host_ed25519_key.pub
"""


class SshGuest(DebianGuest):
    """A guest whose sshd a port of this machine leads to."""

    def __init__(self, images: GuestImages, folder: Path, name: str) -> None:
        super().__init__(images, folder, memory_mib=1024)
        self.name = name
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]

    def _loader(self) -> list[str]:
        network = [
            "-netdev",
            f"user,id=net,hostfwd=tcp:127.0.0.1:{self.port}-:22",
            "-device",
            "virtio-net-pci,netdev=net",
        ]
        return [*super()._loader(), *network]


class Pair:
    """Two guests, and a user here whose ssh knows them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        images = GuestImages.make(folder)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
        self.guests: dict[str, SshGuest] = {}
        for name in ("one", "two"):
            (folder / name).mkdir()
            self.guests[name] = SshGuest(images, folder / name, name)
        program = folder / "bin/ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/config "$@"\n')
        program.chmod(0o755)

    def boot(self, guest: SshGuest) -> None:
        """Start a guest and its sshd, and note its host key."""
        guest.boot()
        started = guest.run(_START.format(key=(self.folder / "key.pub").read_text().strip()))
        assert started.status == 0, started.err
        key = " ".join(started.out.splitlines()[-1].split()[:2])
        (self.folder / f"known-{guest.name}").write_text(f"{guest.name} {key}\n")
        hosts = [
            f"Host {one.name}\n HostName 127.0.0.1\n Port {one.port}\n User user\n HostKeyAlias {one.name}\n"
            f" UserKnownHostsFile {self.folder}/known-{one.name}\n IdentityFile {self.folder}/key\n"
            for one in self.guests.values()
        ]
        (self.folder / "config").write_text("".join(hosts))

    def start(self, name: str, *words: str) -> subprocess.Popen[str]:
        home = self.folder / "home"
        own = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("STATE", "CACHE", "CONFIG")}
        return subprocess.Popen(
            [sys.executable, "-m", "ktrial", "--host", f"ssh:{name}", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **own, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"},
        )

    def ktrial(self, name: str, *words: str, status: int = 0) -> str:
        """Run a command on a guest and return what it printed."""
        started = self.start(name, *words)
        out, err = started.communicate(timeout=1800)
        assert started.returncode == status, err
        return out

    def told(self, name: str, *words: str, status: int = 0) -> Any:
        return json.loads(self.ktrial(name, *words, "--json", status=status))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"))
    try:
        for guest in made.guests.values():
            made.boot(guest)
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
    started = guest.run(_START.format(key=(pair.folder / "key.pub").read_text().strip()))
    assert started.status == 0, started.err
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


def test_a_machine_whose_power_fails_during_a_trial_is_as_before(pair: Pair) -> None:
    guest = pair.guests["one"]
    words = ("try", "vm.swappiness=10", "--no-profile", "--budget", "7", "--", "sleep", "5")
    running = pair.start("one", *words)
    deadline = time.monotonic() + 900
    seen = 0
    while seen < 4:  # a visit; the arm is also applied for a moment before the trial begins
        assert time.monotonic() < deadline
        time.sleep(1)
        seen = seen + 1 if swappiness(guest) == "10" else 0
    guest.kill()
    time.sleep(2)
    pair.boot(guest)
    assert swappiness(guest) == "60"
    _, err = running.communicate(timeout=1800)
    assert running.returncode == 0, err
    assert "one is back" in err
    assert swappiness(guest) == "60"
