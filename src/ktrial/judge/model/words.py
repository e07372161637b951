# SPDX-License-Identifier: Apache-2.0
"""Effects in words: every percentage and every "times" in the program comes from here.

All start from one number, the natural logarithm of new value / old value. "35 % less" and "1.54 times as fast" are two
readings of it and therefore cannot disagree. A percentage always refers to the old value, that of the control.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ktrial.kit.units import show_bytes, show_seconds

if TYPE_CHECKING:
    from ktrial.judge.model.verdict import Effect
    from ktrial.kit.outcome import Direction, Unit

#: The noun for an amount in each unit.
_NOUNS: Mapping[str, str] = {
    "s": "time",
    "1/s": "rate",
    "B/s": "rate",
    "B": "size",
    "count": "count",
    "score": "score",
    "ratio": "share",
    "J": "energy",
    "W": "power",
}
#: Above this factor, the factor is easier to read than a percentage.
_LARGE = 11.0
#: Beyond this logarithm a factor overflows.
_LARGEST = 700.0
_SMALLEST_PERCENT = 0.01


def value_log_ratio(score_log: float, direction: Direction | None) -> float:
    """Convert a log ratio of scores (larger is better) to a log ratio of values."""
    return -score_log if direction == "lower" else score_log


def percent_change(log_ratio: float) -> float:
    """Return the change as a percentage of the old value; negative if the new value is smaller."""
    return 100 * math.expm1(min(log_ratio, _LARGEST))


def percent_text(log_ratio: float, *, fine: bool = False) -> str:
    """Return the change as a percentage of the old value: `-35 %`, `+54 %`; `fine` gives four digits."""
    size = _percent_size(log_ratio, fine=fine)
    if size is None:
        return "0 %"
    return f"{'-' if log_ratio < 0 else '+'}{size} %"


def size_text(log_size: float) -> str:
    """Return the size of an increase with two digits: `39 %`, `130 %`; as a factor if it is large: `160 times`."""
    is_large = log_size > math.log(_LARGE)
    size = float(f"{math.exp(min(log_size, _LARGEST)) if is_large else 100 * math.expm1(log_size):.2g}")
    return f"{size:.0f} times" if is_large else f"{size:g} %"


def figure_text(log_ratio: float) -> str:
    """Return the change of a value whose unit is unknown: `-98.9 % (0.0108 times as much)`."""
    percent = percent_change(log_ratio)
    size = _percent_size(log_ratio) if percent < -99 else f"{abs(percent):.3g}"
    return f"{'-' if percent < 0 else '+'}{size or 0} % ({_times(log_ratio)} times as much)"


def change_words(log_ratio: float, unit: Unit) -> str:
    """Return the change as a percentage of the old value, with a noun: `35 % less time`, `54 % higher rate`."""
    size = _percent_size(log_ratio)
    noun = _NOUNS[unit]
    if size is None:
        return f"the same {noun}"
    if log_ratio > math.log(_LARGE):
        return times_words(log_ratio, unit)
    less, more = ("lower", "higher") if noun in {"score", "rate", "count"} else ("less", "more")
    return f"{size} % {less if log_ratio < 0 else more} {noun}"


def times_words(log_ratio: float, unit: Unit) -> str:
    """Return the change as a factor: `1.54 times as fast`, `1.54 times as long`, `0.65 times the rate`."""
    if unit == "s":
        return f"{_times(abs(log_ratio))} times as {'fast' if log_ratio <= 0 else 'long'}"
    return f"{_times(log_ratio)} times the {_NOUNS[unit]}"


def times_range(low: float, high: float) -> str:
    """Return an interval of log ratios as factors: `1.48 to 1.6`."""
    return " to ".join(_times(end) for end in sorted((low, high)))


def range_words(low: float, high: float) -> str:
    """Return a log-ratio interval in words: `30 % to 39 % less`, `2 % less to 4 % more`, `3 to 15 times as much`."""
    if max(low, high) > math.log(_LARGE):
        return f"{_times(min(low, high))} to {_times(max(low, high))} times as much"
    ends = sorted((low, high), key=abs) if low * high >= 0 else sorted((low, high))
    is_fine = _look_alike(low, high)
    sides = [("less" if end < 0 else "more", _percent_size(end, fine=is_fine) or "0") for end in ends]
    if sides[0][1] == "0":
        sides[0] = (sides[1][0], "0")
    if sides[1][1] == "0":
        sides[1] = (sides[0][0], "0")
    if sides[0][0] == sides[1][0]:
        return f"{sides[0][1]} % to {sides[1][1]} % {sides[0][0]}"
    return " to ".join(f"{size} % {word}" for word, size in sides)


def range_text(low: float, high: float) -> str:
    """Return an interval of log ratios as signed percentages, the lower end first: `-39 % to -30 %`."""
    is_fine = _look_alike(low, high)
    return " to ".join(percent_text(end, fine=is_fine) for end in sorted((low, high)))


def effect_text(effect: Effect | None, unit: Unit, direction: Direction | None) -> tuple[str, str]:
    """Return an effect for two cells of a table: the signed change of the outcome's value, and its interval."""
    if effect is None:
        return "-", "-"
    low, high = _ends(effect, direction)
    if effect.scale == "log":
        change = value_log_ratio(effect.estimate, direction)
        if max(change, change if high is None else high) > math.log(_LARGE):
            return _factors(change, low, high)
        estimate = percent_text(change)
        return estimate, "-" if low is None or high is None else range_text(low, high)
    estimate = _amount(value_log_ratio(effect.estimate, direction), unit, signed=True)
    if low is None or high is None:
        return estimate, "-"
    return estimate, f"{_amount(low, unit, signed=True)} to {_amount(high, unit, signed=True)}"


