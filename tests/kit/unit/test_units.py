# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.kit.units import show_bytes, show_seconds


@pytest.mark.parametrize(
    "value_bytes, shown",
    [
        (1_020 * 2**20 + 1, "1020 MiB"),
        (1_023.9 * 2**10, "1024 KiB"),
        (999.4 * 2**20, "999 MiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (2_345 * 2**40, "2345 TiB"),
        (-1_020.5 * 2**20, "-1020 MiB"),
    ],
)
def test_bytes_have_no_exponent(value_bytes: float, shown: str) -> None:
    assert show_bytes(value_bytes) == shown


@pytest.mark.parametrize(
    "value_s, shown", [(0.0, "0 s"), (7_235.0, "7235 s"), (0.0028123, "2.81 ms"), (9.999e-4, "1000 us")]
)
def test_seconds_have_no_exponent(value_s: float, shown: str) -> None:
    assert show_seconds(value_s) == shown
