# SPDX-License-Identifier: Apache-2.0
"""Sessions that a user measured alternately, paired into blocks in order of time; a block has each arm at most once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec

from ktrial.compare.arms import Arm, ComparedRun, places
from ktrial.kit.finding import Finding

#: With fewer blocks no difference can be significant (five blocks: two-sided p of 1/16).
FEWEST_BLOCKS = 6
#: If more than this share of turns lacks a partner, the sessions did not take turns.
MOST_LONELY = 0.2


def pair_sessions(arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], Finding | None]:
    """Return the arms, control first, with blocks if their sessions alternated, and a finding on the pairing.

    Measured values do not affect the pairing. The finding is None if each arm has one session, or if a run already has
    a block or comes from a file.
    """
    control, *others = arms
    runs = [(run, arm.name) for arm in arms for run in arm.runs]
    by_session = {run.session: name for run, name in runs}
    if None in by_session or any(run.block is not None for run, _ in runs) or len(by_session) <= len(arms):
        return tuple(arms), None
    order = _in_order(arms)
    if order is None:
        return tuple(arms), _not_paired("their sessions overlap or share no clock")
    turns = _turns(order, by_session)
    held = [{by_session[session] for session in turn} for turn in turns]
    together = {arm.name: sum({control.name, arm.name} <= turn for turn in held) for arm in others}
    if sum(len(turn) == 1 or control.name not in turn for turn in held) > MOST_LONELY * len(turns):
        return tuple(arms), _not_paired(f"their sessions did not take turns with {control.name}")
    fewest = min(together, key=lambda name: together[name])
    if together[fewest] < FEWEST_BLOCKS:
        why = f"{together[fewest]} turns of {control.name} with {fewest} are too few (minimum {FEWEST_BLOCKS})"
        return tuple(arms), _not_paired(why)
    blocks = {session: f"turn {number}" for number, turn in enumerate(turns, 1) for session in turn}
    counts = " or ".join(str(count) for count in sorted(set(together.values())))
    sentence = f"sessions that took turns count as blocks, in order of time: {counts} of {control.name} with each arm"
    return tuple(_with_blocks(arm, blocks) for arm in arms), Finding(
        kind="sessions-paired",
        level="note",
        sentence=sentence,
        values={name: float(count) for name, count in together.items()},
    )


def _turns(order: Sequence[str | None], arm_of: Mapping[str | None, str]) -> list[list[str | None]]:
    """Split the sessions into turns; a turn ends before an arm would occur in it again."""
    turns: list[list[str | None]] = [[]]
    for session in order:
        if arm_of[session] in {arm_of[one] for one in turns[-1]}:
            turns.append([])
        turns[-1].append(session)
    return turns


def _in_order(arms: Sequence[Arm]) -> list[str | None] | None:
    """Return all sessions by time, or None if the order of the runs is unknown or sessions overlap."""
    at = places(arms)
    if not at:
        return None
    runs: list[ComparedRun] = sorted((run for arm in arms for run in arm.runs), key=lambda run: at[run.name])
    order = [session for session, _ in groupby(run.session for run in runs)]
    return order if len(set(order)) == len(order) else None


def _with_blocks(arm: Arm, blocks: Mapping[str | None, str]) -> Arm:
    runs = tuple(msgspec.structs.replace(run, block=blocks[run.session]) for run in arm.runs)
    return msgspec.structs.replace(arm, runs=runs)


def _not_paired(why: str) -> Finding:
    return Finding(kind="sessions-not-paired", level="note", sentence=f"the arms are compared without blocks: {why}")
