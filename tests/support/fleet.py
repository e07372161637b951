# SPDX-License-Identifier: Apache-2.0
"""Several machines with sshd and one inventory, and a program whose result depends on a setting of the machine."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.remote_machine import CHECKOUT, USER, RemoteMachine, remote_machine

SOMAXCONN = "/proc/sys/net/core/somaxconn"
#: The program prints a value of about 1000 with noise, which changes by a share if somaxconn is 512.
_PROGRAM = """\
import pathlib, random, socket, sys
shares = dict(word.split("=") for word in sys.argv[1].split(","))
value = 1000 * (1 + random.gauss(0, 0.004))
if pathlib.Path("/proc/sys/net/core/somaxconn").read_text().strip() == "512":
    value *= 1 + float(shares.get(socket.gethostname(), 0))
print("value", round(value, 3))
"""
_TRIAL = """\
name = "{name}"
command = ["{python}", "{program}", "{shares}"]
metrics = ["value_ms:lower=value ([0-9.]+)"]
{top}
[design]
settle = "0s"
seed = {seed}

[arms.control]
[arms.big]
set = {{ "net.core.somaxconn" = 512 }}

[fleet]
{fleet}
"""


_LIVE_TRIAL = """\
name = "live"
{top}
[live]
metrics = ["app_s:lower=openmetrics:http://127.0.0.1:{port}/{{host}}/metrics?name=app_seconds&poll=0.2s"]
period = "{period}"
washout = "0.4s"
{live}
[design]
seed = {seed}

[arms.control]
[arms.big]
set = {{ "net.core.somaxconn" = 512 }}

[fleet]
{fleet}
"""


class LiveWork:
    """A page of metrics for each machine of a fleet: the time of a request there with the current somaxconn."""

    def __init__(self, fleet: Fleet, shares: Mapping[str, float], *, absent: Sequence[str] = ()) -> None:
        noise = random.Random(7)
        #: The requested pages, each with its time.
        self.asked: list[tuple[float, str]] = []

        class Page(BaseHTTPRequestHandler):
            def do_GET(page) -> None:  # noqa: N805 (the fleet is `self`)
                host = page.path.split("/")[1]
                is_known = host in fleet.machines and host not in absent
                page.send_response(200 if is_known else 404)
                page.end_headers()
                if is_known:
                    self.asked.append((time.monotonic(), host))
                    has_arm = fleet.machines[host].read(SOMAXCONN) == "512"
                    value = (1 + shares.get(host, 0.0) * has_arm) * noise.lognormvariate(0, 0.01)
                    text = f"# TYPE app_seconds gauge\napp_seconds {value}\n"
                    page.wfile.write(text.encode())

            def log_message(page, *_: object) -> None:  # noqa: N805
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> LiveWork:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Fleet:
    """Machines by name, and a user here whose inventory has all of them in the group `web`."""

    def __init__(self, folder: Path, machines: Mapping[str, RemoteMachine]) -> None:
        self.folder, self.machines = folder, machines
        self.inventory = folder / "hosts.ini"
        lines = [
            f"{name} ansible_host={name} ansible_user={USER} ansible_become=true rack={number % 2} "
            f'ansible_ssh_common_args="-F {one.ssh_config}"'
            for number, (name, one) in enumerate(machines.items())
        ]
        self.inventory.write_text("[web]\n" + "\n".join(lines) + "\n")
        self.program = folder / "program.py"
        self.program.write_text(_PROGRAM)

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in {"KTRIAL_STORE", "XDG_STATE_HOME"}}
        here = self.folder / "here"
        folders = {name: str(here / name.lower()) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
        return {**kept, **folders, "PYTHONPATH": str(CHECKOUT / "src"), "HOME": str(self.folder)}

    def write_trial(self, shares: Mapping[str, float], *, fleet: str = "", top: str = "", seed: int = 1) -> Path:
        """Write a trial whose program is slower or faster by these shares when the arm is in force on a machine."""
        path = self.folder / "trial.toml"
        path.write_text(
            _TRIAL.format(
                name="backlog",
                python="/usr/bin/python3",
                program=self.program,
                shares=",".join(f"{name}={share}" for name, share in shares.items()) or "none=0",
                top=top,
                fleet=fleet,
                seed=seed,
            )
        )
        return path

    def write_live(
        self, work: LiveWork, *, period: str = "0.8s", live: str = "", fleet: str = "", top: str = "", seed: int = 1
    ) -> Path:
        """Write a trial on the live work of the machines."""
        path = self.folder / "trial.toml"
        path.write_text(_LIVE_TRIAL.format(port=work.port, period=period, live=live, fleet=fleet, top=top, seed=seed))
        return path

    def words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "ktrial", "fleet", *words]

    def ktrial(self, *words: str, store: str | None = None, timeout_s: float = 560) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.words(*words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**self.environment(), **({} if store is None else {"KTRIAL_STORE": store})},
        )

    def run(self, *words: str, store: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the trial on all machines."""
        trial = str(self.folder / "trial.toml")
        return self.ktrial("run", trial, "-i", str(self.inventory), "-y", *words, store=store)

    def values(self) -> dict[str, str]:
        return {name: one.read(SOMAXCONN) for name, one in self.machines.items()}


@contextlib.contextmanager
def fleet_of(names: Sequence[str], **options: str) -> Iterator[Fleet]:
    """Yield machines with these options for the time of a test."""
    with contextlib.ExitStack() as stack:
        machines = {name: stack.enter_context(remote_machine(name, **options)) for name in names}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ktrial-fleet-")))
        folder.chmod(0o755)
        yield Fleet(folder, machines)
