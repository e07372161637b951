# SPDX-License-Identifier: Apache-2.0
"""A trial as a comparison: the judge's answers with the runs behind them, for reports of every kind."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ktrial.domain.benchmark import Benchmark, Outcome
from ktrial.domain.comparison import ArmSource, ArmValues, Comparison, Contrast, OutcomeComparison, Point, StateChange
from ktrial.domain.comparison_words import answer_of, contrast_sentence
from ktrial.domain.finding import Finding
from ktrial.domain.judgement import Judged, Judgement
from ktrial.domain.run import Kept, RunRecord, variation
from ktrial.domain.stored_trial import StoredTrial
from ktrial.domain.trial_log import BlockDrawn, BlockVoided, Ended, Event, Protocol, RunEnded

_WHYS: Mapping[str, str] = {
    "fast path": "the first four blocks left no doubt",
    "boundary": "the interval decided it",
    "cap": "the cap was reached",
    "futility": "the blocks up to the cap would hardly have decided it",
    "failures": "its runs fail",
    "check": "a check refused it",
    "ended": "the trial ended before it was decided",
    "open": "the trial has not decided it yet",
}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What else a report needs: outcomes as their benchmarks declare them by `benchmark.outcome`, and the arms' states.

    `records` are those of the trial that are at hand.
    """

    outcomes: Mapping[str, Outcome]
    records: Sequence[RunRecord]
    state_changes: tuple[StateChange, ...] = ()
    findings: tuple[Finding, ...] = ()


def outcomes_of(records: Iterable[RunRecord], benchmarks: Mapping[str, Benchmark]) -> dict[str, Outcome]:
    """`benchmark.outcome` -> what is known of it: from the benchmark, of an own command from its records."""
    found: dict[str, Outcome] = {}
    for record in records:
        declared = {one.name: one for one in benchmarks[record.tool].outcomes} if record.tool in benchmarks else {}
        for kept in record.measurements:
            name = f"{record.benchmark}.{kept.outcome}"
            if name not in found:
                found[name] = declared.get(kept.outcome) or _recorded(kept)
    return found


def _recorded(kept: Kept) -> Outcome:
    """What a record says of an outcome that no benchmark here declares."""
    return Outcome(
        name=kept.outcome,
        unit=kept.unit,
        direction=kept.direction,
        kind="score",
        low=-math.inf,
        high=math.inf,
        better="",
        worse="",
        blind_spots="",
    )


def comparison_of(trial: StoredTrial, log: Sequence[Event], judgement: Judgement, told: Told) -> Comparison:
    """All of it."""
    protocol = log[0]
    assert isinstance(protocol, Protocol), "a log begins with its protocol"
    arms = [arm.name for arm in protocol.arms if arm.name != protocol.control]
    runs = [one for one in _valid(log) if one.block is not None]
    outcomes = tuple(
        _outcome(protocol, name, told.outcomes[name], judgement, runs, trial.session)
        for name in protocol.outcomes
        if name in told.outcomes and any(name in run.measurements for run in runs)
    )
    findings = (*judgement.findings, *told.findings, *_ended(log))
    scope = _scope(told.records)
    named = [one for one in outcomes if one.role != "exploratory"]
    return Comparison(
        title=protocol.name,
        answer=answer_of(protocol.control, arms, named, findings, scope, None),
        scope=scope,
        control=protocol.control,
        arms=tuple(_source(trial, protocol, name, log, told.records) for name in (protocol.control, *arms)),
        outcomes=outcomes,
        findings=findings,
        state_changes=told.state_changes,
        reproduce=(f"ktrial trial recheck {trial.trial}",),
        protocol=msgspec.to_builtins(trial.file),
        protocol_sha256=trial.protocol_sha256,
    )


def _valid(log: Iterable[Event]) -> list[RunEnded]:
    events = list(log)
    voided = {event.block for event in events if isinstance(event, BlockVoided)}
    return [event for event in events if isinstance(event, RunEnded) and event.block not in voided]


