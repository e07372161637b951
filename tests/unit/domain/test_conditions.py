# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ktrial.domain.conditions import hottest, mean_frequency


def test_the_hottest_sensor_that_is_sane() -> None:
    found = hottest({"cpu": "63500", "nvme": "41000", "broken": "-274000", "open": "200000", "off": None, "x": "N/A"})
    assert found is not None
    assert (found.value, found.unit, found.of) == (63.5, "C", "cpu")
    assert hottest({"off": None}) is None
    assert hottest({}) is None


def test_the_mean_clock() -> None:
    found = mean_frequency(["3000000", "1000000", None, "<unknown>"])
    assert found is not None
    assert (found.value, found.unit, found.of) == (2e9, "Hz", "mean of 2 policies")
    assert mean_frequency([None]) is None
