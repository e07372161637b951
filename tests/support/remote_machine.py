# SPDX-License-Identifier: Apache-2.0
"""Another machine behind a real sshd: its own network, mounts, host name, processes, clock and state folders.

The kernel is this machine's, so values of its network are its own, and other values are shared. The connection leads
through a proxy of the tests, which delays, drops and cuts.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
USER, UID = "remote", 2001
_SSHD = "/usr/sbin/sshd"
_PIECE_BYTES = 1 << 14
#: Delay of a dropped packet, which the sender transmits again.
_RETRANSMIT_S = 0.25

#: The first process of the machine.
_BOOT = """
set -eu
mount --make-rprivate /
ip link set lo up
hostname {name}
# This machine's users may change meanwhile.
mount -t overlay -o lowerdir=/etc,upperdir={folder}/etc,workdir={folder}/overlay overlay /etc
mkdir -p /var/lib/ktrial /run/sshd
mount --bind {folder}/state /var/lib/ktrial
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd
{more}
{python} {here} forward {folder}/socket 22 &
exec {python} {here} first {sshd} -D -e -f {folder}/sshd_config
"""

_SSHD_CONFIG = """
ListenAddress 127.0.0.1
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
LogLevel VERBOSE
{options}
"""

_SSH_CONFIG = """
Host {name} root@{name}
    HostName 127.0.0.1
    Port {port}
    User {user}
    HostKeyAlias {name}
    IdentityFile {folder}/key
    IdentitiesOnly yes
    UserKnownHostsFile {folder}/known_hosts
    StrictHostKeyChecking yes
{options}
"""


class Way:
    """The proxy in front of the machine.

    `delay_s` is the delay in one direction, `loss` the share of delayed pieces.
    """

    def __init__(self, there: Path) -> None:
        self._there = there
        self.delay_s = 0.0
        self.loss = 0.0
        #: Bytes to the machine and from it, and the number of pieces in both directions.
        self.to_bytes = self.from_bytes = self.pieces = 0
        #: Whether new connections are refused.
        self.is_out = False
        self._frozen = threading.Event()
        self._random = random.Random(1)
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, as when a router restarts."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def freeze(self) -> None:
        """Let nothing through, without closing any connection."""
        self._frozen.set()

    def thaw(self) -> None:
        """Let new connections through; earlier connections are lost."""
        self.cut()
        self._frozen.clear()

    def close(self) -> None:
        self._listening.close()
        self.cut()
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.socket(socket.AF_UNIX)
                try:
                    if self.is_out:
                        raise OSError
                    far.connect(str(self._there))
                except OSError:
                    near.close()
                    far.close()
                    continue
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += [near, far]
                threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket, inwards: bool) -> None:
        waiting: deque[tuple[float, bytes]] = deque()
        some = threading.Condition()

        def send() -> None:
            while True:
                with some:
                    some.wait_for(lambda: bool(waiting))
                    due_s, piece = waiting.popleft()
                time.sleep(max(0.0, due_s - time.monotonic()))
                with contextlib.suppress(OSError):
                    if not piece:
                        other.shutdown(socket.SHUT_WR)
                    elif not self._frozen.is_set():
                        other.sendall(piece)
                if not piece:
                    return

        threading.Thread(target=send, daemon=True).start()
        last_s, piece = 0.0, b" "
        while piece:
            try:
                piece = one.recv(_PIECE_BYTES)
            except OSError:
                piece = b""
            self.pieces += bool(piece)
            if inwards:
                self.to_bytes += len(piece)
            else:
                self.from_bytes += len(piece)
            late_s = _RETRANSMIT_S + 2 * self.delay_s if self._random.random() < self.loss else 0.0
            last_s = max(last_s, time.monotonic() + self.delay_s + late_s)
            with some:
                waiting.append((last_s, piece))
                some.notify()


class RemoteMachine:
    """The machine, and a user here whose ssh knows it by `name`."""

    def __init__(
        self,
        folder: Path,
        name: str = "web1",
        *,
        sudo: str = f"{USER} ALL=(ALL) NOPASSWD: ALL",
        shell: str = "/bin/bash",
        more: str = "",
        sshd: str = "",
        ssh: str = "",
    ) -> None:
        self.folder, self.name = folder, name
        self.home = folder / "home"
        # This is a copy, because the machine may have no Python of its own.
        self._more, self._python = more, str(folder / "python")
        shutil.copy(os.path.realpath(sys.executable), self._python)
        for place in ("etc", "overlay", "state", "home"):
            (folder / place).mkdir()
        os.chown(self.home, UID, UID)
        self._write_etc(sudo, shell, sshd)
        self.way = Way(folder / "socket")
        self.ssh_config = folder / "ssh_config"
        options = "\n".join(f"    {line}" for line in ssh.splitlines())
        self.ssh_config.write_text(
            _SSH_CONFIG.format(name=name, port=self.way.port, user=USER, folder=folder, options=options)
        )
        (folder / "bin").mkdir()
        program = folder / "bin/ssh"
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.ssh_config} "$@"\n')
        program.chmod(0o755)
        self._process: subprocess.Popen[bytes] | None = None
        self.boot()

    def boot(self) -> None:
        """Start the machine with the content of its disk."""
        (self.folder / "socket").unlink(missing_ok=True)
        spaces = ["--mount", "--uts", "--net", "--time", "--pid", "--fork", "--mount-proc", "--kill-child"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["unshare", *spaces, "--boottime", "100000", "/bin/sh", "-c", self.boot_script()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end_s = time.monotonic() + 20
        while not self.is_up():
            is_up = self._process.poll() is None and time.monotonic() < end_s
            assert is_up, (self.folder / "log").read_text()
            time.sleep(0.02)

    def boot_script(self) -> str:
        """Return the script of the machine's first process."""
        return _BOOT.format(
            folder=self.folder,
            name=self.name,
            more=self._more,
            python=self._python,
            here=Path(__file__).resolve(),
            sshd=_SSHD,
        )

    def off(self) -> None:
        """Cut the power: every process of the machine ends at once."""
        if self._process is not None:
            with contextlib.suppress(AssertionError, ProcessLookupError):
                # It ends after all other processes and their mounts have ended.
                os.kill(self._first_process(), signal.SIGKILL)
                self._process.wait(20)
            self._process.kill()
            self._process.wait()
            self._process = None

    def run(self, *argv: str) -> str:
        """Run a command on the machine as root and return its output."""
        done = subprocess.run([*self._enter(), *argv], capture_output=True, text=True, check=True)
        return done.stdout

    def read(self, path: str) -> str:
        return self.run("cat", path).strip()

    def processes(self, word: str = "ktrial-agent") -> list[str]:
        """Return the command lines of the machine's processes that contain `word`."""
        listed = self.run("ps", "-e", "-o", "args=")
        # A process that has ended but was not waited for holds nothing any more.
        return [line for line in listed.splitlines() if word in line and not re.search(r" ps |<defunct>", line)]

    def kill(self, pattern: str) -> None:
        """Kill the machine's processes whose command line matches; the machine has its own process numbers."""
        subprocess.run([*self._enter(), "pkill", "-KILL", "-f", pattern], check=False)

    def environment(self) -> dict[str, str]:
        """Return the environment of a user here whose ssh knows the machine."""
        kept = {name: value for name, value in os.environ.items() if name not in {"KTRIAL_STORE", "XDG_STATE_HOME"}}
        here = self.folder / "here"
        return {
            **kept,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(here / "state"),
            "XDG_CACHE_HOME": str(here / "cache"),
            "XDG_CONFIG_HOME": str(here / "config"),
        }

    def ktrial(
        self, *words: str, host: str | None = None, more: Mapping[str, str] | None = None, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run ktrial with this machine as its host."""
        return subprocess.run(
            self.command(*words, host=host),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**self.environment(), **(more or {})},
        )

    def command(self, *words: str, host: str | None = None) -> list[str]:
        return [sys.executable, "-m", "ktrial", "--host", host or f"ssh:{self.name}", *words]

    def close(self) -> None:
        self.off()
        self.way.close()

    @property
    def first_process(self) -> str:
        return str(self._first_process())

    def _enter(self) -> list[str]:
        return ["nsenter", "--target", str(self._first_process()), "--mount", "--uts", "--net", "--pid", "--"]

    def _first_process(self) -> int:
        assert self._process is not None
        found = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        assert len(found) == 1, f"the machine is off: {(self.folder / 'log').read_text()[-2000:]}"
        return int(found[0])

    def is_up(self) -> bool:
        """Return whether the machine's sshd answers."""
        with socket.socket(socket.AF_UNIX) as attempt:
            try:
                attempt.connect(str(self.folder / "socket"))
                return attempt.recv(4) == b"SSH-"
            except OSError:
                return False

    def _write_etc(self, sudo: str, shell: str, sshd: str) -> None:
        etc = self.folder / "etc"
        root = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
        separate = "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
        (etc / "passwd").write_text(f"{root}{separate}{USER}:x:{UID}:{UID}::{self.home}:{shell}\n")
        (etc / "group").write_text(f"root:x:0:\nnogroup:x:65534:\n{USER}:x:{UID}:\n")
        # The password is "secret".
        hashed = subprocess.run(["openssl", "passwd", "-6", "secret"], capture_output=True, text=True, check=True)
        (etc / "shadow").write_text(f"root:*:1::::::\nsshd:*:1::::::\n{USER}:{hashed.stdout.strip()}:1::::::\n")
        (etc / "sudoers").write_text(f"Defaults !use_pty\n{sudo}\n")
        (etc / "sudoers").chmod(0o440)
        (etc / "hosts").write_text(f"127.0.0.1 localhost {self.name}\n")
        (self.folder / "sshd_config").write_text(_SSHD_CONFIG.format(folder=self.folder, options=sshd))
        for file in (self.folder / "host_key", self.folder / "key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file], check=True)
        shutil.copy(self.folder / "key.pub", self.folder / "authorized_keys")
        public = (self.folder / "host_key.pub").read_text().split()
        (self.folder / "known_hosts").write_text(f"{self.name} {public[0]} {public[1]}\n")


@contextlib.contextmanager
def remote_machine(name: str = "web1", **options: str) -> Iterator[RemoteMachine]:
    """Yield a machine for the time of a test. Fail without root."""
    assert os.geteuid() == 0, "this test makes namespaces and starts sshd: run ./check as root"
    folder = Path(tempfile.mkdtemp(prefix="ktrial-remote-"))
    folder.chmod(0o755)
    made: RemoteMachine | None = None
    try:
        made = RemoteMachine(folder, name, **options)
        yield made
    finally:
        if made is not None:
            made.close()
        shutil.rmtree(folder, ignore_errors=True)


def own_boot(number: int) -> str:
    """Return a shell command for `more` that gives the machine its own boot id."""
    boot = f"{number:08x}-0000-4000-8000-000000000000"
    place = "/run/boot_id"
    return f"echo {boot} > {place}; mount --bind {place} /proc/sys/kernel/random/boot_id"


def join(machines: Sequence[RemoteMachine], network: str) -> dict[str, str]:
    """Connect two machines with a cable, and return the address of each by name; `network` is like 10.77.0."""
    ends = [f"kt{os.getpid() % 100_000}{side}" for side in "ab"]
    subprocess.run(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]], check=True)
    addresses: dict[str, str] = {}
    for number, (machine, end) in enumerate(zip(machines, ends, strict=True), 1):
        addresses[machine.name] = f"{network}.{number}"
        subprocess.run(["ip", "link", "set", end, "netns", machine.first_process], check=True)
        machine.run("ip", "address", "add", f"{network}.{number}/24", "dev", end)
        machine.run("ip", "link", "set", end, "up")
    return addresses


