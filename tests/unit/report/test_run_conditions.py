# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.domain.comparison import Point
from ktrial.report.run_conditions import worth_showing


def shown(*runs: dict[str, float], temperature_c: float | None = None) -> list[str]:
    points = [Point(value=1.0, run=str(at), conditions=one, temperature_c=temperature_c) for at, one in enumerate(runs)]
    return [one.name for one in worth_showing(points)]


@pytest.mark.parametrize(
    "runs, names",
    [
        ([{}, {}], []),
        ([{"frequency_hz": 3.2e9}, {"frequency_hz": 3.2e9}], []),
        ([{"frequency_hz": 3.2e9}, {"frequency_hz": 2.4e9}], ["frequency_hz"]),
        ([{"throttled_share": 0.0}, {"throttled_share": 0.0}], []),
        ([{"throttled_share": 0.1}, {"throttled_share": 0.1}], ["throttled_share"]),
        ([{"steal_share": 0.02}, {}], ["steal_share"]),
        ([{"kernel_warnings": 1.0}], ["kernel_warnings"]),
        ([{"pressure_cpu_share": 0.5}, {"pressure_cpu_share": 0.501}], []),
        ([{"pressure_cpu_share": 0.5}, {"pressure_cpu_share": 0.52}], ["pressure_cpu_share"]),
    ],
)
def test_what_was_measured_and_varies_or_matters_is_shown(runs: list[dict[str, float]], names: list[str]) -> None:
    assert shown(*runs) == names


def test_the_temperature_is_always_shown_where_it_is_known() -> None:
    assert shown({}, {}, temperature_c=50.0) == ["temperature_c"]
