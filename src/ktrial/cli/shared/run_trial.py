# SPDX-License-Identifier: Apache-2.0
"""From a protocol to a trial that runs: what `ktrial try` and `ktrial trial` share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ktrial.cli.shared.trial_outcome import finish, kept_trial
from ktrial.cli.shared.trial_start import agree_to_blindness, look_at, prepare
from ktrial.kit.errors import Refused

if TYPE_CHECKING:
    from pathlib import Path

    from ktrial.cli.app import App
    from ktrial.judge.model.comparison import Comparison
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.record import StoredTrial
    from ktrial.trial.run.events import TrialListener
    from ktrial.trial.run.prepare import Prepared, Rig


def show_protocol(app: App, file: TrialFile, *, allow_dangerous: bool) -> None:
    """Print a protocol and measure nothing. Raises what it would be refused for on this machine."""
    from ktrial.cli.shared import guest_trials
    from ktrial.trial.protocol.file import trial_text

    file = _in_boots(app, file)
    if file.guest is not None:
        guest_trials.show_protocol(app, file)
        return
    sys.stdout.write(trial_text(file))
    if not app.may_run_trials:
        return
    sys.stdout.flush()
    look_at(app, file, allow_dangerous=allow_dangerous)


def run_file(
    app: App, file: TrialFile, *, allow_dangerous: bool, profile: bool, as_json: bool, anyway: bool = False
) -> int:
    """A new trial, from its protocol to its verdict; where somebody must do something first, up to there.

    `anyway` also where the noise hides what is looked for.
    """
    from ktrial.cli.shared.manual_trials import begin_by_hand
    from ktrial.machine.gate_words import unread_gates
    from ktrial.trial.arms.manual import is_by_hand
    from ktrial.trial.run.conduct import begin, planned
    from ktrial.trial.run.prepare import rig_of
    from ktrial.trial.run.progress import TrialProgress

    file = _in_boots(app, file)
    if file.guest is not None:
        from ktrial.cli.shared.guest_trials import run_in_guests

        return run_in_guests(app, file, allow_dangerous=allow_dangerous, as_json=as_json)
    if is_by_hand(file):
        return begin_by_hand(app, file, allow_dangerous=allow_dangerous, as_json=as_json)
    app.lock_trials()
    ready = prepare(app, file, allow_dangerous=allow_dangerous)
    rig = rig_of(app, ready)
    listen = TrialProgress(app.clock, as_json=as_json)
    with app.interrupts, listen:
        protocol, forecast = planned(app, ready, rig, listen, profile=profile)
    gates = rig.around.gates
    unread = unread_gates(protocol.gates, gates.watch.look()) if gates is not None else ()
    listen.announce(ready, protocol, forecast=forecast, unread=unread, rules=True)
    if forecast is not None and not forecast.sees_enough:
        agree_to_blindness(forecast, anyway=anyway or bool(file.design.anyway), ask=not as_json)
    with app.interrupts, listen:
        stored = begin(app, ready, protocol)
        interrupted = _to_its_end(app, stored, ready, rig, listen, as_json=as_json)
    return finish(app, stored, interrupted=interrupted, as_json=as_json)


def _in_boots(app: App, file: TrialFile) -> TrialFile:
    """The same trial; where the host is an exact guest, in boots of such guests, which then take the host's place."""
    booted = app.host.in_boots(file) if app.host is not None and file.guest is None else None
    if booted is None:
        return file
    app.host = None
    return booted


def _to_its_end(
    app: App, stored: StoredTrial, ready: Prepared, rig: Rig, listen: TrialListener, *, as_json: bool
) -> bool:
    """Carry a trial out; whether it was interrupted. One that a limit ended is shown before that is said."""
    from ktrial.kit.errors import LimitPassed
    from ktrial.trial.run.conduct import carry_on

    try:
        return carry_on(app, stored, ready, rig, listen)[1]
    except LimitPassed:
        finish(app, stored, interrupted=False, as_json=as_json)
        raise


def resume_trial(app: App, stored: StoredTrial, *, allow_dangerous: bool, as_json: bool) -> int:
    """Go on with a trial of the store, with exactly what was fixed."""
    from ktrial.cli.shared.manual_trials import next_visit
    from ktrial.judge.model.log import Ended, Protocol
    from ktrial.trial.arms.manual import is_by_hand
    from ktrial.trial.arms.plan_arms import found_values
    from ktrial.trial.outcome.summary import judgement_of
    from ktrial.trial.run.guards import refuse_changed
    from ktrial.trial.run.prepare import rig_of
    from ktrial.trial.run.progress import TrialProgress

    log = app.trials.log(stored.trial)
    if judgement_of(log).next.action == "stop" and isinstance(log[-1], Ended):
        app.say(f"{stored.trial} is over")
        return finish(app, stored, interrupted=False, as_json=as_json)
    if stored.file.guest is not None:
        from ktrial.cli.shared.guest_trials import resume_in_guests

        return resume_in_guests(app, stored, allow_dangerous=allow_dangerous, as_json=as_json)
    if is_by_hand(stored.file):
        return next_visit(app, stored.trial, done=None, dry_run=False, allow_dangerous=allow_dangerous, as_json=as_json)
    app.lock_trials()
    ready = prepare(app, stored.file, allow_dangerous=allow_dangerous)
    if ready.arms != stored.arms:
        changed = next(name for name in stored.arms if ready.arms.get(name) != stored.arms[name])
        raise Refused(
            f"the arm {changed} would not be what it was when {stored.trial} began: the machine has changed",
            hint="put it back as it was, or begin a new trial",
        )
    refuse_changed(stored, found_values(ready.plans))
    rig = rig_of(app, ready)
    protocol = log[0]
    assert isinstance(protocol, Protocol), "a log begins with its protocol"
    listen = TrialProgress(app.clock, as_json=as_json)
    with app.interrupts, listen:
        listen.announce(ready, protocol, judgement_of(log))
        interrupted = _to_its_end(app, stored, ready, rig, listen, as_json=as_json)
    return finish(app, stored, interrupted=interrupted, as_json=as_json)


def extend_trial(app: App, stored: StoredTrial, blocks: int, *, allow_dangerous: bool, as_json: bool) -> int:
    """Go on beyond the end of a trial that had declared it."""
    from ktrial.judge.model.log import Extended
    from ktrial.trial.outcome.summary import extendable

    extendable(stored.trial, app.trials.log(stored.trial), blocks)
    app.lock_trials()
    app.trials.append(stored.trial, [Extended(blocks=blocks)])
    return resume_trial(app, stored, allow_dangerous=allow_dangerous, as_json=as_json)


def write_report(found: Comparison, path: Path) -> None:
    """One HTML file."""
    from ktrial.compare.files import write_file
    from ktrial.reports.html import html_page

    write_file(path, html_page(found).encode())


def recheck_trial(app: App, stored: StoredTrial) -> list[str]:
    """Everything of which a trial of the store can be convicted: by its log, its records and their raw output."""
    from ktrial.evidence.recheck_trial import trial_differences
    from ktrial.evidence.reparse import BROKEN, reparse

    found = [f"{one.where}: {one.told}" for one in trial_differences(kept_trial(app, stored), app.store)]
    for run in reparse([stored.session], app.store, app.benchmarks):
        broken = [run.unread] if run.unread is not None and run.unread.startswith(BROKEN) else []
        found += [f"run {run.run}, {run.benchmark}: {change}" for change in (*run.changes, *broken)]
    return found