def _factors(change: float, low: float | None, high: float | None) -> tuple[str, str]:
    """Return estimate and interval as factors: `403x` and `378x to 431x`."""
    return f"{_times(change)}x", "-" if low is None or high is None else f"{_times(low)}x to {_times(high)}x"


def effect_phrase(effect: Effect, unit: Unit, direction: Direction | None) -> str:
    """Return an effect as `35 % less time (1.54 times as fast)`, or on the scale of differences `3 ms less time`."""
    change = value_log_ratio(effect.estimate, direction)
    if effect.scale == "difference":
        if change == 0:
            return f"the same {_NOUNS[unit]}"
        return f"{_amount(abs(change), unit)} {'less' if change < 0 else 'more'} {_NOUNS[unit]}"
    words, times = change_words(change, unit), times_words(change, unit)
    return words if times.startswith("1 times") or words == times else f"{words} ({times})"


def interval_phrase(effect: Effect, unit: Unit, direction: Direction | None) -> str:
    """Return the interval as `95 % interval 30 % to 39 % less`; empty if there is none."""
    low, high = _ends(effect, direction)
    if low is None or high is None:
        return ""
    name = f"{100 * effect.confidence:.4g} % interval"
    if effect.scale == "log":
        return f"{name} {range_words(low, high)}"
    return f"{name} {_amount(low, unit, signed=True)} to {_amount(high, unit, signed=True)}"


def _ends(effect: Effect, direction: Direction | None) -> tuple[float | None, float | None]:
    """Return the interval in values, the lower end first."""
    if effect.low is None or effect.high is None:
        return None, None
    ends = sorted(value_log_ratio(end, direction) for end in (effect.low, effect.high))
    return ends[0], ends[1]


def _look_alike(low: float, high: float) -> bool:
    """Return whether two different ends would be shown as equal."""
    return low != high and percent_text(low) == percent_text(high)


def _percent_size(log_ratio: float, *, fine: bool = False) -> str | None:
    """Return the size of the change in percent, None if it rounds to nothing. A decrease is never shown as 100 %."""
    if math.isnan(log_ratio):
        raise ValueError("an effect must be a number, got NaN")
    size = abs(percent_change(log_ratio))
    if size < _SMALLEST_PERCENT / 2:
        return None
    if log_ratio < 0 and size > 99:
        left = 100 - size
        digits = 1 if left <= 0 else min(9, 1 - math.floor(math.log10(left)))
        text = f"{math.floor(size * 10**digits) / 10**digits:.{digits}f}"
    elif size >= 1e6:
        return f"{size:.3g}"
    elif fine and size >= 1:
        return f"{size:.4g}"
    elif size >= 10:
        return f"{size:.0f}" if log_ratio > 0 or size < 90 else f"{size:.1f}".removesuffix(".0")
    elif size >= 1:
        text = f"{size:.1f}"
    else:
        text = f"{size:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _times(log_ratio: float) -> str:
    """Return a factor with three digits, without an exponent below a million."""
    factor = math.exp(max(min(log_ratio, _LARGEST), -_LARGEST))
    return f"{factor:.0f}" if 1000 <= factor < 1e6 else f"{factor:.3g}"


def _amount(value: float, unit: Unit, *, signed: bool = False) -> str:
    sign = ("-" if value < 0 else "+" if value > 0 else "") if signed else ""
    size = abs(value)
    if unit == "s":
        return sign + show_seconds(size)
    if unit == "B":
        return sign + show_bytes(size)
    if unit == "ratio":
        return f"{sign}{100 * size:.3g} %-points"
    suffix = {"count": "", "score": ""}.get(unit, f" {unit}")
    return f"{sign}{size:.3g}{suffix}"


def p_text(p: float | None) -> str:
    """Return a p-value as text: `< 0.0001` if it is smaller than that, `-` if there is none."""
    if p is None:
        return "-"
    if p < 0.0001:
        return "< 0.0001"
    return f"{p:.4f}" if p < 0.01 else f"{p:.3f}"
