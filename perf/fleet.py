# SPDX-License-Identifier: Apache-2.0
"""The cost of a fleet's trial, and how often it claims an effect that is not there.

Run as root in a checkout that is set up:  .venv/bin/python -m perf.fleet [--errors N] [--machines N] [--steps N]

- Errors: A/A fleets on recorded noise, of each design. At most 5.6 % of 2,000 may claim a difference: 5 %, and what
  chance adds.
- Size: a coordinator of simulated machines with a real store, and Ansible with local connections and a program that
  answers from a recording: CPU time and memory for each machine, and how they grow.
- Steps: CPU time on the measured machine of one step of a trial, against one of Ansible's own modules.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ktrial.fleet.ansible import Ansible
from ktrial.fleet.conduct import Coordinator
from ktrial.fleet.guards import worse_p
from ktrial.fleet.log import FleetStanding
from ktrial.fleet.stepped import stepped_effect
from ktrial.fleet.store import StoredFleets
from ktrial.judge.sequential import call
from ktrial.judge.stats.blocked import one_look
from ktrial.judge.stats.machines import machine_effect, pool
from ktrial.results.store.database import Database
from perf.noise_sources import Generator, drawn, recorded, scaled
from tests.support.fleet import fleet_of
from tests.support.fleets import Simulated, began, fleet_trial, hosts

NOISE, BETWEEN, MARGIN = 0.03, 0.05, math.log1p(0.02)
MACHINES, BLOCKS, PAIRS, PERIODS = 8, 7, 12, 5
MOST_FALSE = 0.056
STEPS = (125, 250, 500, 1000)


def differences(generator: Generator, machines: int, shapes: list[np.ndarray]) -> np.ndarray:
    """Return block differences of machines under "no difference": two runs a block, in an order that a coin decides."""
    rows = drawn(generator, shapes, machines, 2 * BLOCKS).reshape(machines, BLOCKS, 2)
    coins = generator.choice((-1.0, 1.0), (machines, BLOCKS))
    found: np.ndarray = coins * (rows[:, :, 0] - rows[:, :, 1])
    return found


def claims_within(generator: Generator, shapes: list[np.ndarray]) -> bool:
    made = [machine_effect(str(at), one.tolist()) for at, one in enumerate(differences(generator, MACHINES, shapes))]
    found = pool(made)
    return call(found.low, found.high, MARGIN) in {"better", "worse"}


def levels(generator: Generator, shapes: list[np.ndarray], machines: int) -> np.ndarray:
    """Return the readings of machines that differ: a level for each machine, and the mean of its runs."""
    runs = drawn(generator, shapes, machines, 2 * BLOCKS).mean(axis=1)
    found: np.ndarray = generator.normal(0, BETWEEN, machines) + runs
    return found


def claims_pairs(generator: Generator, shapes: list[np.ndarray]) -> bool:
    coins = generator.choice((-1.0, 1.0), PAIRS)
    one, other = levels(generator, shapes, PAIRS), levels(generator, shapes, PAIRS)
    looked = one_look(coins * (one - other), 0.05)
    return looked is not None and call(looked[1], looked[2], MARGIN) in {"better", "worse"}


def claims_steps(generator: Generator, shapes: list[np.ndarray]) -> bool:
    own = generator.normal(0, BETWEEN, (MACHINES, 1)) + np.cumsum(generator.normal(0, BETWEEN, PERIODS))
    noise = np.stack([drawn(generator, shapes, PERIODS, 2 * BLOCKS).mean(axis=1) for _ in range(MACHINES)])
    switch = generator.permutation(np.repeat(np.arange(1, PERIODS), MACHINES // (PERIODS - 1)))
    looked = stepped_effect(own + noise, switch, 0.05)
    return looked is not None and call(looked[1], looked[2], MARGIN) in {"better", "worse"}


def breaks_guard(generator: Generator, shapes: list[np.ndarray]) -> bool:
    """Return whether a harmless arm breaks the guard after one of three waves."""
    every = differences(generator, MACHINES, shapes)
    waves = (every[:1], every[:3], every)
    return any(worse_p(seen.ravel()) <= 0.05 / len(waves) for seen in waves)


def show_errors(count: int, seed: int) -> bool:
    """Print how often each design claims a difference in A/A fleets; return whether the limit holds."""
    print(f"## A/A fleets on recorded noise of {100 * NOISE:g} %: {count} of each\n")
    shapes = scaled(recorded(), NOISE)
    kinds: dict[str, Callable[[Generator, list[np.ndarray]], bool]] = {
        f"within {MACHINES} machines": claims_within,
        f"{PAIRS} pairs": claims_pairs,
        f"stepped waves, {MACHINES} machines": claims_steps,
        "guard, three waves": breaks_guard,
    }
    good = True
    for name, claims in kinds.items():
        generator = np.random.default_rng(seed)
        share = sum(claims(generator, shapes) for _ in range(count)) / count
        good &= share <= MOST_FALSE
        print(f"{name:34} {100 * share:5.2f} % false (at most {100 * MOST_FALSE:g} %)")
    return good


def cpu_s(*, children: bool = False) -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class _Stored:
    """A lease that stores events, and counts nothing."""

    def __init__(self, world: Simulated, lease: Any) -> None:
        self._world, self._lease = world, lease

    def append(self, *events: Any) -> None:
        self._lease.append(*events)
        self._world.append(*events)


def show_coordinator(most: int) -> None:
    """Print what a coordinator needs for each simulated machine, up to `most` machines."""
    print("\n## A coordinator of simulated machines, with its store\n")
    for count in [step for step in STEPS if step <= most]:
        with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as folder:
            database = Database.open(f"{folder}/results.db")
            fleets = StoredFleets(lambda: database)  # noqa: B023 (used within this turn)
            first = began(fleet_trial(waves=(1, "25%", "100%")), hosts(count))
            fleets.begin(first)
            standing = FleetStanding([first])
            world = Simulated(standing)
            lease = _Stored(world, fleets.take(first.fleet, "perf"))
            before, since_s = cpu_s(), time.monotonic()
            Coordinator(standing, lease, world, world, world.log, lambda _: None).carry_out()
            used, took_s = cpu_s() - before, time.monotonic() - since_s
            size = Path(folder, "results.db").stat().st_size
            database.close()
        print(
            f"{count:5} machines: {1000 * used / count:6.2f} ms CPU each, {took_s:6.1f} s in all, "
            f"{size / count / 1000:5.1f} kB in the store each, {memory_mb():.0f} MB peak"
        )


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


#: Answers like `ktrial … trial …` from a recording.
_PROGRAM = """\
#!/bin/sh
case "$*" in
*"trial list"*) echo '{"schema":"ktrial.trials/1","trials":[]}';;
*) echo '{"event":"turn","trial":"x-1","state":"running","blocks":0,"cap":7,"next_look_s":60.0}';;
esac
"""


def show_ansible(most: int) -> None:
    """Print what Ansible needs to start a step on up to `most` machines with local connections."""
    print("\n## Ansible with local connections, one step on each machine, 8 at a time\n")
    for count in [step for step in STEPS if step <= most]:
        with tempfile.TemporaryDirectory(prefix="ktrial-perf-") as folder:
            place = Path(folder)
            program = place / "ktrial"
            program.write_text(_PROGRAM)
            program.chmod(0o755)
            inventory = place / "hosts.ini"
            inventory.write_text("".join(f"m{at} ansible_connection=local\n" for at in range(count)))
            (place / "trial.toml").write_text('name = "x"\n')
            ansible = Ansible([str(inventory)], [str(program)], place, limit=None, forks=8, store=f"{folder}/db")
            arguments = {f"m{at}": {"state": "started", "file": f"{folder}/trial.toml"} for at in range(count)}
            before, since_s = cpu_s() + cpu_s(children=True), time.monotonic()
            states = [one.state for one in ansible.run("trial", arguments) if one is not None]
            took_s = time.monotonic() - since_s
            used = cpu_s() + cpu_s(children=True) - before
        assert states.count("ok") == count, states[:3]
        print(f"{count:5} machines: {took_s:6.1f} s, {used / count:6.3f} s CPU each here")


def there_cpu_s(machine: Any) -> float:
    """Return the CPU time of all finished sessions of the machine's sshd."""
    ticks = os.sysconf("SC_CLK_TCK")
    text = machine.run("sh", "-c", "cat /proc/$(pgrep -o -x sshd)/stat")
    fields = text.rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / ticks


