# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.machine.watch_run import suspended_s


@given(st.floats(0, 1e8), st.floats(1, 1e6))
def test_a_sleep_is_told(before_s: float, slept_s: float) -> None:
    assert suspended_s(before_s, before_s + slept_s) == pytest.approx(slept_s, abs=1e-6)


@given(st.floats(0, 1e6), st.floats(-1e-3, 1e-3))
def test_the_jitter_of_clocks_is_no_sleep(before_s: float, jitter_s: float) -> None:
    assert suspended_s(before_s, before_s + jitter_s) == 0.0


@pytest.mark.parametrize("before_s, after_s", [(10.0, 0.0), (0.0, float("nan")), (float("nan"), 0.0)])
def test_readings_of_another_boot_are_refused(before_s: float, after_s: float) -> None:
    with pytest.raises(BadInput, match="suspend time fell from"):
        suspended_s(before_s, after_s)
