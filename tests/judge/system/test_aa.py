# SPDX-License-Identifier: Apache-2.0
"""What a demo promises, by simulation: the short form of `perf/aa`."""

from __future__ import annotations

import numpy as np
import pytest

from ktrial.judge.judge import judge
from ktrial.judge.model.log import block_order
from ktrial.studies.demo.model import COPIUM, HELP, HURT, PLACEBO
from perf.aa import EFFECTS, Share, demo_protocol, simulated_demo, simulated_demos
from perf.decide import SIZES
from perf.noise_sources import sources, world

DEMOS = 250


@pytest.mark.parametrize("sd", [0.03])
def test_a_demo_claims_nothing_of_what_does_nothing(sd: float) -> None:
    """Below 2 %: at most two of 250 is what a rate of 0.7 % gives in nine of ten suites; the seed is fixed."""
    noise = world(sources(sd)["recorded"], "mixed", SIZES[sd])
    claims, found = simulated_demos(DEMOS, np.random.default_rng(5), noise)
    assert claims.hits / claims.trials < 0.02
    assert found[HELP]["better"] > 0.99 * DEMOS
    assert found[HURT]["worse"] > 0.99 * DEMOS
    for arm in (PLACEBO, COPIUM):
        assert found[arm]["equivalent"] + found[arm]["inconclusive"] > 0.98 * DEMOS


def test_a_demo_on_noise_that_leans_is_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation sees a copium that is none."""
    monkeypatch.setitem(EFFECTS, COPIUM, 0.1)
    noise = world(sources(0.01)["recorded"], "none", 0.0)
    claims, found = simulated_demos(20, np.random.default_rng(6), noise)
    assert claims.hits == found[COPIUM]["better"] == 20


def test_a_simulated_demo_ends_when_all_is_decided_and_draws_the_orders_of_its_seed() -> None:
    """Without noise the effects are exact, the arms that do nothing are equivalent at the first look."""
    found = simulated_demo(demo_protocol(3, []), [0.0] * 300)
    assert {arm: one.verdict for arm, one in found.items()} == {
        PLACEBO: "equivalent",
        COPIUM: "equivalent",
        HELP: "better",
        HURT: "worse",
    }
    assert {one.blocks for one in found.values()} == {12}
    effect = found[HELP].effect
    assert effect is not None
    assert effect.estimate == pytest.approx(EFFECTS[HELP])
    assert judge([demo_protocol(3, [])]).next.arms == tuple(EFFECTS)
    assert sorted(block_order(3, 1, tuple(EFFECTS))) == sorted(EFFECTS)


def test_shares_have_exact_intervals() -> None:
    """Clopper-Pearson of 0 in 200: 1 - 0.025 ** (1 / 200) = 1.83 %."""
    assert Share(0, 200).text == "0 of 200: 0.00 % (95 % interval 0.00 to 1.83 %)"
    assert Share(12, 200).beyond(0.02, upper=True)
    assert not Share(7, 200).beyond(0.02, upper=True)
    assert Share(25, 40).beyond(0.9, upper=False)
    assert not Share(34, 40).beyond(0.9, upper=False)
