# SPDX-License-Identifier: Apache-2.0
"""Turns a trial into a comparison for reports: the judge's answers with the runs behind them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ktrial.bench.benchmark import Benchmark
from ktrial.bench.doubts import readings_of
from ktrial.bench.record import KeptMeasurement, RunRecord
from ktrial.compare.arms import SHOWN_READINGS
from ktrial.compare.sentences import answer_of, contrast_sentence
from ktrial.compare.series import values_of_points
from ktrial.judge.model.comparison import (
    ArmSource,
    ArmValues,
    Comparison,
    Contrast,
    OutcomeComparison,
    Point,
    StateChange,
)
from ktrial.judge.model.judgement import Counter, Judgement, OutcomeJudgement
from ktrial.judge.model.log import (
    BlockDrawn,
    BlockVoided,
    Event,
    Looked,
    Protocol,
    ReadingsTaken,
    RunEnded,
    TrialEnd,
    protocol_in,
)
from ktrial.judge.model.trial_summary import ToldArm, ToldBlock, ToldLook, ToldTrial
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Outcome
from ktrial.kit.own_code import code_sha256
from ktrial.kit.units import three_digits
from ktrial.machine.gates import GATES, idle_gates
from ktrial.trial.arms.manual import is_by_hand
from ktrial.trial.outcome.scope import (
    claimed,
    clock_of_host,
    guest_findings,
    guest_scope,
    output_findings,
    scope_of,
    title_of,
)
from ktrial.trial.protocol.file import trial_text
from ktrial.trial.protocol.protocol import outcome_around
from ktrial.trial.record import ArmSettings, StoredTrial
from ktrial.trial.run.records import visits_of
from ktrial.trial.run.trial_builds import builds_that_count, same_builds


def story_of(trial: StoredTrial, log: Sequence[Event], judgement: Judgement) -> ToldTrial:
    protocol = protocol_in(log)
    return ToldTrial(
        trial=trial.trial,
        text=trial_text(trial.file),
        machine=trial.machine,
        seed=protocol.seed,
        cap=judgement.cap,
        detect=protocol.detect,
        settle_s=trial.settle_s,
        blocks=judgement.blocks,
        ended=log[-1].reason if isinstance(log[-1], TrialEnd) else None,
        arms=tuple(
            ToldArm(arm=one.name, placebo=one.placebo, **_shown_settings(trial.arms[one.name])) for one in protocol.arms
        ),
        drawn=tuple(_blocks_of(log)),
        looks=tuple(_looks(protocol, log)),
    )


def _shown_settings(arm: ArmSettings) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(arm).items() if name != "inert"}


def _blocks_of(log: Sequence[Event]) -> Iterator[ToldBlock]:
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
    """Yield the effect on the primary outcome after each block until its verdict; nothing if effects are not ratios."""
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
            # A block without a run adds nothing, and neither do blocks after the verdict.
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


#: Reasons of verdicts; {role} is replaced. `equivalent` has a text of its own if the reason differs.
_WHYS: Mapping[str, str] = {
    "fast path": "the first four blocks left no doubt",
    "boundary": "the interval excludes zero",
    "holm": "the difference is beyond chance, corrected for all {role} outcomes",
    "e-value": "the blocks after the cap left no doubt",
    "counter": "the counts differ beyond chance",
    "failures": "its runs fail",
    "few-events": "its runs have too few events for this percentile: use longer runs or another outcome",
    "open": "undecided so far",
}
_WHYS_EQUIVALENT: Mapping[str, str] = {
    "boundary": "the interval lies within the margin",
    "counter": "the counts differ by less than the margin",
}

_GUARDS: Mapping[str, str] = {
    "holds": "the guard holds: surely not worse by more than {margin}",
    "broken": "the guard is broken: surely worse by more than {margin}",
    "open": "whether it is worse by more than {margin} is open",
}


def why(judged: OutcomeJudgement, protocol: Protocol, judgement: Judgement, ended: str | None) -> str:
    """Return the reason of the verdict, or what is missing for a verdict."""
    if judged.role == "exploratory":
        if judged.p is None or judged.p_adjusted is None:
            return "exploratory: it gets no verdict"
        return f"exploratory, no verdict: p = {judged.p:.2g}, corrected for all such outcomes {judged.p_adjusted:.2g}"
    cap = judgement.cap
    parts = [_reason(judged, judgement, ended)]
    if judged.why == "ended" and judged.role != "primary":
        counts = protocol.outcomes[judged.outcome].scale == "count" and judged.counter is None
        looked = f"counts are judged only after all {cap or protocol.budget} blocks; " if counts else ""
        parts.append(
            f"{looked}until_all_decided = true in the protocol's [design] makes a trial continue until it is decided"
        )
    if judged.guard is not None:
        parts.insert(0, _GUARDS[judged.guard].format(margin=_percent(protocol.outcomes[judged.outcome].margin)))
    if judged.counter is not None:
        parts.append(_count_text(judged.counter, judged.blocks))
    if judged.needed is not None and judged.verdict == "inconclusive":
        parts.append(_needed(judged, judged.needed, protocol))
    return "; ".join(parts)


def _reason(judged: OutcomeJudgement, judgement: Judgement, ended: str | None) -> str:
    most = judgement.cap
    cap = f"the cap of {most} blocks" if most is not None else "the cap"
    if judged.why == "cap":
        return f"{cap} was reached"
    if judged.why == "futility":
        return f"given up after {judged.blocks} blocks: going on to {cap} was unlikely to decide it"
    if judged.why == "ended":
        return f"the trial ended first: {ended}" if ended is not None else "the trial ended first"
    if judged.why == "check":
        refused = next((one for one in (*judged.findings, *judgement.findings) if one.level == "refuse"), None)
        return "a check refused it" if refused is None else f"refused: {refused.sentence}"
    if judged.verdict == "equivalent" and judged.why in _WHYS_EQUIVALENT:
        return _WHYS_EQUIVALENT[judged.why]
    return _WHYS.get(judged.why, judged.why).format(role=judged.role)


def _needed(judged: OutcomeJudgement, needed: int, protocol: Protocol) -> str:
    """Return how many blocks this noise requires, or what these blocks leave undecided."""
    detect = _percent(protocol.detect)
    if needed > judged.blocks:
        return f"with this noise, it takes {needed} blocks to find a difference of {detect}"
    effect, far = judged.effect, math.log1p(protocol.detect)
    if effect is None or effect.low is None or effect.high is None or effect.low < -far or effect.high > far:
        return f"the interval still includes a difference of {detect}"
    margin = _percent(protocol.outcomes[judged.outcome].margin)
    return f"ktrial would probably have found a difference of {detect}; whether there is one above {margin} is open"


def _count_text(counter: Counter, blocks: int) -> str:
    if counter.bound is not None:
        return f"no event in either arm in {blocks} blocks: fewer than {counter.bound:.2g} events a block"
    arm, control = counter.arm_total, counter.control_total
    totals = f"{three_digits(arm)} against {three_digits(control)}, summed over {blocks} blocks"
    means = f"{three_digits(arm / blocks)} against {three_digits(control / blocks)} a block"
    return (
        f"{totals}, or {means}; no event in {100 * counter.arm_zero_share:.0f} % of them, against "
        f"{100 * counter.control_zero_share:.0f} %"
    )


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


_ROLES = ("primary", "secondary", "guard", "exploratory")


class TrialFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a report needs besides the log: outcomes by `benchmark.outcome`, the trial's records, and state changes."""

    outcomes: Mapping[str, Outcome]
    records: Sequence[RunRecord]
    state_changes: tuple[StateChange, ...] = ()
    findings: tuple[Finding, ...] = ()