def show_steps(count: int) -> None:
    """Print the CPU time of a step of a trial on the measured machine, and of one of Ansible's own modules."""
    print(f"\n## CPU time on the measured machine, mean of {count}\n")
    with fleet_of(["m1"]) as fleet:
        fleet.write_trial({})
        machine = fleet.machines["m1"]
        environment = {**fleet.environment(), "ANSIBLE_SSH_ARGS": "-o ControlMaster=no"}
        ansible = str(Path(sys.executable).with_name("ansible"))
        ping = [ansible, "-i", str(fleet.inventory), "m1", "-m", "ansible.builtin.setup", "-a", "gather_subset=min"]
        facts = [sys.executable, "-m", "ktrial", "--host", "ssh:m1", "facts", "--json"]
        ssh = {"KTRIAL_SSH": f"ssh -F {machine.ssh_config}"}
        words = {"Ansible's own facts module": ping, "facts of ktrial": facts}
        means = {}
        for name, argv in words.items():
            before = there_cpu_s(machine)
            for _ in range(count):
                subprocess.run(argv, env={**environment, **ssh}, check=True, capture_output=True)
            means[name] = (there_cpu_s(machine) - before) / count
            print(f"{name:32} {means[name]:6.3f} s")
        ratio = means["facts of ktrial"] / means["Ansible's own facts module"]
        print(f"ratio {ratio:.2f} of what a module of Ansible's takes there")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--errors", type=int, default=2000, help="A/A fleets of each design")
    parser.add_argument("--machines", type=int, default=1000, help="most machines of the simulations")
    parser.add_argument("--steps", type=int, default=10, help="steps on a measured machine")
    parser.add_argument("--seed", type=int, default=33)
    given = parser.parse_args(arguments)
    good = show_errors(given.errors, given.seed) if given.errors else True
    if given.machines:
        show_coordinator(given.machines)
        show_ansible(given.machines)
    if given.steps:
        show_steps(given.steps)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
