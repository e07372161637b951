# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from ktrial.compare.arms import Arm
from ktrial.judge.model.power import PowerAsked
from ktrial.kit.errors import BadInput
from ktrial.trial.protocol.power import power_of, power_of_spread
from tests.support.arms import a_run, an_arm, measured

ASKED = PowerAsked(detect=0.05, margin=None, budget=20)


def pairs(*ratios: float) -> list[float]:
    """Successive runs whose ratios are these."""
    return [value for ratio in ratios for value in (1.0, ratio)]


def test_a_plan_from_ten_pairs_is_the_formula_of_the_method() -> None:
    """Five pairs 2 % up and five 2 % down: their sd is ln(1.02) times root 10/9, times 1.25 as a pilot's.

    1.4826 times the median of |d| is larger here: 0.02936; times 1.25, 0.03670. Blocks: 1.15 (3.24 s / ln 1.05)^2 + 3.
    """
    (found,) = power_of([an_arm("a", pairs(*[1.02] * 5, *[1 / 1.02] * 5))], ASKED)
    spread = 1.25 * 1.4826 * math.log(1.02)
    assert found.block_sd == pytest.approx(spread)
    assert found.needed == math.ceil(1.15 * (3.24 * spread / math.log(1.05)) ** 2 + 3) == 10
    assert found.needed_equivalent == math.ceil(1.15 * (3.60 * spread / math.log(1.02)) ** 2 + 3) == 55
    assert found.cap == 12
    assert found.smallest_effect == pytest.approx(math.expm1(3.24 * spread / math.sqrt(9 / 1.15)))
    assert (found.pairs, found.why) == (10, "")


def test_runs_are_paired_in_the_order_in_which_they_were_made() -> None:
    """In the order of their clock the pairs are equal up to 1 %; in the order of the list they are not."""
    values = [1.0, 2.0, 3.0, 1.01, 2.02, 3.01]
    moments = [0, 2, 4, 1, 3, 5]
    runs = tuple(
        a_run(f"a/{place}", measured(value), clocks={"c": float(moment)})
        for place, (value, moment) in enumerate(zip(values, moments, strict=True))
    )
    (found,) = power_of([Arm(name="a", sources=(), runs=runs)], ASKED)
    assert found.pairs == 3
    assert found.block_sd == pytest.approx(1.25 * 1.4826 * math.log(1.01), rel=0.01)
    assert "only 3 pairs" in found.why


@pytest.mark.parametrize(
    "values, why",
    [
        ([1.0, 1.1, 1.2], "3 runs are too few"),
        ([0.0, 1.0, 2.0, 3.0], "zero or negative"),
        ([1.0] * 8, "the runs show no spread"),
    ],
)
def test_what_cannot_be_planned_with(values: list[float], why: str) -> None:
    (found,) = power_of([an_arm("a", values)], ASKED)
    assert found.block_sd is None
    assert found.needed is None
    assert why in found.why


def test_a_spread_without_runs() -> None:
    """The table of the method: effect / sd of a block's difference of 1.2 needs a cap of 12."""
    sd = math.log(1.05) / 1.2
    found = power_of_spread(math.expm1(sd / math.sqrt(2)), ASKED)
    assert found.block_sd == pytest.approx(sd)
    assert found.cap in (12, 16)
    assert found.margin == 0.02
    with pytest.raises(BadInput, match="5 blocks are too few"):
        power_of_spread(0.03, PowerAsked(detect=0.05, margin=None, budget=5))


def test_a_budget_that_is_too_small_says_what_it_can_see() -> None:
    found = power_of_spread(0.2, ASKED)
    assert found.needed is not None
    assert found.needed > 20 == found.cap
    assert found.smallest_effect is not None
    assert found.smallest_effect > 0.2