def outcomes_of(records: Iterable[RunRecord], benchmarks: Mapping[str, Benchmark]) -> dict[str, Outcome]:
    """Return the outcomes by `benchmark.outcome`.

    A benchmark declares its outcomes; the outcomes of a command are in its run records.
    """
    found: dict[str, Outcome] = {}
    for record in records:
        declared = {one.name: one for one in benchmarks[record.tool].outcomes} if record.tool in benchmarks else {}
        for kept in record.measurements:
            name = f"{record.benchmark}.{kept.outcome}"
            if name not in found:
                found[name] = declared.get(kept.outcome) or _recorded(kept)
    return found


def _recorded(kept: KeptMeasurement) -> Outcome:
    """Return an outcome that no benchmark declares: measured around the run, or described in the run's record."""
    if (around := outcome_around(kept.outcome)) is not None:
        return around
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


def comparison_of(trial: StoredTrial, log: Sequence[Event], judgement: Judgement, told: TrialFacts) -> Comparison:
    protocol = protocol_in(log)
    arms = [arm.name for arm in protocol.arms if arm.name != protocol.control]
    runs = [one for one in _valid(log) if one.block is not None]
    story = story_of(trial, log, judgement)
    ran = _Ran(protocol, judgement, runs, visits_of(log, told.records), trial.session, story.ended)
    outcomes = by_role(
        _outcome(ran, name, told.outcomes[name])
        for name in protocol.outcomes
        if name in told.outcomes and any(name in run.measurements for run in runs)
    )
    builds = builds_that_count(log) if protocol.replicate == "build" else {}
    findings = (
        *judgement.findings,
        *told.findings,
        *claimed(log),
        *same_builds(builds),
        *output_findings(trial, told.records),
        *_idle_gates(log),
        *_end_findings(trial, log),
    )
    scope = scope_of(protocol, told.records, builds)
    if trial.file.guest is not None:
        scope = guest_scope(trial.file.guest, told.records)
        findings = (*findings, *guest_findings(trial.file.guest))
    else:
        findings = (*findings, *clock_of_host(told.records))
    named = [one for one in outcomes if one.role != "exploratory"]
    return Comparison(
        title=title_of(trial, protocol.name),
        answer=answer_of(protocol.control, arms, named, findings, scope, None),
        scope=scope,
        control=protocol.control,
        arms=tuple(_source(trial, name, log, told.records) for name in (protocol.control, *arms)),
        outcomes=outcomes,
        findings=findings,
        state_changes=told.state_changes,
        reproduce=("ktrial trial run trial.toml", f"ktrial trial recheck {trial.trial}"),
        protocol=msgspec.to_builtins(trial.file),
        protocol_sha256=trial.protocol_sha256,
        versions=_versions(told.records),
        trial=story,
        writer=code_sha256(),
    )


