# SPDX-License-Identifier: Apache-2.0
"""Checks of claims against data, and of published tables against their own figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from ktrial.compare.claims.file import ChangeClaim, TukeyTable
from ktrial.judge.model.claim import (
    ClaimedNumber,
    ClaimResult,
    Stated,
    Status,
    change_range,
    parse_change,
    parse_claim,
    parse_printed,
)
from ktrial.judge.model.comparison import Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.words import (
    effect_phrase,
    figure_text,
    interval_phrase,
    percent_text,
    range_text,
    times_words,
    value_log_ratio,
)
from ktrial.judge.stats.printed_tukey import Bounds, PrintedGroup, p_of, q_of
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.results.importers._units import scale_of
from ktrial.results.importers.margine import METRICS

#: Generic words for outcomes, and the unit of those outcomes.
_GENERIC = {"latency": "s", "time": "s", "duration": "s", "rate": "1/s", "throughput": "1/s", "bandwidth": "B/s"}
_SAME_P = 0.05
#: `p99_us`, `time(sec)`, `time [s]`: the name of a column with its unit.
_WITH_UNIT = re.compile(r"(.+?)[_ ]?[(\[_]([^()\[\]_]+)[)\]]?")


def claim_on_data(text: str, arm: str | None, found: Comparison) -> ClaimResult:
    claim = parse_claim(text)
    outcome = _outcome(claim.outcome, found.outcomes)
    contrast = _contrast(arm or claim.arm, outcome)
    stated = parse_change(claim.change, outcome.unit, outcome.direction, outcome.margin)
    effect = contrast.effect
    name = f"{outcome.name}, {contrast.arm} against {contrast.control}"
    if effect is None or contrast.verdict == "not comparable":
        return ClaimResult(claim=text, status="cannot be decided here", recomputed="-", why=f"{name}: {contrast.why}")
    figures = effect_phrase(effect, outcome.unit, outcome.direction)
    interval = interval_phrase(effect, outcome.unit, outcome.direction)
    recomputed = f"{name}: {figures}{f', {interval}' if interval else ''}"
    status, why = _decided(stated, contrast, outcome)
    return ClaimResult(claim=text, status=status, recomputed=recomputed, why=why)


def claim_on_change(claim: ChangeClaim) -> ClaimResult:
    """Check one claim on two printed numbers by arithmetic."""
    old, new = parse_printed(claim.old), parse_printed(claim.new)
    if old.unit and new.unit and old.unit != new.unit:
        raise BadInput(f"{claim.what}: {claim.old} and {claim.new} have different units", hint="use the same unit")
    known = scale_of(old.unit or new.unit)
    unit = claim.unit if claim.unit is not None or known is None else known.unit
    stated = parse_change(claim.says, unit, claim.direction)
    change, low, high = change_range(old, new)
    figures = figure_text(change)
    if unit is not None:
        figures = f"{figures.partition(' (')[0]}, {times_words(change, unit)}"
    recomputed = f"{old.text} to {new.text} is {figures}"
    text = f"{claim.what}: {claim.says}"
    fitting = next((one for one in stated.ranges if one.overlaps(low, high)), None)
    if fitting is not None:
        return ClaimResult(claim=text, status="supported", recomputed=recomputed, why=f"reading: {fitting.reading}")
    return ClaimResult(
        claim=text,
        status="refuted",
        recomputed=recomputed,
        why=_why_not(claim, stated, new, low, high),
    )


def claims_on_tukey(tables: Sequence[TukeyTable]) -> Iterator[ClaimResult]:
    """Check whether each printed Q and p can come from the printed means and deviations, and whether the Qs add up."""
    for table in tables:
        groups = {
            group.name: PrintedGroup(parse_printed(group.mean), parse_printed(group.sd), group.n)
            for group in table.group
        }
        for pair in table.pair:
            printed, q = parse_printed(pair.q), q_of(groups, pair.first, pair.second)
            name = f"{table.what}: {pair.first} and {pair.second}"
            yield _q_result(name, printed, q, _elsewhere(printed, table, tables))
            if pair.p is not None:
                yield _p_result(name, parse_printed(pair.p), p_of(q, groups), table.p_ends)
        yield from _additive(table)


def _outcome(wanted: str, outcomes: Sequence[OutcomeComparison]) -> OutcomeComparison:
    """Return the one outcome that matches all words of a claim."""
    every = [one for one in outcomes if one.contrasts]
    for spelled in _spellings(wanted):
        plain = _plain(spelled)
        exact = [one for one in every if plain in (_plain(one.name), _plain(one.outcome))]
        if len(exact) == 1:
            return exact[0]
    words = wanted.lower().split()
    fitting = [one for one in every if all(_fits(word, one.name, one.unit) for word in words)]
    if len(fitting) == 1:
        return fitting[0]
    names = [one.name for one in outcomes]
    if fitting:
        several = ", ".join(one.name for one in fitting)
        raise BadInput(f"{wanted!r} in the claim matches several outcomes", hint=f"write one of: {several}")
    raise UnknownName("outcome", wanted, names, hint=f"use one of: {', '.join(names)}" if names else None)


def _spellings(wanted: str) -> Iterator[str]:
    """Yield the name as written, margine's name for it, and the name without a unit suffix."""
    yield wanted
    if wanted in METRICS:
        yield METRICS[wanted].outcome
    bare = _WITH_UNIT.fullmatch(wanted)
    if bare is not None and scale_of(bare[2]) is not None:
        yield bare[1]


