# SPDX-License-Identifier: Apache-2.0
"""From a protocol to a trial that runs: what `ktrial try` and `ktrial trial` share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, GuardTripped, Refused

if TYPE_CHECKING:
    from pathlib import Path

    from ktrial.cli.app import App
    from ktrial.judge.model.comparison import Comparison
    from ktrial.trial.kept import KeptTrial
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.protocol.trial_forecast import TrialForecast
    from ktrial.trial.record import StoredTrial
    from ktrial.trial.run.events import TrialListener
    from ktrial.trial.run.prepare import Prepared, Rig


def prepare(app: App, file: TrialFile, *, allow_dangerous: bool) -> Prepared:
    """Find everything that the protocol names, on this machine. Raises for what is not there."""
    from ktrial.cli.shared.arm_commands import extras_of, undo_left_commands
    from ktrial.cli.shared.bench import choose, cpus_here
    from ktrial.trial.run import prepare as trial_ready

    if not app.may_run_trials:
        raise Refused("trials run on this machine only", hint="leave --machine-root out")
    if app.host is not None:
        app.host.check_trial()
    undo_left_commands(app)
    suite, benchmarks = choose(
        app, file.suite, file.command or None, file.metrics, file.limit_s, clean=bool(file.clean_environment)
    )
    # Not of the executor: what it starts by then would not be exposed.
    facts = app.best_session("planning the arms").facts()
    file = msgspec.structs.replace(file, cpus=cpus_here(app, facts, file.cpus))
    extras = extras_of(app, file)
    if extras and app.host is not None:
        raise BadInput(
            f"the arm {next(iter(extras))} runs programs, which a guest has none of", hint="leave --host out"
        )
    return trial_ready.prepare(app, file, suite, benchmarks, extras, allow_dangerous=allow_dangerous)


def show_protocol(app: App, file: TrialFile, *, allow_dangerous: bool) -> None:
    """Print a protocol and measure nothing. Raises what it would be refused for on this machine."""
    from ktrial.cli.shared import guest_trials as guest_trialing
    from ktrial.trial.protocol.file import trial_text

    file = _in_boots(app, file)
    if file.guest is not None:
        guest_trialing.show_protocol(app, file)
        return
    sys.stdout.write(trial_text(file))
    if not app.may_run_trials:
        return
    sys.stdout.flush()
    look_at(app, file, allow_dangerous=allow_dangerous)


def look_at(app: App, file: TrialFile, *, allow_dangerous: bool) -> None:
    """Raise what a trial would be refused for, as far as looking shows it; of one in guests, what it would measure."""
    from ktrial.cli.shared.bench import choose
    from ktrial.trial.run.prepare import check_measured, look_over

    suite, benchmarks = choose(
        app, file.suite, file.command or None, file.metrics, file.limit_s, clean=bool(file.clean_environment)
    )
    if file.guest is None:
        look_over(app, file, suite, benchmarks, allow_dangerous=allow_dangerous)
    else:
        check_measured(app, file, suite, benchmarks)


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


def agree_to_blindness(forecast: TrialForecast, *, anyway: bool, ask: bool) -> None:
    """A trial that cannot see what is looked for begins only if that is wanted."""
    from ktrial.cli.options import is_terminal
    from ktrial.kit.tables import columns, paragraph
    from ktrial.trial.outcome.text import more_text, sight_text

    if anyway:
        return
    if not ask or not is_terminal():
        raise Refused(
            f"this trial sees {sight_text(forecast)}",
            hint=f"{more_text(forecast)}; --anyway goes on, and larger effects are still seen",
        )
    from ktrial.tuning.plans.confirm import must_agree

    sys.stderr.write(paragraph(more_text(forecast), width=columns()) + "\n")
    must_agree("Go on all the same, for larger effects?")


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


def finish(app: App, stored: StoredTrial, *, interrupted: bool, as_json: bool) -> int:
    """Say what came of it; the exit status."""
    from ktrial.cli.app_guest import again, as_before
    from ktrial.cli.shared.fail_on import refuse
    from ktrial.cli.shared.ledger import note
    from ktrial.kit import interruption
    from ktrial.kit.tables import columns
    from ktrial.trial.arms.manual import is_by_hand
    from ktrial.trial.outcome.verdict_text import trial_text

    note(app)
    found: Comparison | None = None
    if stored.file.screen is not None:
        screening(app, stored, as_json=as_json)
    else:
        found = told(app, stored)
        document = {"event": "comparison", "comparison": found}
        text = plain_json.line(document) if as_json else trial_text(found, width=columns())
        sys.stdout.write(text)
    if interrupted:
        resume = f"{again(app.host)} trial resume {stored.trial}"
        app.say(f"{interruption.words(app.interrupts.number)}; `{resume}` goes on with it")
        return interruption.status(app.interrupts.number)
    say_next(app, stored)
    left = "" if is_by_hand(stored.file) or stored.file.guest is not None else f"; {as_before(app.host)}"
    app.say(f"kept as {stored.trial}{left}")
    if found is not None:
        if broken := broken_guards(found):
            raise GuardTripped(f"a guard is broken: {broken[0]}")
        refuse(app, found)
    return 0


def say_next(app: App, stored: StoredTrial) -> None:
    """What the trial itself says is to be done otherwise."""
    from ktrial.trial.outcome.summary import judgement_of

    judged = judgement_of(app.trials.log(stored.trial)).judged
    if any(finding.kind == "carry-over" for one in judged for finding in one.findings):
        longer_s = max(2 * stored.settle_s, 1.0)
        app.say(
            f"next: an effect reached into the next visit; the same trial with --settle {longer_s:g}s shows it whole"
        )


def broken_guards(found: Comparison) -> list[str]:
    """What is surely worse by more than its guard allows."""
    contrasts = [contrast for outcome in found.outcomes for contrast in outcome.contrasts]
    return [one.sentence for contrast in contrasts for one in contrast.findings if one.kind == "guard-broken"]


def told(app: App, stored: StoredTrial) -> Comparison:
    """A trial of the store as a comparison."""
    from ktrial.evidence.recheck_trial import told_again

    return told_again(kept_trial(app, stored), app.store, app.benchmarks, app.catalog)


def kept_trial(app: App, stored: StoredTrial) -> KeptTrial:
    """A trial of the store with its log."""
    kept = app.trials.named(stored.trial)
    assert kept is not None, "it was found a moment ago"
    return kept


def show_trial(app: App, stored: StoredTrial, *, everything: bool, as_json: bool) -> None:
    """What a trial found; with everything, also outcomes that were not asked for."""
    from ktrial.cli.options import write_json
    from ktrial.cli.shared.fail_on import refuse
    from ktrial.kit.tables import columns
    from ktrial.reports.terminal import comparison_text
    from ktrial.trial.outcome.verdict_text import trial_text

    if stored.file.screen is not None:
        screening(app, stored, as_json=as_json)
        return
    found = told(app, stored)
    if as_json:
        write_json(found)
    else:
        text = comparison_text if everything else trial_text
        sys.stdout.write(text(found, width=columns()))
    refuse(app, found)


def screening(app: App, stored: StoredTrial, *, as_json: bool) -> None:
    """Show a trial that looks for the setting that did it."""
    from ktrial.kit.tables import columns
    from ktrial.studies.blame.text import screening_text
    from ktrial.trial.outcome.summary import judgement_of, summary_of

    log = app.trials.log(stored.trial)
    found = judgement_of(log)
    if as_json:
        sys.stdout.write(plain_json.line(found))
        return
    ended = summary_of(stored, log).ended
    sys.stdout.write(screening_text(stored.trial, found.screened, ended, width=columns()))


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