def _idle_gates(log: Sequence[Event]) -> tuple[Finding, ...]:
    """Return a finding on gates without effect, because this machine lacks the values that they read."""
    protocol = protocol_in(log)
    names = idle_gates(protocol.gates, [event.readings for event in log if isinstance(event, ReadingsTaken)])
    if not names:
        return ()
    told = ", ".join(f"{name} ({GATES[name].what})" for name in names)
    sentence = f"these gates have no effect, because this machine does not report what they check: {told}"
    return (Finding(kind="gate-unread", level="note", sentence=sentence),)


def by_role(outcomes: Iterable[OutcomeComparison]) -> tuple[OutcomeComparison, ...]:
    """Sort outcomes by role, the primary outcome first, because a log does not keep their order."""
    return tuple(sorted(outcomes, key=lambda one: (_ROLES.index(one.role), one.name)))


def _versions(records: Sequence[RunRecord]) -> dict[str, str]:
    found: dict[str, str] = {}
    for record in records:
        found["ktrial"] = record.session.ktrial_version
        if record.session.agent_version is not None:
            found["agent"] = record.session.agent_version
        if record.tool_version is not None:
            found[record.tool] = record.tool_version
    return found


def _valid(log: Iterable[Event]) -> list[RunEnded]:
    events = list(log)
    voided = {event.block for event in events if isinstance(event, BlockVoided)}
    return [event for event in events if isinstance(event, RunEnded) and event.block not in voided]


class _Ran(NamedTuple):
    """A trial with its valid runs and their records."""

    protocol: Protocol
    judgement: Judgement
    runs: Sequence[RunEnded]
    visits: Mapping[int, Mapping[str, RunRecord]]
    session: str
    ended: str | None


def _outcome(ran: _Ran, name: str, about: Outcome) -> OutcomeComparison:
    protocol, runs = ran.protocol, ran.runs
    rule = protocol.outcomes[name]
    values = tuple(
        _values(arm.name, [(at, run) for at, run in enumerate(runs, 1) if run.arm == arm.name], name, ran)
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
    judged = [one for one in ran.judgement.judged if one.outcome == name]
    counts = {one.arm: one.n for one in values}
    contrasts = [_contrast(one, ran, counts, found) for one in judged]
    return msgspec.structs.replace(
        found,
        contrasts=tuple(one for one in contrasts if one.control == protocol.control),
        steps=tuple(one for one in contrasts if (one.arm, one.control) in protocol.steps),
    )


def _contrast(judged: OutcomeJudgement, ran: _Ran, counts: Mapping[str, int], outcome: OutcomeComparison) -> Contrast:
    contrast = Contrast(
        arm=judged.arm,
        control=judged.against,
        verdict=judged.verdict or "inconclusive",
        why=why(judged, ran.protocol, ran.judgement, ran.ended),
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


def _values(arm: str, runs: Sequence[tuple[int, RunEnded]], name: str, ran: _Ran) -> ArmValues:
    return values_of_points(arm, (_point(at, run, name, ran) for at, run in runs if name in run.measurements))


def _point(at: int, run: RunEnded, name: str, ran: _Ran) -> Point:
    record = ran.visits.get(run.run, {}).get(name.rpartition(".")[0])
    read = {} if record is None else readings_of(record)
    known = {key: float(value) for key, value in read.items() if isinstance(value, int | float)}
    return Point(
        value=run.measurements[name],
        run=f"{ran.session}/{run.run if record is None else record.run}",
        place=at,
        block=str(run.block),
        temperature_c=known.get("temperature_c"),
        conditions={key: known[key] for key in SHOWN_READINGS if key in known},
    )


def _source(trial: StoredTrial, arm: str, log: Sequence[Event], records: Sequence[RunRecord]) -> ArmSource:
    runs = [event for event in log if isinstance(event, RunEnded) and event.arm == arm and event.block is not None]
    drawn = {event.block for event in log if isinstance(event, BlockDrawn) and arm in event.order}
    void = sum(isinstance(event, BlockVoided) and event.block in drawn for event in log)
    boots = {one.trial.boot_id for one in records if one.trial is not None and one.trial.arm == arm}
    known = {}
    kernels = {one.trial.kernel_release for one in records if one.trial is not None and one.trial.arm == arm}
    if len(kernels) == 1 and (kernel := kernels.pop()) is not None:
        # If kernels are arms, two of them may have the same release.
        known["kernel"] = trial.arms[arm].changes.get("kernel", trial.found.get("kernel", kernel))
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


def _end_findings(trial: StoredTrial, log: Sequence[Event]) -> tuple[Finding, ...]:
    if isinstance(log[-1], TrialEnd):
        return ()
    next_verb = "next" if is_by_hand(trial.file) else "resume"
    sentence = f"the trial is not over: `ktrial trial {next_verb}` continues it"
    return (Finding(kind="unfinished", level="note", sentence=sentence),)