def _plain(name: str) -> str:
    """Return the words of a name, so that `loop-time` equals `loop time`."""
    return " ".join(re.findall(r"[a-z0-9]+", name.lower()))


def _fits(word: str, name: str, unit: str) -> bool:
    return word in name.lower() or _GENERIC.get(word) == unit


def _contrast(arm: str | None, outcome: OutcomeComparison) -> Contrast:
    names = [contrast.arm for contrast in outcome.contrasts]
    if arm is None and len(names) == 1:
        return outcome.contrasts[0]
    if arm is None:
        raise BadInput(
            "the claim does not say which arm it is about",
            hint=f"write ARM: OUTCOME CHANGE; the arms are {', '.join(names)}",
        )
    if arm not in names:
        raise UnknownName("arm", arm, names, hint=f"use one of: {', '.join(names)}")
    return next(contrast for contrast in outcome.contrasts if contrast.arm == arm)


def _decided(stated: Stated, contrast: Contrast, outcome: OutcomeComparison) -> tuple[Status, str]:
    """Return the status of a claim about a measured effect, and the reason."""
    effect = contrast.effect
    assert effect is not None, "the caller handles contrasts without an effect"
    if effect.low is None or effect.high is None or effect.scale != "log":
        why = contrast.why if effect.low is None else "percentages need values above zero"
        return "cannot be decided here", why
    ends = sorted(value_log_ratio(end, outcome.direction) for end in (effect.low, effect.high))
    fitting = next((one for one in stated.ranges if one.overlaps(ends[0], ends[1])), None)
    base = stated.wrong_base
    estimate = value_log_ratio(effect.estimate, outcome.direction)
    turned = (
        f"; {stated.text} is relative to the new value; relative to the old one it is {percent_text(estimate)}"
        if fitting is None and base is not None and base.overlaps(ends[0], ends[1])
        else ""
    )
    shown = range_text(ends[0], ends[1])
    if contrast.verdict in {"different", "no difference seen", "inconclusive"}:
        outside = "" if fitting is not None else f"; {stated.text} is outside the observed interval, {shown}"
        status: Status = "at odds with these data" if outside else "not supported by these data"
        return status, f"{contrast.why}{outside}{turned}"
    if fitting is None:
        return "refuted", f"{stated.text} is outside the interval, {shown}{turned}"
    if stated.sign == 0:
        is_same = contrast.verdict == "equivalent"
        return (
            ("supported", contrast.why)
            if is_same
            else ("not supported by these data", f"the interval, {shown}, exceeds the margin")
        )
    if contrast.verdict == "equivalent" and not effect.excludes_zero:
        return "not supported by these data", f"the interval, {shown}, includes zero"
    if not stated.sized and estimate * stated.sign < 0:
        return "refuted", f"the effect has the opposite direction: {shown}"
    return "supported", f"within the interval, {shown}"


