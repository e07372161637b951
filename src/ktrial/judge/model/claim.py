# SPDX-License-Identifier: Apache-2.0
"""Claims: a statement about an outcome in a few words, read as the range of changes that it can mean.

A printed number stands for every value that rounds to it; `~` doubles that range.
"""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.kit.outcome import Direction, Unit

Status = Literal[
    "supported", "refuted", "not supported by these data", "at odds with these data", "cannot be decided here"
]

EXAMPLES = ("'p50 -43%'", "'throughput 1.8x'", "'latency p99 11% higher'", "'time ~9% faster'", "'p99 unchanged'")
GRAMMAR = f"OUTCOME and a change, for example {', '.join(EXAMPLES)}; with several arms 'ARM: OUTCOME CHANGE'"

_NUMBER = r"[0-9]{1,15}(?:,[0-9]{3})*(?:\.[0-9]{1,12})?"
_WORD = r"less|lower|fewer|shorter|more|higher|longer|faster|slower|better|worse"
_CHANGE = re.compile(
    rf"(?P<about>~)?\s*(?:"
    rf"(?P<signed>[+-]{_NUMBER})\s*%"
    rf"|(?P<percent>{_NUMBER})\s*%\s+(?P<percent_word>{_WORD})"
    rf"|(?P<times>{_NUMBER})\s*(?:x|\u00d7|times)(?:\s+(?:as\s+)?(?P<times_word>{_WORD}|fast|slow|long|the rate))?"
    rf"|(?P<only>{_WORD})"
    rf"|(?P<same>unchanged|same|equal|no change|no difference)"
    rf")"
)
_PRINTED = re.compile(rf"(?P<about>~)?\s*(?P<number>-?{_NUMBER})\s*(?P<factor>[kKMG](?![A-Za-z]))?\s*(?P<unit>\S.*)?")
_FACTORS = {None: 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_DOWN = frozenset(("less", "lower", "fewer", "shorter"))
_UP = frozenset(("more", "higher", "longer"))


class Range(NamedTuple):
    """A range of natural logarithms of new value / old value; `reading` says how the text was understood."""

    low: float
    high: float
    reading: str

    def overlaps(self, low: float, high: float) -> bool:
        return self.low <= high and low <= self.high


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed change, which is true if the measured change lies in any of `ranges`.

    `wrong_base` is the range that results if the claim took its percentage from the new value. `sized` is true if the
    claim names an amount. `sign` is 1 for more, -1 for less and 0 for no change.
    """

    text: str
    ranges: tuple[Range, ...]
    wrong_base: Range | None
    sized: bool
    sign: int


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim about data: an outcome as the claim names it, and a change."""

    text: str
    arm: str | None
    outcome: str
    change: str


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one claim. `recomputed` is the figure in words, `why` the reason for the status."""

    claim: str
    status: Status
    recomputed: str
    why: str


class ClaimedNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A number as printed, and the smallest and largest value that it can stand for."""

    text: str
    value: float
    low: float
    high: float
    unit: str = ""


def parse_claim(text: str) -> Claim:
    """Parse `OUTCOME CHANGE` or `ARM: OUTCOME CHANGE`. Raise BadInput for other texts."""
    arm, colon, rest = text.partition(": ")
    statement = (rest if colon else text).strip()
    found = None
    for match in re.finditer(r"\s+", statement):
        change = statement[match.end() :]
        if _CHANGE.fullmatch(change):
            found = statement[: match.start()], change
            break
    if found is None:
        raise BadInput(f"cannot read the claim {text!r}", hint=f"write {GRAMMAR}")
    return Claim(text=text, arm=arm.strip() if colon else None, outcome=found[0], change=found[1])


def parse_printed(text: str | float) -> ClaimedNumber:
    """Parse a number such as `4,808 us`, `900K`, `79.800 sec` or `~12`."""
    found = _PRINTED.fullmatch(str(text).strip())
    if found is None:
        raise BadInput(f"expected a printed number, got {text!r}", hint="for example '4,808 us' or '900K'")
    plain = found["number"].replace(",", "")
    factor = _FACTORS[found["factor"]]
    half = _half(plain, about=found["about"] is not None) * factor
    value = float(plain) * factor
    return ClaimedNumber(
        text=str(text), value=value, low=value - half, high=value + half, unit=(found["unit"] or "").strip()
    )


def parse_change(text: str, unit: Unit | None, direction: Direction | None, margin: float = 0.02) -> Stated:
    """Parse a change into the ranges that it can mean for an outcome with this unit. Raise BadInput for other texts."""
    found = _CHANGE.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"cannot read the change {text!r}", hint=f"write {GRAMMAR}")
    about = found["about"] is not None
    if found["same"]:
        edge = math.log1p(margin)
        return _stated(text, (Range(-edge, edge, f"within {100 * margin:g} %"),), None, sized=True, sign=0)
    if found["only"]:
        sign = _sign(found["only"], unit, direction, text)
        whole = Range(-math.inf, 0.0, "less") if sign < 0 else Range(0.0, math.inf, "more")
        return _stated(text, (whole,), None, sized=False, sign=sign)
    if found["times"]:
        return _times(text, found["times"], found["times_word"], unit, direction, about=about)
    if found["signed"]:
        sign = -1 if found["signed"].startswith("-") else 1
        return _percent(text, found["signed"][1:], sign, about=about)
    word = found["percent_word"]
    sign = _sign(word, unit, direction, text)
    stated = _percent(text, found["percent"], sign, about=about)
    if word not in ("faster", "slower") or unit not in ("s", None):
        return stated
    # For a time, "9 % faster" can mean 9 % more speed or 9 % less time.
    speed = _percent(text, found["percent"], -sign, about=about).ranges
    other = tuple(Range(-one.high, -one.low, "as a change of speed") for one in speed)
    return msgspec.structs.replace(stated, ranges=(*other, *stated.ranges), wrong_base=None)


