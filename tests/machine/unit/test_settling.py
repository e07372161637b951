# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.machine.settle import settling

REFERENCE = {"temperature_c": 45.0, "load": 0.1}


@pytest.mark.parametrize(
    "now, waiting",
    [
        ({"temperature_c": 45.0, "load": 0.1}, 0),
        ({"temperature_c": 46.0, "load": 0.35}, 0),
        ({"temperature_c": 30.0, "load": 0.0}, 0),
        ({"temperature_c": 46.1, "load": 0.1}, 1),
        ({"temperature_c": 60.0, "load": 2.0}, 2),
    ],
)
def test_what_is_above_its_level_is_waited_for(now: dict[str, float], waiting: int) -> None:
    found = settling(REFERENCE, now)
    assert (len(found.waiting), found.settled, found.untold) == (waiting, not waiting, ())


def test_sentences_name_value_and_aim() -> None:
    found = settling(REFERENCE, {"temperature_c": 60.0, "load": 2.0})
    assert found.waiting == ("temperature 60.0 °C, wanted 46.0 °C", "load 2.00, wanted 0.35")


def test_what_cannot_be_read_is_told_and_not_waited_for() -> None:
    assert settling({"temperature_c": None, "load": 0.1}, {"temperature_c": 90.0, "load": None}).untold == (
        "temperature at the first run is unknown",
        "load now is unknown",
    )
    assert len(settling({}, {}).untold) == 2


@given(st.floats(-40, 120), st.floats(-40, 120), st.floats(0, 50))
def test_cooling_never_makes_it_wait_longer(reference: float, now: float, cooler: float) -> None:
    level = {"temperature_c": reference, "load": 0.0}
    before = settling(level, {"temperature_c": now, "load": 0.0})
    after = settling(level, {"temperature_c": now - cooler, "load": 0.0})
    assert after.settled or not before.settled


def test_nan_is_refused() -> None:
    with pytest.raises(BadInput, match="temperature_c"):
        settling(REFERENCE, {"temperature_c": float("nan"), "load": 0.0})