def _why_not(claim: ChangeClaim, stated: Stated, new: ClaimedNumber, low: float, high: float) -> str:
    """Return a likely mistake that explains the claimed figure, or the range that the printed numbers allow."""
    for name, text in claim.others.items():
        _, from_low, from_high = change_range(parse_printed(text), new)
        if any(one.overlaps(from_low, from_high) for one in stated.ranges):
            return f"{claim.says} is relative to {name} ({text}), not to {claim.old}: the bases are mixed"
    if stated.wrong_base is not None and stated.wrong_base.overlaps(low, high):
        return f"{claim.says} is relative to the new value ({claim.new}), not to the old one ({claim.old})"
    return f"the printed numbers allow {range_text(low, high)}"


def _q_result(name: str, printed: ClaimedNumber, q: Bounds, elsewhere: str) -> ClaimResult:
    fits = q.low <= printed.high and printed.low <= q.high
    return ClaimResult(
        claim=f"{name}: Q {printed.text}",
        status="supported" if fits else "refuted",
        recomputed=f"Q = {q.value:.4g} (rounding allows {q.low:.4g} to {q.high:.4g})",
        why="computed from the printed means and deviations" + ("" if fits else elsewhere),
    )


def _p_result(name: str, printed: ClaimedNumber, p: Bounds, ends: tuple[float, float] | None) -> ClaimResult:
    low, high, end = printed.low, printed.high, ""
    if ends is not None and math.isclose(printed.value, ends[0], rel_tol=1e-6):
        low, end = 0.0, f"; {printed.text} is the smallest p that its program prints"
    elif ends is not None and math.isclose(printed.value, ends[1], rel_tol=1e-6):
        high, end = 1.0, f"; {printed.text} is the largest p that its program prints"
    # Programs integrate differently, which changes the second digit of p.
    fits = p.low * (1 - _SAME_P) <= high and low * (1 - _SAME_P) <= p.high
    return ClaimResult(
        claim=f"{name}: p {printed.text}",
        status="supported" if fits else "refuted",
        recomputed=f"p = {p.value:.3g} (rounding allows {p.low:.3g} to {p.high:.3g})",
        why="computed from the Q of the printed means and deviations" + end,
    )


def _elsewhere(printed: ClaimedNumber, table: TukeyTable, tables: Iterable[TukeyTable]) -> str:
    for other in tables:
        for pair in other.pair if other is not table else ():
            if pair.q == printed.text:
                return f"; the same Q appears in {other.what}, {pair.first} and {pair.second}"
    return ""


def _additive(table: TukeyTable) -> Iterator[ClaimResult]:
    """Check that of three groups of equal size the largest Q is the sum of the other two.

    This must be true, because three means lie on a line.
    """
    if len({group.n for group in table.group}) > 1:
        return
    printed = {frozenset((pair.first, pair.second)): parse_printed(pair.q) for pair in table.pair}
    for names in combinations((group.name for group in table.group), 3):
        pairs = [frozenset(pair) for pair in combinations(names, 2)]
        if not all(pair in printed for pair in pairs):
            continue
        small, middle, large = sorted((printed[pair] for pair in pairs), key=lambda one: one.value)
        low, high = small.low + middle.low, small.high + middle.high
        fits = low <= large.high and large.low <= high
        yield ClaimResult(
            claim=f"{table.what}: Q {large.text}, {middle.text} and {small.text}",
            status="supported" if fits else "refuted",
            recomputed=f"{middle.text} + {small.text} = {middle.value + small.value:.6g}",
            why="consistent: the largest is the sum of the others"
            if fits
            else f"inconsistent: the largest, {large.text}, must be the sum of the other two",
        )
