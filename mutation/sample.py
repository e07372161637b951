# SPDX-License-Identifier: Apache-2.0
"""Which mutants a run plants."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from mutation.kept import Kept
from mutation.mutant import Mutant

#: Of one function in one run, so that a run reaches many functions.
MOST_OF_A_FUNCTION = 8


def drawn(mutants: Mapping[str, Sequence[Mutant]], count: int, seed: int, kept: Kept) -> dict[str, list[Mutant]]:
    """A sample of each group, by its size; equivalent mutants are left out.

    The functions that were covered longest ago come first, those that never were before them, and chance decides
    among the same.
    """
    chance = random.Random(seed)
    known = kept.equivalent
    live = {name: [one for one in of_group if str(one) not in known] for name, of_group in mutants.items()}
    total = sum(map(len, live.values()))
    return {
        name: _of_group(of_group, round(count * len(of_group) / max(total, 1)), chance, kept)
        for name, of_group in live.items()
    }


def _of_group(mutants: Sequence[Mutant], count: int, chance: random.Random, kept: Kept) -> list[Mutant]:
    places = sorted({one.place for one in mutants})
    chance.shuffle(places)
    places.sort(key=lambda place: str(kept.covered[place].on) if place in kept.covered else "")
    found: list[Mutant] = []
    for place in places:
        of_place = [one for one in mutants if one.place == place]
        found += chance.sample(of_place, min(len(of_place), MOST_OF_A_FUNCTION, count - len(found)))
    return found