def _outcome(
    protocol: Protocol, name: str, about: Outcome, judgement: Judgement, runs: Sequence[RunEnded], session: str
) -> OutcomeComparison:
    rule = protocol.outcomes[name]
    values = tuple(
        _values(arm.name, [(at, run) for at, run in enumerate(runs, 1) if run.arm == arm.name], name, session)
        for arm in protocol.arms
        if any(run.arm == arm.name and name in run.measurements for run in runs)
    )
    found = OutcomeComparison(
        benchmark=name.rpartition(".")[0],
        outcome=about.name,
        unit=about.unit,
        direction=about.direction,
        role=rule.role,
        margin=rule.margin,
        arms=values,
        contrasts=(),
        better=about.better,
        worse=about.worse,
        blind_spots=about.blind_spots,
    )
    judged = [one for one in judgement.judged if one.outcome == name]
    counts = {one.arm: one.n for one in values}
    contrasts = [_contrast(one, counts, found) for one in judged]
    return msgspec.structs.replace(
        found,
        contrasts=tuple(one for one in contrasts if one.control == protocol.control),
        steps=tuple(one for one in contrasts if one.control != protocol.control),
    )


def _contrast(judged: Judged, counts: Mapping[str, int], outcome: OutcomeComparison) -> Contrast:
    contrast = Contrast(
        arm=judged.arm,
        control=judged.against,
        verdict=judged.verdict or "inconclusive",
        why=_why(judged),
        effect=judged.effect,
        worth=judged.worth,
        n_arm=counts.get(judged.arm, 0),
        n_control=counts.get(judged.against, 0),
        blocks=judged.blocks,
        test=None,
        sentence="",
        findings=judged.findings,
    )
    return msgspec.structs.replace(contrast, sentence=contrast_sentence(contrast, outcome))


def _why(judged: Judged) -> str:
    why = _WHYS.get(judged.why, judged.why)
    if judged.needed is not None:
        why = f"{why}; {judged.needed} blocks would be needed with this noise"
    return f"explored only: {why}" if judged.role == "exploratory" else why


def _values(arm: str, runs: Sequence[tuple[int, RunEnded]], name: str, session: str) -> ArmValues:
    points = tuple(
        Point(value=run.measurements[name], run=f"{session}/{run.run}", place=at, block=str(run.block))
        for at, run in runs
        if name in run.measurements
    )
    values = [point.value for point in points]
    return ArmValues(
        arm=arm,
        n=len(values),
        mean=math.fsum(values) / len(values),
        median=statistics.median(values),
        sd=statistics.stdev(values) if len(values) > 1 else None,
        cv=variation(values),
        minimum=min(values),
        maximum=max(values),
        points=points,
    )


def _source(
    trial: StoredTrial, protocol: Protocol, arm: str, log: Sequence[Event], records: Sequence[RunRecord]
) -> ArmSource:
    runs = [event for event in log if isinstance(event, RunEnded) and event.arm == arm and event.block is not None]
    drawn = {event.block for event in log if isinstance(event, BlockDrawn) and arm in event.order}
    void = sum(isinstance(event, BlockVoided) and event.block in drawn for event in log)
    boots = {one.trial.boot_id for one in records if one.trial is not None and one.trial.arm == arm}
    settings = trial.arms[arm]
    known = {**settings.changes, **{f"environment {key}": value for key, value in settings.environment.items()}}
    if next(one.placebo for one in protocol.arms if one.name == arm):
        known = {"placebo": "changes nothing"}
    return ArmSource(
        arm=arm,
        sources=(trial.trial,),
        runs=len(runs),
        failed=sum(run.failure is not None for run in runs),
        void=void,
        boots=len(boots) or None,
        machines=1,
        known=known,
    )


def _scope(records: Sequence[RunRecord]) -> str:
    boots = {one.trial.boot_id for one in records if one.trial is not None}
    return "on this boot of this machine" if len(boots) <= 1 else f"on this machine, across {len(boots)} boots"


def _ended(log: Sequence[Event]) -> tuple[Finding, ...]:
    if any(isinstance(event, Ended) for event in log):
        return ()
    sentence = "the trial is not over: `ktrial trial resume` goes on with it"
    return (Finding(kind="unfinished", level="note", sentence=sentence),)
