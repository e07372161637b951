# SPDX-License-Identifier: Apache-2.0
"""A fleet's trial as a trial of a search: the scores of all machines, and the verdict over machines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from ktrial.fleet.file import FleetTable, FleetTrial
from ktrial.fleet.guards import Logs
from ktrial.fleet.log import FleetStanding
from ktrial.fleet.verdict import FleetContrast, FleetResult, fleet_result
from ktrial.judge.model.judgement import Guard, Judgement, NextStep, OutcomeJudgement
from ktrial.kit.errors import KtrialError
from ktrial.studies.search.knowledge import part_of_log
from ktrial.studies.search.model import SearchPart
from ktrial.trial.protocol.file import TrialFile


def fleet_trial(file: TrialFile) -> FleetTrial:
    """Return a trial that all machines of a fleet carry out at the same time; the cap of `file` sets its blocks."""
    fields = {name: getattr(file, name) for name in TrialFile.__struct_fields__}
    return FleetTrial(**fields, fleet=FleetTable(blocks=file.design.cap or FleetTable().blocks, waves=("100%",)))


def part_of_fleet(standing: FleetStanding, logs: Logs, seconds: float) -> SearchPart:
    """Return a fleet's trial for a search; `logs` maps the places of the machines that finished to their logs.

    Raise KtrialError if no machine finished.
    """
    fleet = standing.began.fleet
    if not logs:
        raise KtrialError(
            f"no machine finished {fleet}: {standing.end.reason if standing.end else 'it is not over'}",
            hint=f"run `ktrial fleet status {fleet}` to see why",
        )
    parts = [part_of_log(standing.finished[place], log, seconds) for place, log in sorted(logs.items())]
    result = fleet_result(standing, logs)
    judged = (*_judgements(result), *_counter_guards(parts))
    blocks = max(part.judgement.blocks for part in parts)
    return msgspec.structs.replace(
        parts[0],
        trial=fleet,
        judgement=Judgement(
            cap=standing.began.trial.fleet.blocks,
            comparisons=len(standing.began.trial.arms) - 1,
            blocks=blocks,
            voided=sum(part.judgement.voided for part in parts),
            judged=judged,
            dropped=(),
            findings=(),
            next=NextStep(action="stop", reason=result.ended or "the machines are done"),
        ),
        scores=_scores(parts),
        visits=sum(part.visits for part in parts),
        failed=dict(sum((Counter(part.failed) for part in parts), Counter())),
        machines=len(parts),
    )


def _scores(parts: Sequence[SearchPart]) -> dict[str, dict[int, dict[str, float]]]:
    """Return the scores of all machines. No two machines share a block, so that only arms of one machine compare."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    begun = 0
    for part in parts:
        for outcome, blocks in part.scores.items():
            found.setdefault(outcome, {}).update({begun + block: dict(visits) for block, visits in blocks.items()})
        begun += 1 + max((max(blocks, default=0) for blocks in part.scores.values()), default=0)
    return found


def _judgements(result: FleetResult) -> Iterator[OutcomeJudgement]:
    broken = {(one.outcome, one.arm) for wave in result.waves for one in wave.guards if one.is_broken}
    for one in result.contrasts:
        guard = _guard(one, is_broken=(one.outcome, one.arm) in broken) if one.role == "guard" else None
        yield _judgement(one, guard)


def _judgement(one: FleetContrast, guard: Guard | None) -> OutcomeJudgement:
    return OutcomeJudgement(
        outcome=one.outcome,
        role=one.role,
        arm=one.arm,
        against=one.control,
        placebo=False,
        verdict=one.verdict,
        why="cap",
        blocks=sum(machine.blocks for machine in one.pooled.machines),
        effect=one.effect,
        worth=one.worth,
        guard=guard,
    )


def _guard(one: FleetContrast, *, is_broken: bool) -> Guard:
    margin = -math.log1p(one.margin)
    low, high = (one.effect.low, one.effect.high) if one.effect else (None, None)
    if is_broken or (high is not None and high < margin):
        return "broken"
    return "holds" if low is not None and low > margin else "open"


def _counter_guards(parts: Sequence[SearchPart]) -> Iterator[OutcomeJudgement]:
    """Yield the counters that a machine's own trial finds broken: they are not pooled over machines."""
    for part in parts:
        for one in part.judgement.judged:
            if one.guard == "broken" and part.scales.get(one.outcome) == "count":
                yield one
