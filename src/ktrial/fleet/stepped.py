# SPDX-License-Identifier: Apache-2.0
"""Tests an arm that machines get wave by wave, by permuting which machine is in which wave.

Least squares remove the differences between machines and between periods. Under "no difference" every order of the
waves was equally likely, because chance drew it: the test assumes nothing about the noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ktrial.judge.sequential import Array

_ORDERS = 4_000
_SEED = 34
_HALVINGS = 40
#: Statistics closer than this are equal.
_SAME = 1e-9


def stepped_effect(levels: Array, switch: Array, alpha: float) -> tuple[float, float, float] | None:
    """Return the estimated effect and its interval; None if there are too few orders of the waves.

    `levels` has a row per machine and a column per period; `switch` is the first period with the arm, for each machine.
    """
    machines, periods = levels.shape
    generator = np.random.Generator(np.random.PCG64(_SEED))
    drawn = np.stack([switch, *(generator.permutation(switch) for _ in range(_ORDERS - 1))])
    treated = (np.arange(periods) >= drawn[:, :, None]).astype(np.float64)
    centred = _centred(treated)
    sizes = (centred**2).sum(axis=(1, 2))
    own = treated[0]

    def effects(shift: float) -> Array:
        found: Array = np.tensordot(centred, levels - shift * own, axes=([1, 2], [0, 1])) / sizes
        return found

    def accepts(shift: float) -> bool:
        found = np.abs(effects(shift))
        return float(np.mean(found >= found[0] - _SAME)) > alpha

    estimate = float(effects(0.0)[0])
    reach = max(float(np.ptp(levels)), abs(estimate), _SAME) * 4
    if accepts(estimate + reach) or accepts(estimate - reach) or machines < 2:
        return None
    return estimate, _edge(accepts, estimate, estimate - reach), _edge(accepts, estimate, estimate + reach)


def _centred(treated: Array) -> Array:
    """Return which machine has the arm in which period, without the means of machines and periods."""
    rows, columns = treated.mean(axis=2, keepdims=True), treated.mean(axis=1, keepdims=True)
    found: Array = treated - rows - columns + treated.mean(axis=(1, 2), keepdims=True)
    return found


def _edge(accepts: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the effect at which the test begins to reject."""
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if accepts(middle) else (inside, middle)
    return inside
