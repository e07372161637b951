# SPDX-License-Identifier: Apache-2.0
"""Judgements, audits and one-line summaries of trials."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import Event, RunEnded, TrialEnd, protocol_in
from ktrial.kit.errors import BadInput, Refused
from ktrial.kit.finding import Finding
from ktrial.trial.record import StoredTrial, TrialSummary


def judgement_of(log: Sequence[Event]) -> Judgement:
    from ktrial.judge.judge import judge

    return judge(log)


def failures_in(log: Sequence[Event]) -> dict[str, list[str]]:
    """Return the reasons of failed runs by arm. Warm-up runs do not count."""
    found: dict[str, list[str]] = {}
    for event in log:
        if isinstance(event, RunEnded) and event.block is not None and event.failure is not None:
            found.setdefault(event.arm, []).append(event.failure)
    return found


def audited(log: Sequence[Event]) -> tuple[Finding, ...]:
    """Return findings on orders that do not follow from the seed, and on verdicts that do not follow from the runs."""
    from ktrial.judge.audit import audit

    return audit(log)


def extendable(name: str, log: Sequence[Event], blocks: int) -> None:
    """Raise BadInput or Refused if this trial cannot be extended to `blocks` blocks."""
    protocol, judgement = protocol_in(log), judgement_of(log)
    if judgement.next.action != "stop":
        raise BadInput(f"cannot extend {name}: it is not over", hint=f"run `ktrial trial resume {name}`")
    if not protocol.extend:
        raise Refused(
            f"cannot extend {name}: its protocol does not have  extend = true",
            hint="start a new trial with  [design] extend = true, which costs half of its error rate",
        )
    if not any(one.verdict == "inconclusive" for one in judgement.judged if one.role == "primary"):
        raise BadInput(
            f"cannot extend {name}: it is decided already", hint=f"run `ktrial trial show {name}` for the verdicts"
        )
    if blocks <= judgement.blocks:
        raise BadInput(
            f"cannot extend {name} to {blocks} blocks: it already has {judgement.blocks}",
            hint="give a larger total number of blocks",
        )


def summary_of(trial: StoredTrial, log: Sequence[Event]) -> TrialSummary:
    judgement = judgement_of(log)
    protocol = protocol_in(log)
    return TrialSummary(
        trial=trial.trial,
        name=protocol.name,
        started_unix_ms=trial.started_unix_ms,
        primary=protocol.primary,
        blocks=judgement.blocks,
        verdicts={
            one.arm: one.verdict
            for one in judgement.judged
            if one.role == "primary" and one.against == protocol.control
        },
        suspected=tuple(
            one.setting for outcome in judgement.screened if outcome.role == "primary" for one in outcome.named
        ),
        ended=next((event.reason for event in log if isinstance(event, TrialEnd)), None),
    )
