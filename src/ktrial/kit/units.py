# SPDX-License-Identifier: Apache-2.0
"""Parse and show quantities. Inside ktrial all values are in base units; other units appear only in texts."""

from __future__ import annotations

import re

_FACTORS: dict[str, dict[str, float]] = {
    "bytes": {
        "": 1,
        "B": 1,
        "kB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "KiB": 2**10,
        "MiB": 2**20,
        "GiB": 2**30,
        "TiB": 2**40,
    },
    "hertz": {"": 1, "Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9},
    "seconds": {"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60, "m": 60, "h": 3600},
    "percent": {"": 1, "%": 1},
    "celsius": {"": 1, "C": 1},
    "ratio": {"": 1, "x": 1},
}
_QUANTITY = r"\s*(-?[0-9]{1,25}(?:\.[0-9]{1,25})?)\s*([A-Za-z%]*)\s*"


def parse_quantity(text: str, dimension: str) -> float:
    """Return the value of `text` in the base unit of `dimension`: bytes, hertz, seconds, percent, celsius or ratio.

    Raise ValueError for other texts; the message lists the units.
    """
    factors = _FACTORS[dimension]
    match = re.fullmatch(_QUANTITY, text)
    if match is None or match[2] not in factors:
        units = ", ".join(unit for unit in factors if unit)
        raise ValueError(f"{text!r} is not a number with one of the units {units}")
    return float(match[1]) * factors[match[2]]


def three_digits(value: float) -> str:
    """Show `0.0028123` as `0.00281`; large numbers are whole, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def show_bytes(value_bytes: float) -> str:
    """Show `1610612736` as `1.5 GiB`."""
    size = float(value_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size == int(size) else f"{three_digits(size)} {unit}"
        size /= 1024
    return f"{three_digits(size)} TiB"


def show_seconds(value_s: float) -> str:
    """Show `0.0028` as `2.8 ms`."""
    if value_s == 0:
        return "0 s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(value_s) >= factor:
            return f"{three_digits(value_s / factor)} {unit}"
    return f"{three_digits(value_s / 1e-9)} ns"
