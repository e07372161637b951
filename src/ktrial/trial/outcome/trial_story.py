# SPDX-License-Identifier: Apache-2.0
"""How a trial went: its blocks as they were drawn, and what the judge said after each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import BlockDrawn, BlockVoided, Ended, Event, Looked, Protocol, RunEnded
from ktrial.judge.model.trial_summary import ToldArm, ToldBlock, ToldLook, ToldTrial
from ktrial.trial.protocol.file import trial_text
from ktrial.trial.record import StoredTrial


def story_of(trial: StoredTrial, log: Sequence[Event], judgement: Judgement) -> ToldTrial:
    """All of it, from the log."""
    protocol = log[0]
    assert isinstance(protocol, Protocol), "a log begins with its protocol"
    return ToldTrial(
        trial=trial.trial,
        text=trial_text(trial.file),
        machine=trial.machine,
        seed=protocol.seed,
        cap=judgement.cap,
        detect=protocol.detect,
        settle_s=trial.settle_s,
        blocks=judgement.blocks,
        ended=log[-1].reason if isinstance(log[-1], Ended) else None,
        arms=tuple(_arm(trial, one.name, placebo=one.placebo) for one in protocol.arms),
        drawn=tuple(_drawn(log)),
        looks=tuple(_looks(protocol, log)),
    )


def _arm(trial: StoredTrial, name: str, *, placebo: bool) -> ToldArm:
    came_to = trial.arms[name]
    return ToldArm(
        arm=name,
        placebo=placebo,
        changes=came_to.changes,
        same=came_to.same,
        refused=came_to.refused,
        environment=came_to.environment,
        parameters=came_to.parameters,
        manual=came_to.manual,
        expect=came_to.expect,
        commands=came_to.commands,
    )


def _drawn(log: Sequence[Event]) -> Iterator[ToldBlock]:
    voids = {event.block: event for event in log if isinstance(event, BlockVoided)}
    failed: dict[int, list[str]] = {}
    for event in log:
        if isinstance(event, RunEnded) and event.block is not None and event.failure is not None:
            failed.setdefault(event.block, []).append(event.arm)
    for event in log:
        if isinstance(event, BlockDrawn):
            void = voids.get(event.block)
            yield ToldBlock(
                block=event.block,
                order=event.order,
                void=None if void is None else void.reason,
                failed=tuple(failed.get(event.block, ())),
            )


def _looks(protocol: Protocol, log: Sequence[Event]) -> Iterator[ToldLook]:
    """What the judge said of the primary outcome after every complete block."""
    from ktrial.judge.judge import judge
    from ktrial.judge.outlook import deciding_blocks

    shown: dict[tuple[str, str], int] = {}
    for place, event in enumerate(log):
        if not isinstance(event, Looked):
            continue
        judgement = judge(log[:place])
        deciding = deciding_blocks(protocol, judgement.cap)
        for one in judgement.judged:
            pair = (one.arm, one.against)
            # A block without its run, and all after the verdict, tell nothing new.
            if one.role != "primary" or one.effect is None or one.blocks <= shown.get(pair, 0):
                continue
            shown[pair] = one.blocks
            if one.effect.scale != "log":
                continue
            yield ToldLook(
                blocks=one.blocks,
                arm=one.arm,
                against=one.against,
                estimate=one.effect.estimate,
                low=one.effect.low,
                high=one.effect.high,
                verdict=one.verdict,
                decides=one.blocks in deciding,
            )
