# SPDX-License-Identifier: Apache-2.0
"""Sessions that a user measured in turns, as blocks: each is one session of each arm, by the order of time alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from ktrial.domain.compared import Arm, ComparedRun, places
from ktrial.domain.finding import Finding

#: With fewer blocks no difference could be told from chance (two-sided p of 1/16 with five).
FEWEST_BLOCKS = 6


def pair_sessions(arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], Finding | None]:
    """The arms with blocks where their sessions took turns, and what was done, or why it was not.

    No value is looked at. Nothing is said of arms that have one session each, or of runs whose blocks somebody told.
    """
    runs = [(run, arm.name) for arm in arms for run in arm.runs]
    by_session = {run.session: name for run, name in runs}
    if None in by_session or any(run.block is not None for run, _ in runs) or len(by_session) <= len(arms):
        return tuple(arms), None
    order = _in_order(arms)
    if order is None:
        return tuple(arms), _not_paired("their sessions overlap, or share no clock")
    turns = [order[at : at + len(arms)] for at in range(0, len(order), len(arms))]
    if any(len({by_session[session] for session in turn}) < len(turn) for turn in turns):
        return tuple(arms), _not_paired("their sessions did not take turns, one of each arm after the other")
    whole = sum(len(turn) == len(arms) for turn in turns)
    if whole < FEWEST_BLOCKS:
        return tuple(arms), _not_paired(f"{whole} turns of all arms are too few: {FEWEST_BLOCKS} can decide")
    blocks = {session: f"turn {number}" for number, turn in enumerate(turns, 1) for session in turn}
    sentence = f"one session of each arm, as they followed each other, is a block: {whole} blocks"
    return tuple(_with_blocks(arm, blocks) for arm in arms), Finding(
        kind="sessions-paired", level="note", sentence=sentence, values={"blocks": float(whole)}
    )


def _in_order(arms: Sequence[Arm]) -> list[str | None] | None:
    """All sessions by time; None where the order of all runs is not known, or one session began within another."""
    at = places(arms)
    if not at:
        return None
    runs: list[ComparedRun] = sorted((run for arm in arms for run in arm.runs), key=lambda run: at[run.name])
    order = [session for session, _ in groupby(run.session for run in runs)]
    return order if len(set(order)) == len(order) else None


def _with_blocks(arm: Arm, blocks: dict[str | None, str]) -> Arm:
    runs = tuple(msgspec.structs.replace(run, block=blocks[run.session]) for run in arm.runs)
    return msgspec.structs.replace(arm, runs=runs)


def _not_paired(why: str) -> Finding:
    return Finding(kind="sessions-not-paired", level="note", sentence=f"the arms are compared without blocks: {why}")