def inwards(place: Path, port: int) -> str:
    """Return a shell command for `more` that forwards a port of the machine's loopback to a Unix socket."""
    return f"{sys.executable} {Path(__file__).resolve()} inwards {place} {port} &"


def _forward(listening: socket.socket, connect: Callable[[], socket.socket]) -> None:
    """Forward connections to the address that `connect` reaches."""
    listening.listen()

    def carry(one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := one.recv(_PIECE_BYTES):
                other.sendall(piece)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    while True:
        near, _ = listening.accept()
        try:
            far = connect()
        except OSError:
            near.close()
            continue
        for pair in ((near, far), (far, near)):
            threading.Thread(target=carry, args=pair, daemon=True).start()


def _bound_socket(place: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.bind(place)
    return found


def _connected_socket(place: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.connect(place)
    return found


def _first(argv: list[str]) -> None:
    """Act as the first process: run a program, and adopt processes whose parents have ended."""
    child = os.spawnv(os.P_NOWAIT, argv[0], argv)
    with contextlib.suppress(ChildProcessError):
        while os.wait()[0] != child:
            pass


if __name__ == "__main__":
    what, place, port = sys.argv[1], sys.argv[2], sys.argv[3]
    if what == "forward":
        _forward(_bound_socket(place), lambda: socket.create_connection(("127.0.0.1", int(port))))
    elif what == "inwards":
        _forward(socket.create_server(("127.0.0.1", int(port))), lambda: _connected_socket(place))
    else:
        _first(sys.argv[2:])
