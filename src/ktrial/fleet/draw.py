# SPDX-License-Identifier: Apache-2.0
"""Draws which machine is measured in which wave, and in pairs which one gets the arm, from facts and a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ktrial.fleet.file import FleetTable, wave_sizes
from ktrial.fleet.log import Machine
from ktrial.kit.errors import BadInput

#: Fewer pairs cannot give an interval of 95 %.
FEWEST_PAIRS = 6
_MOST_SEED = 2**31


class Draw(NamedTuple):
    """The machines that take part, and the others with the reason."""

    machines: tuple[Machine, ...]
    left_out: Mapping[str, str]


def draw(table: FleetTable, facts: Mapping[str, Mapping[str, str]], seed: int, arms: tuple[str, str]) -> Draw:
    """Return who takes part, from the facts of each host. `arms` are the control and the arm of pairs.

    Raise BadInput for too few machines.
    """
    rng = random.Random(seed)
    if table.design == "pairs":
        return _pairs(table, facts, rng, arms)
    hosts = sorted(facts)
    if not hosts:
        raise BadInput("no machine of the inventory can take part", hint="see the reasons above")
    rng.shuffle(hosts)
    machines: list[Machine] = []
    for wave, size in enumerate(wave_sizes(table, len(hosts)), 1):
        for host in hosts[len(machines) : len(machines) + size]:
            machines.append(Machine(host=host, wave=wave, seed=rng.randrange(_MOST_SEED), facts=facts[host]))
    return Draw(tuple(machines), {})


def _pairs(
    table: FleetTable, facts: Mapping[str, Mapping[str, str]], rng: random.Random, arms: tuple[str, str]
) -> Draw:
    alike: dict[tuple[str, ...], list[str]] = {}
    for host in sorted(facts):
        alike.setdefault(tuple(facts[host].get(fact, "unknown") for fact in table.match), []).append(host)
    pairs: list[tuple[str, str]] = []
    left_out: dict[str, str] = {}
    for group, hosts in alike.items():
        rng.shuffle(hosts)
        pairs += zip(hosts[::2], hosts[1::2], strict=False)
        if len(hosts) % 2:
            left_out[hosts[-1]] = f"no other machine has {_shown(table.match, group)}"
    if len(pairs) < FEWEST_PAIRS:
        raise BadInput(
            f"{len(facts)} machines make {len(pairs)} pairs that agree in {', '.join(table.match)} "
            f"(minimum {FEWEST_PAIRS})",
            hint='name fewer facts in `match`, add machines, or use design = "within"',
        )
    rng.shuffle(pairs)
    machines: list[Machine] = []
    sizes = wave_sizes(table, len(pairs))
    wave_of = [wave for wave, size in enumerate(sizes, 1) for _ in range(size)]
    for number, (pair, wave) in enumerate(zip(pairs, wave_of, strict=True), 1):
        # One coin per pair: which of the two hosts gets the arm.
        order = arms if rng.random() < 0.5 else arms[::-1]
        machines += (
            Machine(host=host, wave=wave, seed=rng.randrange(_MOST_SEED), facts=facts[host], pair=number, arm=arm)
            for host, arm in zip(pair, order, strict=True)
        )
    return Draw(tuple(machines), left_out)


def balance(machines: Sequence[Machine], names: Sequence[str]) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    """Return how many machines have each value of these facts: fact -> value -> arm or wave -> count."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name in names:
        for one in machines:
            group = one.arm or f"wave {one.wave}"
            counts = found.setdefault(name, {}).setdefault(one.facts.get(name, "unknown"), {})
            counts[group] = counts.get(group, 0) + 1
    return found


def _shown(names: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
