# SPDX-License-Identifier: Apache-2.0
"""The judge of the outcomes that are not primary.

Secondary outcomes share one error rate, and so do guards. Exploratory outcomes get an adjusted p, never a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from ktrial.judge.collect_log import Pairs
from ktrial.judge.model.comparison import Role
from ktrial.judge.model.judgement import Guard, Why
from ktrial.judge.model.log import OutcomeRule, Protocol
from ktrial.judge.model.verdict import Verdict
from ktrial.judge.primary_verdict import OutcomeReading, family_effect, log_margin, read_counter
from ktrial.judge.sequential import ALPHA, call, first_exclusion, row_of
from ktrial.judge.stats.multiplicity import benjamini_hochberg
from ktrial.judge.stats.signflip import sign_flip_p

Found = TypeVar("Found")


def holm_over_tables(members: int, read: Callable[[int, int], Found | None]) -> tuple[Found | None, ...]:
    """Return what each member shows in the tables of `judge.sequential`, corrected by Holm's method.

    All members begin with an error rate of 0.05/members. Each member that shows something raises the rate of the
    others. `read(member, row)` returns what a member shows at a rate of 0.05/row, None if nothing. A larger rate never
    decides less, so a result is never lost.
    """
    found: list[Found | None] = [None] * members
    row = members
    while row:
        for member in range(members):
            if found[member] is None:
                found[member] = read(member, row)
        left = sum(one is None for one in found)
        if left == row:
            break
        row = left
    return tuple(found)


class Member(NamedTuple):
    """One outcome of one contrast. `over` is true if the contrast gets no more blocks."""

    outcome: str
    arm: str
    against: str
    rule: OutcomeRule
    pairs: Pairs
    over: bool


class MemberAnswer(NamedTuple):
    """The result of one member, corrected for all members of its role."""

    reading: OutcomeReading
    guard: Guard | None = None
    p: float | None = None
    p_adjusted: float | None = None


def family_size(protocol: Protocol, role: Role) -> int:
    return len(protocol.of_role(role)) * protocol.comparisons


def read_family(protocol: Protocol, role: Role, members: Sequence[Member], cap: int) -> tuple[MemberAnswer, ...]:
    """Return an answer for each member of one role, corrected for all members."""
    if role == "exploratory":
        return _exploratory(protocol, members, cap)
    found = _by_holm(protocol, role, members, cap, shifted=False)
    row = row_of(protocol.alpha, max(1, family_size(protocol, role)))
    readings = [_reading(member, seen, cap, row) for member, seen in zip(members, found, strict=True)]
    if role != "guard":
        return tuple(MemberAnswer(reading) for reading in readings)
    guards = _guards(protocol, members, cap)
    return tuple(MemberAnswer(reading, guard) for reading, guard in zip(readings, guards, strict=True))


def _by_holm(
    protocol: Protocol, role: Role, members: Sequence[Member], cap: int, *, shifted: bool
) -> tuple[Verdict | None, ...]:
    # An outcome that cannot be judged still counts: its values were seen before it was left out.
    unjudged = family_size(protocol, role) - len(members)

    def read(place: int, row: int) -> Verdict | None:
        member = members[place]
        shift = log_margin(member.rule) if shifted else 0.0
        return _side_of(member, cap, row_of(protocol.alpha, row + unjudged), shift)

    return holm_over_tables(len(members), read)


def _side_of(member: Member, cap: int, row: int, shift: float) -> Verdict | None:
    """Return `better` or `worse` if the effect surely lies above or below -shift; otherwise None.

    "Surely" means at an error rate of 0.05/row.
    """
    if member.rule.scale == "log":
        return first_exclusion(member.pairs.differences + shift, cap, row)
    reading = _count_reading(member, cap, row)
    effect = reading.effect
    if effect is None or effect.scale == "difference":
        return reading.verdict if reading.verdict in {"better", "worse"} else None
    low = -math.inf if effect.low is None else effect.low + shift
    high = math.inf if effect.high is None else effect.high + shift
    return "better" if low > 0 else "worse" if high < 0 else None


def _count_reading(member: Member, cap: int, row: int) -> OutcomeReading:
    return read_counter(member.rule, member.pairs, ALPHA / row, done=len(member.pairs.arm) >= cap)


def _reading(member: Member, found: Verdict | None, cap: int, row: int) -> OutcomeReading:
    blocks = len(member.pairs.arm)
    counter = None
    if member.rule.scale == "count":
        reading = _count_reading(member, cap, row)
        effect, counter = reading.effect, reading.counter
        same = reading.verdict == "equivalent"
    else:
        effect = family_effect(member.pairs.differences, cap, row)
        low, high = (None, None) if effect is None else (effect.low, effect.high)
        same = low is not None and high is not None and call(low, high, log_margin(member.rule)) == "equivalent"
    if same:
        return OutcomeReading("equivalent", "boundary", blocks, effect, counter)
    if found is not None:
        return OutcomeReading(found, "holm", blocks, effect, counter)
    why: Why = "cap" if blocks >= cap else "ended" if member.over else "open"
    return OutcomeReading("inconclusive" if why != "open" else None, why, blocks, effect, counter)


def _guards(protocol: Protocol, members: Sequence[Member], cap: int) -> tuple[Guard, ...]:
    """Return the state of each guard.

    `holds` rests on the guard's own interval; `broken` is a claim at the shared error rate.
    """
    broken = _by_holm(protocol, "guard", members, cap, shifted=True)
    alone = row_of(protocol.alpha, 1)
    return tuple(
        "broken"
        if seen == "worse"
        else "holds"
        if _side_of(member, cap, alone, log_margin(member.rule)) == "better"
        else "open"
        for member, seen in zip(members, broken, strict=True)
    )


def _exploratory(protocol: Protocol, members: Sequence[Member], cap: int) -> tuple[MemberAnswer, ...]:
    """Return p and adjusted p of every member, never a verdict."""
    p_values = [_p_of(member) for member in members]
    adjusted = benjamini_hochberg(p_values).tolist()
    alone = row_of(protocol.alpha, 1)
    answers = []
    for member, p, p_adjusted in zip(members, p_values, adjusted, strict=True):
        pairs = member.pairs
        if member.rule.scale == "count":
            reading = _count_reading(member, cap, alone)
        else:
            reading = OutcomeReading(None, "open", len(pairs.arm), family_effect(pairs.differences, cap, alone))
        answers.append(MemberAnswer(reading._replace(verdict=None, why="open"), None, p, p_adjusted))
    return tuple(answers)


def _p_of(member: Member) -> float:
    from ktrial.judge.stats.blocked import signed_rank_p  # imports scipy, which only exploratory outcomes need

    test = sign_flip_p if member.rule.scale == "count" else signed_rank_p
    return test(member.pairs.differences)
