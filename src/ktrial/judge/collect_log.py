# SPDX-License-Identifier: Apache-2.0
"""The state of a trial, read from its log: blocks that count, scores of visits, and failed runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, median
from typing import NamedTuple

import numpy as np

from ktrial.judge.equal_covariates import level_scores
from ktrial.judge.model.log import (
    OTHER_STORE,
    BlockDrawn,
    BlockVoided,
    Extended,
    OutcomeRule,
    Protocol,
    ReadingsTaken,
    RunEnded,
    TrialEnd,
    TrialLog,
)
from ktrial.judge.sequential import Array, as_array, block_differences
from ktrial.kit.errors import BadInput
from ktrial.machine.gates import Readings

Scores = Mapping[int, Mapping[str, float]]


class Trial(NamedTuple):
    """The state of a trial after all events of its log.

    `complete` holds the numbers of the blocks that count, in order, and `runs` the runs of all blocks that are not
    void. `extended` is the number of blocks that the trial was extended to.
    """

    protocol: Protocol
    drawn: Mapping[int, BlockDrawn]
    voids: Mapping[int, BlockVoided]
    complete: tuple[int, ...]
    runs: tuple[RunEnded, ...]
    readings: Mapping[str, Sequence[Readings]]
    ended: str | None
    extended: int | None = None

    @property
    def unfinished(self) -> BlockDrawn | None:
        last = max(self.drawn, default=None)
        return None if last is None or last in self.voids or last in self.complete else self.drawn[last]

    @property
    def visits(self) -> dict[str, int]:
        """Return the number of blocks in which each arm was drawn, void blocks included."""
        counts = {arm.name: 0 for arm in self.protocol.arms}
        for block in self.drawn.values():
            for arm in block.order:
                counts[arm] += 1
        return counts

    def failed(self, outcome: str) -> dict[str, int]:
        """Return for each arm how many of its runs gave no value of the outcome."""
        counts = {arm.name: 0 for arm in self.protocol.arms}
        for run in self.runs:
            counts[run.arm] += outcome not in run.measurements
        return counts


class Pairs(NamedTuple):
    """Scores of two arms, block by block, from the blocks in which both arms have a value."""

    arm: Array
    against: Array

    @property
    def finite(self) -> bool:
        """Return whether every value has a score on its scale (a logarithm needs a value above zero)."""
        return bool(np.isfinite(self.arm).all() and np.isfinite(self.against).all())

    @property
    def differences(self) -> Array:
        """Return the score of `arm` minus the score of `against`, block by block."""
        return block_differences(self.against, self.arm)


def collect(log: TrialLog) -> Trial:
    """Return the current state of the trial. Raise BadInput for a log that contradicts itself."""
    if not log or not isinstance(log[0], Protocol):
        raise BadInput("the log of the trial has no protocol", hint=OTHER_STORE)
    protocol = log[0]
    drawn: dict[int, BlockDrawn] = {}
    of_block: list[RunEnded | ReadingsTaken | BlockVoided] = []
    ended = extended = None
    for event in log[1:]:
        if isinstance(event, BlockDrawn):
            _is_new(event, drawn, protocol)
            drawn[event.block] = event
        elif isinstance(event, TrialEnd):
            ended = event.reason
        elif isinstance(event, Extended):
            if not protocol.extend:
                raise BadInput("the log extends a trial whose protocol forbids it", hint=OTHER_STORE)
            if ended is None:
                raise BadInput("the log extends a trial that has not ended", hint=OTHER_STORE)
            ended, extended = None, event.blocks
        elif isinstance(event, RunEnded | ReadingsTaken | BlockVoided) and event.block is not None:
            if event.block not in drawn or event.arm not in drawn[event.block].order:
                what = f"block {event.block} has no arm {event.arm!r}"
                raise BadInput(f"the log of the trial contradicts itself: {what}", hint=OTHER_STORE)
            of_block.append(event)
    voids = {event.block: event for event in of_block if isinstance(event, BlockVoided)}
    valid = [event for event in of_block if event.block not in voids]
    runs = tuple(event for event in valid if isinstance(event, RunEnded))
    return Trial(protocol, drawn, voids, _complete(protocol, drawn, runs), runs, _readings(valid), ended, extended)


def _readings(valid: Iterable[RunEnded | ReadingsTaken | BlockVoided]) -> dict[str, list[Readings]]:
    found: dict[str, list[Readings]] = {}
    for event in valid:
        if isinstance(event, ReadingsTaken):
            found.setdefault(event.arm, []).append(event.readings)
    return found


def _is_new(event: BlockDrawn, drawn: Mapping[int, BlockDrawn], protocol: Protocol) -> None:
    known = {arm.name for arm in protocol.arms}
    why = None
    if event.block in drawn:
        why = "was drawn twice"
    elif unknown := sorted(set(event.order) - known):
        why = f"has the arm {unknown[0]!r}, which the protocol lacks"
    elif len(set(event.order)) != len(event.order):
        why = "has an arm twice"
    if why is not None:
        raise BadInput(f"the log of the trial contradicts itself: block {event.block} {why}", hint=OTHER_STORE)


def _complete(protocol: Protocol, drawn: Mapping[int, BlockDrawn], runs: tuple[RunEnded, ...]) -> tuple[int, ...]:
    """Return the numbers of the blocks in which every arm has made all its runs; failed runs count as made."""
    done: dict[int, dict[str, int]] = {}
    for run in runs:
        if run.block is not None:
            visits = done.setdefault(run.block, {})
            visits[run.arm] = visits.get(run.arm, 0) + 1
    wanted = protocol.runs_per_visit
    return tuple(
        block for block in sorted(done) if all(done[block].get(arm, 0) >= wanted for arm in drawn[block].order)
    )


def score(value: float, rule: OutcomeRule) -> float:
    """Return the score of a value: its logarithm or the count itself, negated if lower is better.

    Return NaN for a value that the scale does not allow.
    """
    if not math.isfinite(value) or (rule.scale == "log" and value <= 0) or (rule.scale == "count" and value < 0):
        return math.nan
    sign = 1.0 if rule.direction == "higher" else -1.0
    return sign * (math.log(value) if rule.scale == "log" else value)


def visit_scores(trial: Trial, outcome: str) -> dict[int, dict[str, float]]:
    """Return the score of each visit in complete blocks, by block and arm, without visits in which every run failed.

    If the protocol has `adjust`, scores on the log scale hold at equal covariates. A visit that lacks a covariate then
    has no score.
    """
    rule = trial.protocol.outcomes[outcome]
    found: dict[int, dict[str, list[float]]] = {}
    complete = set(trial.complete)
    for run in trial.runs:
        if run.block in complete and outcome in run.measurements:
            found.setdefault(run.block, {}).setdefault(run.arm, []).append(score(run.measurements[outcome], rule))
    scores = {block: {arm: _middle(one) for arm, one in visits.items()} for block, visits in sorted(found.items())}
    adjusts = trial.protocol.adjust if rule.scale == "log" else ()
    return level_scores(scores, _covariates(trial, adjusts)) if adjusts else scores


def _covariates(trial: Trial, names: Sequence[str]) -> dict[int, dict[str, list[float]]]:
    """Return the covariates of each visit by block and arm, without visits that lack one."""
    found: dict[int, dict[str, list[list[float]]]] = {}
    for run in trial.runs:
        if run.block is not None and run.covariates and all(name in run.covariates for name in names):
            values = [run.covariates[name] for name in names]
            found.setdefault(run.block, {}).setdefault(run.arm, []).append(values)
    return {
        block: {arm: np.mean(rows, axis=0).tolist() for arm, rows in visits.items()} for block, visits in found.items()
    }


def _middle(scores: list[float]) -> float:
    if len(scores) == 1:
        return scores[0]
    return mean(scores) if len(scores) == 2 else median(scores)


def pairs_of(scores: Scores, arm: str, against: str) -> Pairs:
    both = [(visits[arm], visits[against]) for visits in scores.values() if arm in visits and against in visits]
    values = as_array(both).reshape(-1, 2)
    return Pairs(values[:, 0], values[:, 1])


class RunScores(NamedTuple):
    """Score, arm and block of every run that counts, in the order of the runs."""

    scores: Array
    arms: tuple[str, ...]
    blocks: tuple[int, ...]


def run_scores(trial: Trial, outcome: str) -> RunScores:
    """Return the scores of all runs in complete blocks that have a value of the outcome."""
    rule = trial.protocol.outcomes[outcome]
    complete = set(trial.complete)
    rows = [
        (score(run.measurements[outcome], rule), run.arm, run.block)
        for run in trial.runs
        if run.block is not None and run.block in complete and outcome in run.measurements
    ]
    return RunScores(
        np.array([value for value, _, _ in rows], dtype=np.float64),
        tuple(arm for _, arm, _ in rows),
        tuple(block for _, _, block in rows),
    )
