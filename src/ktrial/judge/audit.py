# SPDX-License-Identifier: Apache-2.0
"""Find contradictions in the log of a trial, such as the order of a block that the seed does not give."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.judge.collect_log import collect
from ktrial.judge.judge import judge
from ktrial.judge.model.log import BlockDrawn, Looked, Protocol, TrialLog, block_order
from ktrial.kit.finding import Finding


def audit(log: TrialLog) -> tuple[Finding, ...]:
    """Return a finding for each event that contradicts the protocol or the runs; empty if the log is consistent."""
    protocol = collect(log).protocol
    found = []
    for place, event in enumerate(log):
        finding = None
        if isinstance(event, BlockDrawn):
            finding = _order(protocol, event)
        elif isinstance(event, Looked):
            finding = _look(log[:place], event)
        if finding is not None:
            found.append(finding)
    return tuple(found)


def _order(protocol: Protocol, event: BlockDrawn) -> Finding | None:
    # The draw gets the arms in the order of the protocol, without those that were dropped.
    present = [arm.name for arm in protocol.arms if arm.name in event.order]
    drawn = block_order(protocol.seed, event.block, present)
    if drawn == event.order:
        return None
    return Finding(
        kind="order-not-drawn",
        level="refuse",
        sentence=f"block {event.block} ran {', '.join(event.order)}; seed {protocol.seed} gives {', '.join(drawn)}",
        values={"recorded": ", ".join(event.order), "recomputed": ", ".join(drawn)},
    )


def _look(before: TrialLog, event: Looked) -> Finding | None:
    judgement = judge(before)
    primaries = judgement.primary_verdicts
    if judgement.blocks == event.blocks and primaries == dict(event.verdicts):
        return None
    recorded, recomputed = _sentence(event.blocks, event.verdicts), _sentence(judgement.blocks, primaries)
    return Finding(
        kind="look-differs",
        level="refuse",
        sentence=f"recorded {recorded}; the runs before it give {recomputed}",
        values={"recorded": recorded, "recomputed": recomputed},
    )


def _sentence(blocks: int, verdicts: Mapping[str, str | None]) -> str:
    each = ", ".join(f"{name} {verdict or 'open'}" for name, verdict in sorted(verdicts.items()))
    return f"after {blocks} blocks {each}"
