# SPDX-License-Identifier: Apache-2.0
"""Draws which machine is measured in which wave, and which machine of a pair gets the arm, from facts and a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ktrial.fleet.file import FleetTable, wave_sizes
from ktrial.fleet.log import FleetMachine
from ktrial.kit.errors import BadInput

#: Fewer pairs cannot give a 95 % interval.
FEWEST_PAIRS = 6
#: Fewer orders of the waves cannot show an effect at 95 %.
FEWEST_ORDERS = 40
_MOST_SEED = 2**31

#: The facts of each host, as text.
Facts: TypeAlias = Mapping[str, Mapping[str, str]]


class Draw(NamedTuple):
    """The machines that take part, and the reason why each of the others does not."""

    machines: tuple[FleetMachine, ...]
    left_out: Mapping[str, str]


def draw(table: FleetTable, facts: Facts, seed: int, arms: tuple[str, str]) -> Draw:
    """Return which machines take part, from the facts of each host.

    `arms` are the control and the other arm, for designs in which a machine has one arm at a time. Raise BadInput if
    there are too few machines, or if the fact `near` is not a number.
    """
    if not facts:
        raise BadInput("no machine of the inventory can take part", hint="read above why each machine is left out")
    rng = random.Random(seed)
    if table.design == "pairs":
        return _pairs(table, facts, rng, arms)
    hosts = sorted(facts)
    if table.design == "stepped":
        return Draw(_stepped(table, hosts, facts, rng, arms), {})
    rng.shuffle(hosts)
    machines: list[FleetMachine] = []
    for wave, size in enumerate(wave_sizes(table, len(hosts)), 1):
        for host in hosts[len(machines) : len(machines) + size]:
            machines.append(FleetMachine(host=host, wave=wave, seed=rng.randrange(_MOST_SEED), facts=facts[host]))
    return Draw(tuple(machines), {})


def _pairs(table: FleetTable, facts: Facts, rng: random.Random, arms: tuple[str, str]) -> Draw:
    alike: dict[tuple[str, ...], list[str]] = {}
    for host in sorted(facts):
        alike.setdefault(tuple(facts[host].get(fact, "unknown") for fact in table.match), []).append(host)
    pairs: list[tuple[str, str]] = []
    left_out: dict[str, str] = {}
    for group, members in alike.items():
        hosts = _in_order(members, facts, table.near, rng)
        pairs += zip(hosts[::2], hosts[1::2], strict=False)
        if len(hosts) % 2:
            left_out[hosts[-1]] = f"no other machine has {_pairs_text(table.match, group)}"
    if len(pairs) < FEWEST_PAIRS:
        raise BadInput(
            f"{len(facts)} machines make {len(pairs)} pairs that agree in {', '.join(table.match)} "
            f"(minimum {FEWEST_PAIRS})",
            hint='name fewer facts in `match`, add machines, or use design = "within"',
        )
    rng.shuffle(pairs)
    machines: list[FleetMachine] = []
    sizes = wave_sizes(table, len(pairs))
    wave_of = [wave for wave, size in enumerate(sizes, 1) for _ in range(size)]
    for number, (pair, wave) in enumerate(zip(pairs, wave_of, strict=True), 1):
        # One coin per pair decides which of the two hosts gets the arm.
        order = arms if rng.random() < 0.5 else arms[::-1]
        machines += (
            FleetMachine(host=host, wave=wave, seed=rng.randrange(_MOST_SEED), facts=facts[host], pair=number, arm=arm)
            for host, arm in zip(pair, order, strict=True)
        )
    return Draw(tuple(machines), left_out)


def _in_order(hosts: list[str], facts: Facts, near: str | None, rng: random.Random) -> list[str]:
    """Return the hosts in the order in which neighbours form pairs: by the number `near`, otherwise at random."""
    rng.shuffle(hosts)
    if near is None or len(hosts) < 2:
        return hosts
    try:
        return sorted(hosts, key=lambda host: float(facts[host][near]))
    except (KeyError, ValueError):
        raise BadInput(f"fleet: {near} is not a number on every machine", hint="name another fact in `near`") from None


def _stepped(
    table: FleetTable, hosts: list[str], facts: Facts, rng: random.Random, arms: tuple[str, str]
) -> tuple[FleetMachine, ...]:
    """Return every machine once per period: no wave has the arm in the first period, one more in each later period."""
    rng.shuffle(hosts)
    sizes = wave_sizes(table, len(hosts))
    if orders(sizes) < FEWEST_ORDERS:
        raise BadInput(
            f"{len(hosts)} machines in waves of {', '.join(map(str, sizes))} can be drawn in {orders(sizes)} orders "
            f"(minimum {FEWEST_ORDERS})",
            hint="add machines, or make more waves",
        )
    wave_of = [wave for wave, size in enumerate(sizes, 1) for _ in range(size)]
    return tuple(
        FleetMachine(
            host=host,
            wave=period + 1,
            seed=rng.randrange(_MOST_SEED),
            facts=facts[host],
            arm=arms[1] if wave <= period else arms[0],
            switch=wave,
        )
        for period in range(len(sizes) + 1)
        for host, wave in zip(hosts, wave_of, strict=True)
    )


def orders(sizes: Sequence[int]) -> int:
    """Return the number of ways to put machines into waves of these `sizes`."""
    return math.factorial(sum(sizes)) // math.prod(math.factorial(size) for size in sizes)


def balance(machines: Sequence[FleetMachine], names: Sequence[str]) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    """Return how many machines have each value of the facts in `names`: fact -> value -> arm or wave -> count."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name in names:
        for one in machines:
            group = one.arm or f"wave {one.wave}"
            counts = found.setdefault(name, {}).setdefault(one.facts.get(name, "unknown"), {})
            counts[group] = counts.get(group, 0) + 1
    return found


def _pairs_text(names: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
