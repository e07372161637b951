# SPDX-License-Identifier: Apache-2.0
"""CPU time of the agent for each visit of a plan that it carries out by itself, against a trial as a conversation.

Run as root in a checkout that is set up:  .venv/bin/python -m perf.unattended

CPU time is that of the agent's own processes, without the commands that it runs and the relay of the connection.
Differences of two trials exclude the cost of the first blocks, such as the snapshots of the machine's state.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import threading
from pathlib import Path

from ktrial.agent.binary import find_agent
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from tests.support.remote_machine import RemoteMachine, remote_machine

SETTING, VALUE = "net.core.somaxconn", 512
FEW, MANY = 7, 35
#: Milliseconds for each visit, besides apply and revert.
GOAL_MS = 10.0
PEER = "the same trial as a conversation"
_PAIRS = 200
_POLL_S = 0.02
_TICK_MS = 1e3 / os.sysconf("SC_CLK_TCK")


def own_ticks(process: Path) -> int:
    """Return the CPU ticks of a process itself."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


class AgentCpu:
    """The CPU time of the agent's processes below a folder, while it watches."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = dict[int, int]()
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)

    def __enter__(self) -> AgentCpu:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()

    @property
    def ms(self) -> float:
        return sum(self._seen.values()) * _TICK_MS

    def _watch(self) -> None:
        while not self._over.wait(_POLL_S):
            for process in Path("/proc").iterdir():
                try:
                    if process.name.isdigit() and self._is_agent(process):
                        self._seen[int(process.name)] = own_ticks(process)
                except OSError:  # the process has just ended
                    continue

    def _is_agent(self, process: Path) -> bool:
        if not (process / "exe").readlink().is_relative_to(self._folder):
            return False
        return (process / "cmdline").read_bytes().split(b"\0")[1:2] != [b"relay"]


def trial(machine: RemoteMachine, blocks: int, *options: str) -> tuple[float, int]:
    """Return the milliseconds of CPU time that a trial takes there, and the number of its visits."""
    words = ("--no-profile", "--settle", "0s", "--margin", "0.01%", "--budget", str(blocks), "--json", *options)
    with AgentCpu(machine.home) as spent:
        done = machine.ktrial("try", f"{SETTING}={VALUE}", *words, "--", "true")
    assert done.returncode in {0, 1}, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return spent.ms, sum(event["event"] == "visit" for event in events)


def visit_ms(machine: RemoteMachine, *options: str) -> float:
    """Return the cost of one visit, from the difference of two trials."""
    (few_ms, few), (many_ms, many) = (trial(machine, blocks, *options) for blocks in (FEW, MANY))
    print(f"{many} and {few} visits took {many_ms:.0f} and {few_ms:.0f} ms of the agent's CPU")
    return (many_ms - few_ms) / (many - few)


def apply_ms(state: str) -> float:
    """Return the milliseconds of CPU time for half an apply and revert, because every other visit has the setting."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    session = AgentSession(ProcessTransport([str(find_agent()), "serve", "--role", "root", "--state", state]))
    place = Path("/proc/sys") / SETTING.replace(".", "/")
    step = {"kind": "write", "knob": SETTING, "path": str(place), "new": f"{VALUE}\n", "verify": "integer"}
    step["expect"] = place.read_text()
    plan = {"schema": "ktrial.plan/2", "title": "perf", "lease": {"kind": "while-session"}, "keep_going": False}
    for _ in range(_PAIRS):
        assert session.request("apply", plan={**plan, "steps": [step]})["state"] == "applied"
        session.request("revert", select="newest")
    session.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent_s * 1e3 / _PAIRS / 2


def main() -> int:
    """Measure and print; return 1 if the goal is missed."""
    with remote_machine() as machine:
        machine.ktrial("--host-keep-agent", "facts", "kernel.release")
        plan, peer = visit_ms(machine, "--unattended"), visit_ms(machine)
    with tempfile.TemporaryDirectory() as state:
        settings = apply_ms(state)
    beyond = plan - settings
    print("CPU of the agent for each visit that runs `true`, the difference of two trials")
    print(f"  a plan that the machine carries out   {plan:6.1f} ms")
    print(f"  {PEER:37} {peer:6.1f} ms   ratio {plan / peer:.2f}x")
    print(f"  of it apply and revert of {SETTING:11} {settings:6.1f} ms   (half: every other visit has the setting)")
    print(f"  beyond apply and revert               {beyond:6.1f} ms", end="")
    print(f"   goal at most {GOAL_MS:g} ms: {'met' if beyond <= GOAL_MS else 'MISSED'}")
    return 0 if beyond <= GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
