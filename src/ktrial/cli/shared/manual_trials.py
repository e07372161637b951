# SPDX-License-Identifier: Apache-2.0
"""Trials whose arms a person sets up, or whose visits are boots.

Starts these trials, and runs their visits one at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrial.cli.shared.trial_outcome import finish
from ktrial.cli.shared.trial_start import prepare
from ktrial.judge.model.log import RunEnded, protocol_in
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, LimitPassed, Refused
from ktrial.kit.tables import columns
from ktrial.trial.arms.manual import Due, check_signs, is_by_hand
from ktrial.trial.arms.plan_arms import found_values
from ktrial.trial.outcome.summary import judgement_of
from ktrial.trial.outcome.text import due_text
from ktrial.trial.protocol.protocol import outcomes_around, protocol_of
from ktrial.trial.run.boots import cut_off, refuse_used_boot
from ktrial.trial.run.conduct import begin, carry_on
from ktrial.trial.run.guards import refuse_changed
from ktrial.trial.run.manual_visits import (
    VisitTurn,
    changed_arm,
    closing,
    due_of,
    facts_needed,
    file_of_visit,
    recognise,
    refuse_other_kernel,
    runs_per_visit,
    visits_made,
    with_signs_of_control,
)
from ktrial.trial.run.prepare import order_of, rig_of
from ktrial.trial.run.progress import TrialProgress
from ktrial.trial.run.records import untold
from ktrial.trial.run.trial_builds import build_facts, refuse_used_build

if TYPE_CHECKING:
    from ktrial.bench.record import RunRecord
    from ktrial.cli.app import App
    from ktrial.judge.model.log import ArmFound, Event
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.record import StoredTrial
    from ktrial.trial.run.prepare import Prepared


class Past(NamedTuple):
    """What a trial has measured so far."""

    records: Sequence[RunRecord]
    log: Sequence[Event]


def start_by_hand(
    app: App,
    file: TrialFile,
    *,
    allow_dangerous: bool,
    as_json: bool,
    check: Callable[[Prepared], None] = lambda _: None,
) -> tuple[StoredTrial, Due]:
    """Store a new trial; return it with its first visit. `check` may refuse the trial before it is stored."""
    check_signs(file, app.catalog.kinds)
    app.lock_trials()
    ready = prepare(app, file, allow_dangerous=allow_dangerous)
    check(ready)
    facts = app.best_session("recognising the arms").facts(facts_needed(ready.arms))
    ready = ready._replace(arms=with_signs_of_control(ready.file, ready.arms, facts, app.catalog.kinds))
    around = outcomes_around(ready.suite, rig_of(app, ready).around.counters)
    runs = runs_per_visit(file, ready.tasks, ready.facts)
    protocol = protocol_of(ready.file, ready.tasks, order_of(ready).gates, ready.seed, None, runs, around)
    TrialProgress(app.clock, as_json=as_json).announce(ready, protocol)
    stored = begin(app, ready, protocol)
    due = due_of(stored, [protocol])
    assert due is not None, "a new trial is not over"
    return stored, due


def begin_by_hand(app: App, file: TrialFile, *, allow_dangerous: bool, as_json: bool) -> int:
    """Store a new trial, and make its first visit if the arm of that visit is already in force."""
    stored, due = start_by_hand(app, file, allow_dangerous=allow_dangerous, as_json=as_json)
    app.say(f"started {stored.trial}; run `ktrial trial next` for each visit")
    try:
        found = _in_force(app, stored, due, Past((), ()), None)
    except Refused:
        show(due, (), as_json=as_json)
        return 0
    return _visit(app, stored, due, found, allow_dangerous=allow_dangerous, as_json=as_json)


def next_visit(
    app: App, name: str | None, *, done: str | None, dry_run: bool, allow_dangerous: bool, as_json: bool
) -> int:
    """Make the next visit if its arm is in force. With `dry_run`, only show the visit.

    After the last visit, print the verdict.
    """
    stored = _open_by_hand(app, name)
    if not is_by_hand(stored.file):
        hint = f"ktrial trial resume {stored.trial}"
        raise BadInput(f"{stored.trial} has no steps to do by hand: it has neither manual arms nor boots", hint=hint)
    if not dry_run:
        app.lock_trials()
    records = app.run_store.records(stored.session)
    log = _caught_up(app, stored, records, dry_run=dry_run)
    due = due_of(stored, log)
    if due is None:
        return finish(app, stored, interrupted=False, as_json=as_json)
    past = Past(records, log)
    if dry_run:
        return _tell(app, stored, due, past, done, as_json=as_json)
    found = _in_force(app, stored, due, past, done)
    return _visit(app, stored, due, found, allow_dangerous=allow_dangerous, as_json=as_json)


def _caught_up(app: App, stored: StoredTrial, records: Sequence[RunRecord], *, dry_run: bool) -> Sequence[Event]:
    """Return the log. Complete it if ktrial was killed or the machine rebooted during a visit."""
    log = app.trials.log(stored.trial)
    benchmarks = list(dict.fromkeys(record.benchmark for record in records))
    late = [event for event in untold(log, records, benchmarks) if not isinstance(event, RunEnded) or event.block]
    boot_id = app.best_session("recognising the arm").facts(["boot.id"]).value("boot.id")
    void = cut_off([*log, *late], records, boot_id)
    late += [] if void is None else [void]
    late += closing([*log, *late])
    if late and not dry_run:
        app.trials.append(stored.trial, late)
    return (*log, *late)


def _tell(app: App, stored: StoredTrial, due: Due, past: Past, done: str | None, *, as_json: bool) -> int:
    try:
        _in_force(app, stored, due, past, done)
    except Refused as error:
        show(due, (), as_json=as_json, now=error.message)
    else:
        show(due, (), as_json=as_json, now="ready for this visit")
    return 0


def _in_force(app: App, stored: StoredTrial, due: Due, past: Past, done: str | None) -> ArmFound:
    """Return how ktrial recognised the arm that is due.

    Raise Refused if the arm is not in force, or if an earlier visit used this boot or build.
    """
    facts = app.best_session("recognising the arm").facts(facts_needed(stored.arms))
    refuse_used_boot(due, past.records, facts.value("boot.id"))
    refuse_used_build(due, past.log, facts)
    found = recognise(stored, due, facts, app.catalog.kinds, done)
    refuse_other_kernel(stored, due, past.records, facts)
    if due.new_build:
        found = msgspec.structs.replace(found, facts={**found.facts, **build_facts(facts)})
    return found


def _visit(app: App, stored: StoredTrial, due: Due, found: ArmFound, *, allow_dangerous: bool, as_json: bool) -> int:
    """Make the visit and all following visits that need no person, then show the next one."""
    ready = _prepared(app, stored, due, allow_dangerous=allow_dangerous)
    rig = rig_of(app, ready)
    before = app.trials.log(stored.trial)
    protocol = protocol_in(before)
    listen = TrialProgress(app.clock, as_json=as_json)
    with app.interrupts, listen:
        listen.take_up(protocol, judgement_of(before))
        try:
            interrupted = carry_on(app, stored, ready, rig, listen, VisitTurn(stored, due, found)).interrupted
        except LimitPassed:
            finish(app, stored, interrupted=False, as_json=as_json)
            raise
    after = app.trials.log(stored.trial)
    due_next = due_of(stored, after)
    if due_next is None:
        return finish(app, stored, interrupted=interrupted, as_json=as_json)
    if interrupted:
        return app.end_interrupted(f"continue with `{due_next.command}`")
    made = [f"{arm} in block {block}, {runs} run{'s'[: runs != 1]}" for block, arm, runs in visits_made(before, after)]
    show(due_next, made, as_json=as_json)
    return 0


def _prepared(app: App, stored: StoredTrial, due: Due, *, allow_dangerous: bool) -> Prepared:
    """Prepare this machine for the visit. Raise Refused if an arm has changed since the start."""
    ready = prepare(app, file_of_visit(stored.file, due), allow_dangerous=allow_dangerous)
    changed = changed_arm(stored, due, ready.arms)
    if changed is not None:
        raise Refused(
            f"cannot continue {stored.trial}: the machine has changed, so arm {changed} is no longer the same",
            hint="undo that change, or start a new trial",
        )
    refuse_changed(stored, found_values(ready.plans))
    return ready


def _open_by_hand(app: App, name: str | None) -> StoredTrial:
    """Return the named trial; without a name the newest manual trial, preferably one with a visit left."""
    if name is not None:
        return app.trials.find(name)
    found = [one for one in app.trials.all() if is_by_hand(one.file)]
    if not found:
        raise BadInput(
            "the store has no trial with manual arms or boots",
            hint="start one with `ktrial trial run FILE` (docs/trial.md describes its protocol)",
        )
    return next((one for one in found if due_of(one, app.trials.log(one.trial)) is not None), found[0])


def show(due: Due, done: Sequence[str], *, as_json: bool, now: str | None = None) -> None:
    """Show the next visit; `now` states whether the machine is ready for that visit, if known."""
    if as_json:
        sys.stdout.write(plain_json.line({"event": "due", "due": due, "done": done, "now": now}))
    else:
        sys.stdout.write(due_text(due, done, now, width=columns()))
