# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ktrial.machine.run_conditions import hottest, mean_frequency, shown_at
from ktrial.machine.sensors import Sensor
from tests.support.samples import LEVEL, samples

CLOCK = Sensor(unit="Hz", per_unit=1, kind="level")


def test_the_hottest_sensor_that_could_be_read() -> None:
    found = samples(
        {"temperature.cpu": [48_000, 63_500], "temperature.nvme": [41_000, None]},
        {"temperature.cpu": LEVEL, "temperature.nvme": LEVEL},
    )
    last, first = hottest(found), hottest(found, 0)
    assert last is not None
    assert first is not None
    assert (last.value, last.unit, last.of, first.value) == (63.5, "C", "cpu", 48.0)


def test_the_mean_clock() -> None:
    names = {f"frequency.policy{number}": CLOCK for number in range(3)}
    found = mean_frequency(samples(dict(zip(names, ([3 * 10**9], [10**9], [None]), strict=True)), names))
    assert found is not None
    assert (found.value, found.unit, found.of) == (2e9, "Hz", "mean of 2 policies")


def test_what_could_not_be_read_is_not_there() -> None:
    assert shown_at(samples({}, {}), 0) == ()
    assert shown_at(samples({"temperature.x": [None]}, {"temperature.x": LEVEL}), -1) == ()
    assert shown_at(samples({"temperature.x": []}, {"temperature.x": LEVEL}), -1) == ()
