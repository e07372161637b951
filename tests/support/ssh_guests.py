# SPDX-License-Identifier: Apache-2.0
"""Guests that are reached over ssh, and the user here whose ssh knows them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.boot_guest import BootGuest, BootImages
from tests.support.debian_guest import DebianGuest, GuestImages
from tests.support.qemu_guest import QemuGuest

_START = """
set -e
modprobe virtio_net
until link=$(ls /sys/class/net | grep -v lo); do sleep 0.2; done
ip link set $link up
ip address replace 10.0.2.15/24 dev $link
id user >/dev/null 2>&1 || useradd --create-home --shell /bin/bash user
mkdir -p /home/user/.ssh
echo '{key}' > /home/user/.ssh/authorized_keys
chown -R user:user /home/user/.ssh
echo 'user ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/user
chmod 440 /etc/sudoers.d/user
systemctl start ssh
cat /etc/ssh/ssh_host_ed25519_key.pub
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def network(port: int) -> list[str]:
    """Return QEMU's options for a network card whose port 22 is a port of this machine."""
    return ["-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:22", "-device", "virtio-net-pci,netdev=net"]


class SshGuest(DebianGuest):
    """A guest without a loader. A port of this machine leads to its sshd."""

    def __init__(self, images: GuestImages, folder: Path) -> None:
        super().__init__(images, folder, memory_mib=1024)
        self.port = free_port()

    def _loader(self) -> list[str]:
        return [*super()._loader(), *network(self.port)]


class SshBootGuest(BootGuest):
    """A guest that boots through its loader. A port of this machine leads to its sshd."""

    def __init__(self, images: BootImages, folder: Path) -> None:
        super().__init__(images, folder)
        self.port = free_port()

    def _loader(self) -> list[str]:
        return [*super()._loader(), *network(self.port)]


class SshUser:
    """A user here whose ssh has a key and knows guests by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hosts = dict[str, str]()
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
        program = folder / "bin/ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/config "$@"\n')
        program.chmod(0o755)

    @property
    def public_key(self) -> str:
        return (self.folder / "key.pub").read_text().strip()

    def let_in(self, name: str, guest: SshGuest | SshBootGuest) -> None:
        """Start the guest's network and sshd for this boot, and store its address and host key."""
        assert isinstance(guest, QemuGuest)
        started = guest.run(_START.format(key=self.public_key))
        assert started.status == 0, started.err
        self.know(name, guest.port, " ".join(started.out.splitlines()[-1].split()[:2]))

    def know(self, name: str, port: int, host_key: str, login: str = "user") -> None:
        """Add a machine to the configuration of ssh."""
        (self.folder / f"known-{name}").write_text(f"{name} {host_key}\n")
        self._hosts[name] = (
            f"Host {name}\n HostName 127.0.0.1\n Port {port}\n User {login}\n HostKeyAlias {name}\n"
            f" UserKnownHostsFile {self.folder}/known-{name}\n IdentityFile {self.folder}/key\n"
        )
        (self.folder / "config").write_text("".join(self._hosts.values()))

    @property
    def environment(self) -> dict[str, str]:
        """The user's environment."""
        home = self.folder / "home"
        own = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("STATE", "CACHE", "CONFIG")}
        return {**os.environ, **own, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def start(self, name: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ktrial", "--host", f"ssh:{name}", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def ktrial(self, name: str, *words: str, status: int = 0) -> str:
        """Run a command on a guest and return its output."""
        started = self.start(name, *words)
        out, err = started.communicate(timeout=1800)
        assert started.returncode == status, err
        return out

    def told(self, name: str, *words: str, status: int = 0) -> Any:
        return json.loads(self.ktrial(name, *words, "--json", status=status))
