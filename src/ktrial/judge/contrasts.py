# SPDX-License-Identifier: Apache-2.0
"""The effects and tests of many contrasts (comparisons of two arms) at once.

Contrasts with the same layout share one array, so that numpy computes them together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from ktrial.judge.model.comparison import TestResult
from ktrial.judge.model.verdict import Effect
from ktrial.judge.observational_layout import Layout, Scale
from ktrial.judge.stats import blocked, multiplicity, unpaired
from ktrial.judge.stats.arrays import Array


class ContrastResult(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one contrast, and the test that matches its interval.

    The test is not yet corrected for the number of comparisons. `varies` is false if all units are equal (for blocks,
    all their differences).
    """

    effect: Effect
    test: TestResult
    cross_checks: tuple[TestResult, ...]
    varies: bool = True


SourcePackage = tuple[Array, Array | None, Array | None]
Tested = tuple[str, str, Array, Array, float]


def measure(layouts: Sequence[Layout], scales: Sequence[Scale], alpha: float) -> list[ContrastResult]:
    """Return the effect and the tests of each layout, in the order of the layouts."""
    alike: dict[tuple[bool, int, int, Scale], list[int]] = {}
    for index, (layout, scale) in enumerate(zip(layouts, scales, strict=True)):
        alike.setdefault((layout.blocked, len(layout.control), len(layout.arm), scale), []).append(index)
    measured: dict[int, ContrastResult] = {}
    for (in_blocks, _, _, scale), indexes in alike.items():
        control = np.array([layouts[index].control for index in indexes])
        arm = np.array([layouts[index].arm for index in indexes])
        dust = _dust(control, arm, scale)
        if in_blocks:
            arm = np.where(np.abs(arm - control) < dust, control, arm)
        of_these = _blocked if in_blocks else _unpaired
        method, found, tests = of_these(control, arm, scale, alpha)
        effects = _effects([_swept(ends, dust) for ends in found], method, scale, alpha)
        spread = np.ptp(arm - control if in_blocks else np.concatenate([control, arm], axis=1), axis=1) > dust[:, 0]
        results = zip(*(_results(test) for test in tests), strict=True)
        for index, effect, varies, (test, *others) in zip(indexes, effects, spread.tolist(), results, strict=True):
            crossed = tuple(other for other in others if not math.isnan(other.p))
            measured[index] = ContrastResult(effect=effect, test=test, cross_checks=crossed, varies=varies)
    return [measured[index] for index in range(len(layouts))]


def _dust(control: Array, arm: Array, scale: Scale) -> Array:
    """Return for each row the size below which a difference is only a rounding error."""
    largest = np.maximum(np.abs(control).max(axis=1), np.abs(arm).max(axis=1))
    if scale == "log":
        largest = np.maximum(largest, 1.0)
    return np.asarray(1e-12 * largest[:, np.newaxis])


def _swept(ends: Array | None, dust: Array) -> Array | None:
    return None if ends is None else np.where(np.abs(ends) < dust[:, 0], 0.0, ends)


def _blocked(control: Array, arm: Array, scale: Scale, alpha: float) -> tuple[str, SourcePackage, list[Tested]]:
    differences = arm - control
    blocks = differences.shape[1]
    flips = ("sign-flip test of block differences", "sum", *blocked.sign_flip(differences))
    ranks = ("signed-rank test of block differences", "W+", *blocked.signed_rank(differences))
    rank_test, flip_test = (*ranks, multiplicity.blocked_floor(blocks)), (*flips, blocked.sign_flip_floor(blocks))
    t_test = ("paired t-test", "t", *blocked.paired_t(differences), 0.0)
    if scale == "log":
        return "Hodges-Lehmann", blocked.hodges_lehmann(differences, alpha), [rank_test, flip_test, t_test]
    return "mean of block differences", blocked.typical_values(differences, alpha), [flip_test, rank_test, t_test]


def _unpaired(control: Array, arm: Array, scale: Scale, alpha: float) -> tuple[str, SourcePackage, list[Tested]]:
    del scale
    n_control, n_arm = control.shape[1], arm.shape[1]
    floor = multiplicity.unpaired_floor(n_control, n_arm)
    tests: list[Tested] = [
        ("permutation test of rank sums (Mann-Whitney)", "U", *unpaired.rank_sum(control, arm), floor)
    ]
    if (relabelled := unpaired.permutation(control, arm)) is not None:
        tests.append(
            ("permutation test of means", "difference", *relabelled, unpaired.permutation_floor(n_control, n_arm))
        )
    tests.append(("Welch's t-test", "t", *unpaired.welch(control, arm), 0.0))
    return "Hodges-Lehmann", unpaired.hodges_lehmann(control, arm, alpha), tests


def _effects(
    found: Sequence[Array | None], method: str, scale: Literal["log", "difference"], alpha: float
) -> list[Effect]:
    middle, low, high = found
    assert middle is not None, "there is always an estimate"
    nothing: list[float | None] = [None] * len(middle)
    return [
        Effect(estimate=estimate, low=below, high=above, confidence=1 - alpha, scale=scale, method=method)
        for estimate, below, above in zip(
            middle.tolist(),
            nothing if low is None else low.tolist(),
            nothing if high is None else high.tolist(),
            strict=True,
        )
    ]


def _results(tested: Tested) -> list[TestResult]:
    name, statistic, values, p, floor = tested
    return [
        TestResult(name=name, statistic=statistic, value=value, p=chance, floor=floor)
        for value, chance in zip(values.tolist(), p.tolist(), strict=True)
    ]
