# SPDX-License-Identifier: Apache-2.0
"""The cost of another machine: `facts` over ssh against `ssh HOST true`, bytes of a visit, packets during a run.

Run as root in a checkout that is set up:  .venv/bin/python -m perf.remote

The machine is a namespace of this one behind a real sshd; both sides share an ssh connection (ControlMaster).
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

from perf.side_by_side import measure, report
from tests.support.remote_machine import RemoteMachine, remote_machine
from tests.support.terminal import eventually

ROUNDS = 15
PEER = "ssh web1 true"
#: Delay in each direction, as to a machine in the same building.
DELAY_S = 0.001
SLEEP = ("sleep", "6.03")
BLOCKS = 7


def run_command(machine: RemoteMachine, *words: str) -> None:
    """Run a command to its end; fail if it prints nothing."""
    with subprocess.Popen(
        machine.command(*words),
        env=machine.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as started:
        assert started.stdout is not None
        assert started.stdout.read(1)
        started.stdout.read()


def connect(machine: RemoteMachine) -> None:
    subprocess.run(["ssh", "web1", "true"], env=machine.environment(), check=True)


def traffic(machine: RemoteMachine) -> tuple[int, int, int]:
    return machine.way.to_bytes, machine.way.from_bytes, machine.way.pieces


def spent(machine: RemoteMachine, *words: str) -> tuple[int, int, int]:
    """Return the bytes in both directions and the number of pieces of a command."""
    before = traffic(machine)
    done = machine.ktrial(*words)
    assert done.returncode == 0, done.stderr
    there, back, pieces = (after - first for after, first in zip(traffic(machine), before, strict=True))
    return there, back, pieces


def pieces_during_a_run(machine: RemoteMachine) -> int:
    """Return the number of pieces in 4 s in the middle of a run."""
    with subprocess.Popen(
        machine.command("bench", "-n", "1", "--", *SLEEP),
        env=machine.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as bench:
        assert eventually(lambda: bool(machine.processes(" ".join(SLEEP))))
        time.sleep(1)
        before = machine.way.pieces
        time.sleep(4)
        crossed = machine.way.pieces - before
        assert machine.processes(" ".join(SLEEP)), "the run ended too early"
        assert bench.wait() == 0
    return crossed


def visits(machine: RemoteMachine) -> tuple[float, float]:
    """Return bytes and pieces of one visit of a trial, which are the difference of two more blocks of two visits."""
    found = []
    for blocks in (BLOCKS, 2 * BLOCKS):
        words = ("--no-profile", "--settle", "0s", "--margin", "0.01%", "--budget", str(blocks), "--", "sleep", "0.02")
        there, back, pieces = spent(machine, "try", "net.core.somaxconn=512", *words)
        found.append((there + back, pieces))
    added = 2 * BLOCKS
    return (found[1][0] - found[0][0]) / added, (found[1][1] - found[0][1]) / added


def main() -> int:
    """Measure and print; return 1 if anything is sent during a run."""
    with remote_machine(ssh="ControlMaster auto\nControlPath /tmp/ktrial-perf-%C\nControlPersist 60") as machine:
        machine.way.delay_s = DELAY_S
        connect(machine)
        words = ("facts", "--json")
        there, back, pieces = spent(machine, *words)
        print(f"facts, the agent is copied: {there:,} bytes there, {back:,} back, {pieces:,} pieces")
        actions = {PEER: partial(connect, machine), "facts, the agent is copied": partial(run_command, machine, *words)}
        times = measure(actions, ROUNDS)
        report(times, PEER, {})
        print()
        spent(machine, "--host-keep-agent", *words)
        there, back, pieces = spent(machine, *words)
        print(f"facts, the agent is there: {there:,} bytes there, {back:,} back, {pieces:,} pieces")
        actions = {PEER: partial(connect, machine), "facts, the agent is there": partial(run_command, machine, *words)}
        report(measure(actions, ROUNDS), PEER, {})
        size, pieces_each = visits(machine)
        print(f"\na visit of a trial: {size:,.0f} bytes both ways, {pieces_each:.0f} pieces")
        crossed = pieces_during_a_run(machine)
        print(f"pieces in 4 s of a run: {crossed} (goal 0: {'met' if crossed == 0 else 'MISSED'})")
        subprocess.run(["ssh", "-O", "exit", "web1"], env=machine.environment(), check=False, capture_output=True)
        return 0 if crossed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
