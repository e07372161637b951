# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from ktrial.kit.errors import LimitPassed, Refused
from ktrial.machine.sensors import Samples, Sensor
from ktrial.trial.protocol.file import SafetyLimits
from ktrial.trial.run.guards import SafetyWatch
from tests.support.samples import LEVEL, samples

STALLED = Sensor(unit="s", per_unit=1_000_000, kind="counter", bits=64)
UNITS = {"temperature.cpu": LEVEL, "temperature.nvme": LEVEL, "pressure.memory.full": STALLED}


class Looks:
    """One look a second, each with these columns."""

    def __init__(self, looks: Sequence[Mapping[str, int]], apart_s: float = 1.0) -> None:
        self._looks = list(looks)
        self._apart_s = apart_s
        self._taken = 0

    def once(self) -> Samples:
        look = self._looks[min(self._taken, len(self._looks) - 1)]
        self._taken += 1
        columns = {name: [value] for name, value in look.items()}
        found = samples(columns, {name: UNITS[name] for name in look})
        return Samples(
            **{
                **{field: getattr(found, field) for field in found.__struct_fields__},
                "times_ns": (int(self._taken * self._apart_s * 1e9),),
            }
        )

    def start(self, period_s: float = 1.0) -> None:
        raise AssertionError("it only looks")

    def stop(self) -> Samples:
        raise AssertionError("it only looks")


def test_the_hottest_sensor_counts() -> None:
    watch = SafetyWatch(
        SafetyLimits(temperature_c=90),
        Looks(
            [
                {"temperature.cpu": 50_000, "temperature.nvme": 60_000},
                {"temperature.cpu": 50_000, "temperature.nvme": 90_000},
                {"temperature.cpu": 50_000, "temperature.nvme": 90_500},
            ]
        ),
    )
    watch.begin()
    watch.check()
    with pytest.raises(LimitPassed, match=r"the temperature is 90\.5 °C"):
        watch.check()


def test_pressure_is_a_share_of_the_time_between_two_looks() -> None:
    stalled = [0, 300_000, 1_000_000]
    watch = SafetyWatch(
        SafetyLimits(memory_pressure_share=0.5), Looks([{"pressure.memory.full": value} for value in stalled])
    )
    watch.begin()
    watch.check()
    with pytest.raises(LimitPassed, match="70 % of the time"):
        watch.check()


def test_two_looks_close_together_say_nothing_and_lose_nothing() -> None:
    stalled = [0, 90_000, 180_000, 270_000, 360_000, 450_000, 540_000]
    watch = SafetyWatch(
        SafetyLimits(memory_pressure_share=0.5), Looks([{"pressure.memory.full": one} for one in stalled], 0.1)
    )
    watch.begin()
    for _ in range(4):
        watch.check()
    with pytest.raises(LimitPassed, match="90 % of the time"):
        watch.check()


def test_a_limit_on_what_cannot_be_read_is_refused_before_the_start() -> None:
    looks = Looks([{"pressure.memory.full": 0}])
    with pytest.raises(Refused, match=r"cannot watch limits\.temperature: no sensor reports it"):
        SafetyWatch(SafetyLimits(temperature_c=90), looks).begin()
    with pytest.raises(Refused, match=r"cannot watch limits\.memory_pressure"):
        SafetyWatch(SafetyLimits(memory_pressure_share=0.5), Looks([{"temperature.cpu": 1}])).begin()
