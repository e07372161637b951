# SPDX-License-Identifier: Apache-2.0
"""Covariates: other causes of an effect that a live trial declares in advance, such as load or time of day.

A trial may be judged at equal covariates (`judge.equal_covariates`). In any case, a regression over the blocks of a
finished trial gives the effect at equal covariates beside the verdict. Its p and interval come from flipping whole
blocks, difference and covariates together, because chance drew the order within a block.

A covariate that the arm itself changes is not another cause: an adjustment for it removes a part of the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from ktrial.judge.model.verdict import Effect
from ktrial.judge.sequential import Array
from ktrial.judge.stats.covariate import regress_differences
from ktrial.judge.stats.signflip import difference_interval, share_of_flips, shift_interval, sign_flip_p, signs_of
from ktrial.kit.finding import Finding

#: With this p or a smaller one, the arm itself changes the covariate.
_P_CHANGED = 0.01
_RAW = "mean of block differences, interval by sign flips"
_ADJUSTED = "least squares of block differences with covariates, interval by flipping blocks"


class AdjustedEffect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of an arm without and with adjustment. `changed` holds the p of each covariate that the arm changes.

    `slopes` says how much the score changes with each covariate.
    """

    raw: Effect
    raw_p: float
    adjusted: Effect
    adjusted_p: float
    slopes: Mapping[str, float]
    changed: Mapping[str, float]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(
            Finding(
                kind="covariate-changed",
                level="suspect",
                sentence=f"the arm changes {name} (p = {p:.2g}), and the adjusted effect leaves out what the arm does "
                f"through {name}",
                values={"p": p},
            )
            for name, p in self.changed.items()
        )


def adjust_effect(differences: Array, apart: Mapping[str, Array], alpha: float = 0.05) -> AdjustedEffect | None:
    """Return the raw and the adjusted effect, from differences of score and covariates in complete blocks.

    A difference is arm - control; `apart` has the differences of each covariate. Return None if there are too few
    blocks, or if a covariate adds nothing to the others.
    """
    rivals = np.column_stack([*apart.values()])
    found = regress_differences(differences, rivals)
    if found is None or found.error == 0:
        return None
    flipped_p = _flip_test(rivals)
    low, high = shift_interval(differences, flipped_p, alpha) or (None, None)
    raw_low, raw_high = difference_interval(differences, alpha) or (None, None)
    changes = {name: sign_flip_p(row) for name, row in apart.items()}
    confidence, mean = 1 - alpha, float(differences.mean())
    return AdjustedEffect(
        raw=Effect(estimate=mean, low=raw_low, high=raw_high, confidence=confidence, method=_RAW),
        raw_p=sign_flip_p(differences),
        adjusted=Effect(estimate=found.estimate, low=low, high=high, confidence=confidence, method=_ADJUSTED),
        adjusted_p=flipped_p(differences),
        slopes=dict(zip(apart, found.slopes.tolist(), strict=True)),
        changed={name: p for name, p in changes.items() if p < _P_CHANGED},
    )


def _flip_test(rivals: Array) -> Callable[[Array], float]:
    """Return a function that computes, from differences, the two-sided p of no effect at equal covariates.

    A flip changes the sign of a block's difference and covariates together, so their products stay the same.
    """
    blocks = len(rivals)
    signs = np.vstack((np.ones((1, blocks)), signs_of(blocks)))
    inner = np.linalg.pinv(rivals.T @ rivals)
    sums = signs @ rivals
    weight = np.maximum(blocks - np.einsum("ij,jk,ik->i", sums, inner, sums), 1e-12)

    def p_of(differences: Array) -> float:
        products = rivals.T @ differences
        slopes = inner @ products
        explained = (signs @ differences - sums @ slopes) ** 2 / weight
        rest = float(differences @ differences - products @ slopes) - explained
        sizes = explained / np.maximum(rest, 1e-300)
        return share_of_flips(int((sizes[1:] >= sizes[0] * (1 - 1e-9)).sum()), blocks)

    return p_of
