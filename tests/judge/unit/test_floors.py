# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.judge.stats.multiplicity import blocked_floor, unpaired_floor


@pytest.mark.parametrize(
    "control, arm, floor", [(3, 3, 0.1), (4, 4, 2 / 70), (1, 1, 1.0), (5, 1, 1 / 3), (2, 0, 1.0), (0, 2, 1.0)]
)
def test_unpaired(control: int, arm: int, floor: float) -> None:
    assert unpaired_floor(control, arm) == pytest.approx(floor)


@pytest.mark.parametrize("blocks, floor", [(0, 1.0), (1, 1.0), (5, 0.0625), (6, 0.03125), (5000, 0.0)])
def test_blocked(blocks: int, floor: float) -> None:
    assert blocked_floor(blocks) == floor


def test_very_many_units_have_no_floor_to_speak_of() -> None:
    assert unpaired_floor(5000, 5000) == 0.0