def change_range(old: ClaimedNumber, new: ClaimedNumber) -> tuple[float, float, float]:
    """Return the logarithm of new / old, and its smallest and largest value given the rounding of both numbers.

    Raise BadInput if a number is not above zero.
    """
    for one in (old, new):
        if one.value <= 0:
            raise BadInput(
                f"cannot compute a ratio with {one.text}, which is not above zero", hint="leave out this claim"
            )
    low = math.log(max(new.low, 5e-324) / old.high)
    high = math.log(new.high / old.low) if old.low > 0 else math.inf
    return math.log(new.value / old.value), low, high


def _stated(text: str, ranges: tuple[Range, ...], wrong: Range | None, *, sized: bool, sign: int) -> Stated:
    return Stated(text=text, ranges=ranges, wrong_base=wrong, sized=sized, sign=sign)


def _half(plain: str, *, about: bool) -> float:
    """Return half a unit of the last printed digit; a whole unit if the number is approximate."""
    decimals = len(plain.partition(".")[2])
    return (1.0 if about else 0.5) * 10.0**-decimals


def _percent(text: str, number: str, sign: int, *, about: bool) -> Stated:
    plain = number.replace(",", "")
    half, size = _half(plain, about=about), float(plain)
    if sign < 0 and size - half >= 100:
        raise BadInput(f"change {text!r}: a value cannot decrease by 100 % or more", hint="write less than 100 %")
    ends = sorted(_log(sign * part) for part in (size - half, size + half))
    # The same figure as a share of the new value: some write "43 % lower" for 1 / 1.43.
    wrong = sorted(-_log(-sign * part) for part in (size - half, size + half))
    base = Range(wrong[0], wrong[1], "in percent of the new value") if math.isfinite(wrong[1]) else None
    return _stated(text, (Range(ends[0], ends[1], "in percent of the old value"),), base, sized=True, sign=sign)


def _log(percent: float) -> float:
    return math.log1p(percent / 100) if percent > -100 else -math.inf


def _times(
    text: str, number: str, word: str | None, unit: Unit | None, direction: Direction | None, *, about: bool
) -> Stated:
    plain = number.replace(",", "")
    half, factor = _half(plain, about=about), float(plain)
    if factor - half <= 0:
        raise BadInput(f"change {text!r}: a factor must be above zero", hint="for example  0.5x")
    low, high = math.log(factor - half), math.log(factor + half)
    turned = {"fast": unit == "s", "slow": unit != "s", "long": False, "the rate": False}.get(word or "")
    if word is None:
        turned = direction == "lower"
    elif turned is None:
        turned = _sign(word, unit, direction, text) < 0
    found = Range(-high, -low, "as a factor") if turned else Range(low, high, "as a factor")
    return _stated(text, (found,), None, sized=True, sign=1 if found.low + found.high > 0 else -1)


def _sign(word: str, unit: Unit | None, direction: Direction | None, text: str) -> int:
    """Return 1 if the word says that the value rises, and -1 if it falls."""
    if word in _DOWN:
        return -1
    if word in _UP:
        return 1
    way = direction or ("lower" if unit == "s" else "higher" if unit in ("1/s", "B/s") else None)
    if way is None:
        raise BadInput(
            f"change {text!r}: cannot tell whether {word} means lower or higher",
            hint=f"write lower or higher in place of {word}",
        )
    return 1 if (word in ("better", "faster")) == (way == "higher") else -1
