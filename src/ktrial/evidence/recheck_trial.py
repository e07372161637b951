# SPDX-License-Identifier: Apache-2.0
"""Rechecks a trial: its protocol against the hash, its orders against the seed, its verdicts against the runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ktrial.bench.benchmark import Benchmark
from ktrial.bench.record import RunRecord
from ktrial.evidence.differences import Difference
from ktrial.evidence.reparse import BROKEN
from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.log import BlockDrawn, BlockVoided, Looked, RunEnded, TrialEnd
from ktrial.kit.errors import KtrialError, in_lower_case
from ktrial.live.account import with_account
from ktrial.live.period import PERIOD_FILE, SeenPeriod, read_period
from ktrial.results.model import record_of
from ktrial.results.ports import ReadResults
from ktrial.trial.arms.manual import is_by_hand
from ktrial.trial.arms.purity import purity
from ktrial.trial.kept_trial import KeptTrial
from ktrial.trial.outcome.comparison import TrialFacts, comparison_of, outcomes_of
from ktrial.trial.outcome.scope import unvouched
from ktrial.trial.outcome.summary import audited, judgement_of
from ktrial.trial.run.boots import boots_misused
from ktrial.trial.run.records import contradicted, visits_of
from ktrial.trial.run.trial_builds import builds_misused
from ktrial.tuning.catalog.model import Catalog


def records_in(kept: KeptTrial, results: ReadResults) -> tuple[RunRecord, ...]:
    """Return the records of a trial's finished runs. Raise KtrialError for a missing session or invalid record."""
    session = next((one for one in results.sessions() if one.session == kept.stored.session), None)
    if session is None:
        raise KtrialError(
            f"cannot find the runs of {kept.stored.trial} in the store",
            hint="use --store with the store that has these runs",
        )
    found: list[RunRecord] = []
    for run in results.runs(session.session):
        try:
            record = record_of(run, session)
        except msgspec.ValidationError as error:
            raise KtrialError(
                f"run {run.number} of {session.session} has an {BROKEN} ({in_lower_case(str(error))})",
                hint="update ktrial: a newer version may have written the record",
            ) from None
        found += [] if record is None else [record]
    return tuple(found)


def told_again(
    kept: KeptTrial, results: ReadResults, benchmarks: Mapping[str, Benchmark], catalog: Catalog
) -> Comparison:
    """Recompute a trial's comparison from its log, its runs and the states of its arms."""
    stored = kept.stored
    records = records_in(kept, results)
    places = results.states(stored.session)
    states = {arm: results.raw(places[arm]) for arm in stored.arms if arm in places}
    changes, findings = purity(stored, states, catalog)
    told = TrialFacts(
        outcomes=outcomes_of(records, benchmarks), records=records, state_changes=changes, findings=findings
    )
    found = comparison_of(stored, kept.log, judgement_of(kept.log), told)
    if not stored.file.live:
        return found
    return with_account(found, stored.file.live, kept.log, _seen_periods(records, results))


def _seen_periods(records: Sequence[RunRecord], results: ReadResults) -> dict[int, SeenPeriod]:
    """Return the observations of the sources in each run that counts."""
    stored = {one.run: one.raw.get(f"files/{PERIOD_FILE}") for one in records if not one.void}
    return {
        run: read_period({PERIOD_FILE: results.raw(artefact.sha256)})
        for run, artefact in stored.items()
        if artefact is not None
    }


def trial_differences(kept: KeptTrial, results: ReadResults) -> Iterator[Difference]:
    name, stored = kept.stored.trial, kept.stored
    if kept.sha256 != stored.protocol_sha256:
        told = (
            f"the protocol was changed: its hash is {kept.sha256}, but {stored.protocol_sha256} was fixed before the "
            "first run"
        )
        yield Difference(kind="protocol", where=f"trial {name}, its protocol", told=told)
    if set(stored.arms) != {one.name for one in kept.protocol.arms}:
        told = "the arms of the trial differ from the arms of its protocol"
        yield Difference(kind="protocol", where=f"trial {name}, its protocol", told=told)
    if kept.noise is not None:
        for outcome, values in kept.protocol.profile.items():
            if kept.noise.differences.get(outcome) != values:
                told = f"protocol and noise profile have different A/A differences for {outcome}"
                yield Difference(kind="protocol", where=f"trial {name}, its noise profile", told=told)
    try:
        for finding in audited(kept.log):
            kind = "an order" if finding.kind == "order-not-drawn" else "a verdict"
            yield Difference(kind="trial", where=f"trial {name}, {kind}", told=finding.sentence)
    except KtrialError as error:
        yield Difference(kind="trial", where=f"trial {name}, its log", told=f"cannot judge the log: {error.message}")
        return
    try:
        records = records_in(kept, results)
    except KtrialError as error:
        yield Difference(kind="trial", where=f"trial {name}, its runs", told=error.message)
        return
    wrong = (
        *contradicted(kept.log, records, stored.protocol_sha256),
        *_left_out(kept, records),
        *boots_misused(kept.log, records),
        *builds_misused(kept.log),
        *(unvouched(kept.log) if is_by_hand(stored.file) else ()),
    )
    for run, told in wrong:
        yield Difference(kind="trial", where=f"trial {name}, run {run}", told=told)


def _left_out(kept: KeptTrial, records: Sequence[RunRecord]) -> Iterator[tuple[int, str]]:
    """Yield the good runs of valid blocks that the log omits, although the log has ended or has later runs.

    The log of a killed trial may lack its last runs, which `resume` adds.
    """
    told = {one.run for visit in visits_of(kept.log, records).values() for one in visit.values()}
    is_over = isinstance(kept.log[-1], TrialEnd)
    last = math.inf if is_over else max((event.run for event in kept.log if isinstance(event, RunEnded)), default=0)
    voided = {event.block for event in kept.log if isinstance(event, BlockVoided)}
    whole = _whole_visits(kept, records)
    for one in records:
        place = one.trial
        if place is None or place.block is None or place.block in voided or one.run in told or one.run > last:
            continue
        if not (one.exit.interrupted or one.void) and one.run in whole:
            yield one.run, f"the log omits this run of {place.arm} in block {place.block}"


def _whole_visits(kept: KeptTrial, records: Sequence[RunRecord]) -> set[int]:
    """Return the runs of complete visits, in which every benchmark ran; a trial repeats interrupted visits."""
    visits = visits_of(kept.log, records).values()
    benchmarks = max((set(visit) for visit in visits), key=len, default=set())
    found: set[int] = set()
    here: list[RunRecord] = []
    for one in records:
        if here and (one.trial != here[-1].trial or one.benchmark in {each.benchmark for each in here}):
            here = []
        here.append(one)
        if {each.benchmark for each in here} == benchmarks:
            found |= {each.run for each in here}
    return found


def trial_note(kept: KeptTrial) -> str:
    orders = sum(isinstance(event, BlockDrawn) for event in kept.log)
    looks = sum(isinstance(event, Looked) for event in kept.log)
    runs = sum(isinstance(event, RunEnded) for event in kept.log)
    return (
        f"trial {kept.stored.trial}: redrew {orders} orders from the seed, "
        f"recomputed the verdicts of {looks} looks from {runs} runs"
    )
