# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.kit.moment import LOCAL, WALL, moment_of

NOON_MS = 1_795_262_400_000.0


@pytest.mark.parametrize(
    "told, expected",
    [
        ({"date": "2026-11-21T12:00:00Z"}, (WALL, NOON_MS)),
        ({"date": "2026-11-21T14:00:00+02:00"}, (WALL, NOON_MS)),
        ({"date": "2026-11-21T07:30:00.5-0430"}, (WALL, NOON_MS + 500)),
        ({"date": "2026-11-21 12:00:00.250000"}, (LOCAL, NOON_MS + 250)),
        ({"date": "2026-11-21", "time": "12:00"}, (LOCAL, NOON_MS)),
        ({"date": "2026-11-21", "time": "9:00:01"}, (LOCAL, NOON_MS - 3 * 3_600_000 + 1000)),
        ({"timestamp": "1795262400"}, (WALL, NOON_MS)),
        ({"timestamp": "1795262400.25"}, (WALL, NOON_MS + 250)),
        ({"timestamp_ms": "1795262400000"}, (WALL, NOON_MS)),
        ({"started": "1795262400000000000"}, (WALL, NOON_MS)),
        ({"date": "2026-11-21"}, None),
        ({"date": "2026-13-41 12:00:00"}, None),
        ({"date": "yesterday", "time": "1795262400"}, None),
        ({"timestamp": "4.5"}, None),
        ({"timestamp": "99999999999999999999999"}, None),
        ({}, None),
    ],
)
def test_only_a_time_of_day_tells_when_a_run_was(told: dict[str, str], expected: tuple[str, float] | None) -> None:
    assert moment_of(told) == expected
