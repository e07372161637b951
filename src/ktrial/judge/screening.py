# SPDX-License-Identifier: Apache-2.0
"""Foldover screening: find which of many settings causes a difference.

Each block runs a configuration with about half of the settings on, and its complement. The difference between the two
is the sum of all effects, each with the sign of its setting. Every block thus measures every setting, and drift and
interactions of two settings cancel out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ktrial.judge.stats.arrays import Array
from ktrial.kit.startup import load_special

#: Names of arms are this prefix and a hexadecimal bit mask of the settings that are on; the first is the lowest bit.
ARM_PREFIX = "on-"
#: The first look comes after this block, the next ones after every `LOOK_EACH` blocks, up to the cap.
FIRST_LOOK, LOOK_EACH, CAP = 12, 4, 72
#: One-sided error of naming a setting, shared by all settings.
_ERROR = 0.02
#: Maximum number of settings that one screening names.
MOST_NAMED = 4
#: Blocks needed in addition to one per coefficient, to estimate the noise.
_SPARE = 3

Signs = NDArray[np.int8]
#: Whether all settings together are known to help (1), to harm (-1), or neither (0).
Direction = Literal[1, -1, 0]


class Screening(NamedTuple):
    """The result of a search for suspects at one look.

    `named` are the places of the suspected settings, clearest first. `effects` are the effects of turning these
    settings on, in the same order, on the scale of the differences. `over` is true if the search may stop.
    """

    named: tuple[int, ...]
    effects: tuple[float, ...]
    blocks: int
    over: bool


def configuration(settings: int, seed: int, block: int) -> Signs:
    """Return 1 for each setting that is on in the block's first configuration, -1 for the others; blocks start at 1."""
    order = 1 << max(1, math.ceil(math.log2(settings + 1)))
    deck, place = divmod(block - 1, order - 1)
    generator = np.random.default_rng((seed, deck))
    rows, columns = generator.permutation(order - 1), generator.permutation(order - 1)[:settings]
    return _signs(order, int(rows[place]) + 1, columns + 1)


def _signs(order: int, row: int, columns: NDArray[np.intp]) -> Signs:
    """Return the signs of one row of a Sylvester Hadamard matrix: -1 if row and column share an odd number of bits."""
    shared = columns & row
    parity = np.zeros(len(columns), dtype=np.intp)
    for bit in range(order.bit_length()):
        parity ^= (shared >> bit) & 1
    return np.where(parity, -1, 1).astype(np.int8)


def arm_of(signs: Signs) -> str:
    """Return the name of the arm in which only the settings whose sign is 1 are on."""
    return f"{ARM_PREFIX}{sum(1 << place for place, sign in enumerate(signs.tolist()) if sign > 0):x}"


def on_in(arm: str, settings: int) -> tuple[int, ...]:
    bits = int(arm.removeprefix(ARM_PREFIX), 16)
    return tuple(place for place in range(settings) if bits >> place & 1)


def arms_of(settings: int, seed: int, blocks: int) -> tuple[str, ...]:
    rows = [configuration(settings, seed, block + 1) for block in range(blocks)]
    return tuple(dict.fromkeys(name for row in rows for name in (arm_of(row), arm_of(-row))))


def design(settings: int, seed: int, blocks: int) -> Signs:
    return np.array([configuration(settings, seed, block + 1) for block in range(blocks)]).reshape(blocks, settings)


def last_look(blocks: int) -> int:
    """Return the number of blocks at the latest look; 0 before the first look."""
    return 0 if blocks < FIRST_LOOK else blocks - (blocks - FIRST_LOOK) % LOOK_EACH


def screen(
    configurations: Signs, differences: Sequence[float] | Array, direction: Direction, outcomes: int = 1
) -> Screening:
    """Return the settings that the blocks so far point to; none unless a look is due after this number of blocks.

    `differences` holds for each block the score of its configuration minus the score of the complement. Only effects in
    `direction` count; 0 means both directions. `outcomes` is the number of outcomes that share the error rate of naming
    a setting wrongly.
    """
    score = np.asarray(differences, dtype=np.float64)
    blocks, settings = len(score), configurations.shape[1]
    if blocks == 0 or last_look(blocks) != blocks:
        return Screening((), (), blocks, over=blocks >= CAP)
    signs = configurations[:blocks].astype(np.float64)
    named: list[int] = []
    effects: Array = np.empty(0)
    while len(named) < min(MOST_NAMED, settings) and blocks > len(named) + 1 + _SPARE:
        residual = score - signs[:, named] @ effects
        leaning = signs.T @ residual / blocks
        strength = direction * leaning if direction else np.abs(leaning)
        strength[named] = -np.inf
        candidate = int(np.argmax(strength))
        found = _last_coefficient(signs[:, [*named, candidate]], score, direction)
        if found is None or found.p > _ERROR / (settings * outcomes):
            break
        named.append(candidate)
        effects = found.effects
    return Screening(tuple(named), tuple(effects.tolist()), blocks, over=bool(named) or blocks >= CAP)


class _Fit(NamedTuple):
    effects: Array
    p: float
    error: float


def coefficients(
    configurations: Signs,
    differences: Sequence[float] | Array,
    named: Sequence[int],
    direction: Direction,
    outcomes: int = 1,
) -> list[tuple[float, float, float]]:
    """Return (effect, low, high) of every setting, each fitted together with the settings in `named`.

    The intervals use the error rate of naming a setting wrongly.
    """
    special = load_special()

    score = np.asarray(differences, dtype=np.float64)
    signs = configurations[: len(score)].astype(np.float64)
    settings = signs.shape[1]
    error = _ERROR / (settings * outcomes) / (1 if direction else 2)
    found = []
    for place in range(settings):
        columns = [*(one for one in named if one != place), place]
        fitted = _last_coefficient(signs[:, columns], score, direction)
        if fitted is None:
            found.append((0.0, -math.inf, math.inf))
            continue
        reach = fitted.error * float(special.stdtrit(len(score) - len(columns), 1 - error))
        effect = float(fitted.effects[-1])
        found.append((effect, effect - reach, effect + reach))
    return found


def _last_coefficient(signs: Array, score: Array, direction: Direction) -> _Fit | None:
    """Return a least-squares fit with the p of the last column, one-sided unless `direction` is 0.

    None if the columns are linearly dependent.
    """
    special = load_special()

    solved, _, rank, _ = np.linalg.lstsq(signs, score, rcond=None)
    effects: Array = np.asarray(solved, dtype=np.float64)
    free = len(score) - signs.shape[1]
    if rank < signs.shape[1]:
        return None
    residual = score - signs @ effects
    variance = float(residual @ residual) / free
    error = math.sqrt(variance * float(np.linalg.inv(signs.T @ signs)[-1, -1]))
    if error == 0:
        return _Fit(effects, 0.0 if effects[-1] * (direction or math.copysign(1, effects[-1])) > 0 else 1.0, 0.0)
    t = float(effects[-1]) / error
    p = float(special.stdtr(free, -abs(t) if direction == 0 else -direction * t))
    return _Fit(effects, 2 * p if direction == 0 else p, error)
