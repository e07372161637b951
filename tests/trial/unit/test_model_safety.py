# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.trial.protocol.file import SafetyLimits, parse_limits


def test_limits_are_in_base_units() -> None:
    assert parse_limits({"temperature": "95C", "memory_pressure": "40%"}) == SafetyLimits(
        temperature_c=95, memory_pressure_share=0.4
    )
    assert parse_limits({}).none
    assert not parse_limits({"temperature": "95C"}).none


@pytest.mark.parametrize("value", ["", "hot", "95F", 95, "-5C", "0C", True])
def test_what_is_no_limit_is_told(value: object) -> None:
    with pytest.raises(BadInput, match="limits: cannot read") as caught:
        parse_limits({"temperature": value})
    assert "95C" in (caught.value.hint or "")


def test_a_limit_that_is_not_known_names_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        parse_limits({"temprature": "95C"})
    assert caught.value.nearest == ("temperature",)


def test_what_is_passed_is_said_with_the_limit() -> None:
    limits = SafetyLimits(temperature_c=95, memory_pressure_share=0.4)
    assert limits.passed(95.0, 0.4) is None
    assert limits.passed(95.1, None) == "the temperature is 95.1 °C (limit 95 °C)"
    assert limits.passed(None, 0.5) == "all tasks waited for memory 50 % of the time (limit 40 %)"
    assert limits.passed(None, None) is None, "what is not known is not passed"
    assert SafetyLimits().passed(200.0, 1.0) is None
