# SPDX-License-Identifier: Apache-2.0
"""Runs trials from protocols, for `ktrial try`, `ktrial trial` and other commands."""

from __future__ import annotations

import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ktrial.bench.around.idle import IDLE_S
from ktrial.bench.text import duration
from ktrial.cli.hosts import again
from ktrial.cli.shared import guest_trials
from ktrial.cli.shared.guest_trials import InGuests
from ktrial.cli.shared.live import OnLiveWork, check_live
from ktrial.cli.shared.live_control import continue_running
from ktrial.cli.shared.long_runs import TimedTrial, left_seconds, refuse_idle, run_seconds
from ktrial.cli.shared.manual_trials import begin_by_hand, next_visit
from ktrial.cli.shared.results_leaving import refuse_results_out, results_out
from ktrial.cli.shared.trial_outcome import announce_decision, finish, kept_trial, load_comparison
from ktrial.cli.shared.trial_start import agree_to_blindness, look_at, prepare, refuse_in_guests
from ktrial.cli.shared.unattended import (
    LOOK_AGAIN_S,
    finish_running,
    has_running_plan,
    needs_of,
    refuse_elsewhere,
    refuse_plans,
    refuse_second,
    refuse_turn,
    tell_turn,
)
from ktrial.compare.files import write_file
from ktrial.evidence.recheck_trial import trial_differences
from ktrial.evidence.reparse import BROKEN, reparse
from ktrial.judge.model.log import Extended, TrialEnd, protocol_in
from ktrial.kit.errors import AgentError, BadInput, KtrialError, LimitPassed, Refused
from ktrial.reports.html import html_page
from ktrial.reports.sentences import count_words
from ktrial.trial.arms.boot_arms import boots_this_machine
from ktrial.trial.arms.manual import is_by_hand
from ktrial.trial.outcome.summary import extendable, judgement_of
from ktrial.trial.protocol.file import trial_text
from ktrial.trial.run.conduct import CarriedOut, changed_arm, planned
from ktrial.trial.run.prepare import rig_of
from ktrial.trial.run.progress import TrialProgress
from ktrial.trial.unattended.carrier import refuse_running
from ktrial.trial.unattended.visits import refuse_uncarried

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ktrial.cli.app import App
    from ktrial.cli.shared.boots import BootConsent
    from ktrial.judge.model.comparison import Comparison
    from ktrial.judge.model.log import Protocol as TrialProtocol
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.record import StoredTrial
    from ktrial.trial.run.conduct import Planned
    from ktrial.trial.run.events import TrialListener
    from ktrial.trial.run.prepare import Prepared, Rig
    from ktrial.trial.unattended.visits import Unattended


def show_protocol(app: App, file: TrialFile, *, allow_dangerous: bool) -> None:
    """Print a protocol without measuring. Raise an error if this machine would refuse it."""
    file = _in_boots(app, file)
    if file.guest is not None:
        guest_trials.show_protocol(app, file)
        return
    sys.stdout.write(trial_text(file))
    if not app.may_run_trials:
        return
    sys.stdout.flush()
    check = check_live if file.live else look_at
    check(app, file, allow_dangerous=allow_dangerous)


class Venue(Protocol):
    """Where a trial runs: this machine, its live work, or guests."""

    ready: Prepared

    def plan(self, listen: TrialListener, *, profile: bool) -> Planned:
        """Fix the protocol; with `profile`, measure a noise profile first."""

    def unread_gates(self, protocol: TrialProtocol) -> Sequence[str]:
        """Return gates that ktrial cannot check here."""

    def begin(self, protocol: TrialProtocol) -> StoredTrial: ...

    def changed(self, stored: StoredTrial) -> str | None:
        """Return the first arm that has changed since the start, or None. Raise Refused for any other change."""

    def carry_on(self, stored: StoredTrial, listen: TrialListener) -> CarriedOut:
        """Continue the trial until it ends or is interrupted."""


class _Here:
    """Runs a trial on this machine. Implements `Venue`. `stored` is the trial to continue."""

    def __init__(
        self,
        app: App,
        file: TrialFile,
        *,
        allow_dangerous: bool,
        unattended: bool = False,
        stored: StoredTrial | None = None,
    ) -> None:
        self._unattended: Unattended | None = None
        if unattended:
            refuse_elsewhere(app, file)
            if stored is not None:
                finish_running(app, stored)
        app.lock_trials()
        if not unattended:
            refuse_plans(app, stored)
        self._app = app
        self.ready = prepare(app, file, allow_dangerous=allow_dangerous)
        if unattended:
            refuse_uncarried(self.ready)
            self._unattended = needs_of(app)
            refuse_running(self._unattended.root)

    @cached_property
    def _rig(self) -> Rig:
        return rig_of(self._app, self.ready)

    def plan(self, listen: TrialListener, *, profile: bool) -> Planned:
        run_s = run_seconds(self._app, self.ready)
        return planned(self._app, self.ready, self._rig, listen, profile=profile, run_s=run_s)

    def unread_gates(self, protocol: TrialProtocol) -> Sequence[str]:
        from ktrial.machine.gates import unread_gates

        gates = self._rig.around.gates
        return unread_gates(protocol.gates, gates.watch.look()) if gates is not None else ()

    def begin(self, protocol: TrialProtocol) -> StoredTrial:
        from ktrial.trial.run.conduct import begin

        return begin(self._app, self.ready, protocol)

    def changed(self, stored: StoredTrial) -> str | None:
        return changed_arm(stored, self.ready)

    def carry_on(self, stored: StoredTrial, listen: TrialListener) -> CarriedOut:
        from ktrial.trial.run.conduct import carry_on

        return carry_on(self._app, stored, self.ready, self._rig, listen, unattended=self._unattended)


def venue_of(
    app: App,
    file: TrialFile,
    *,
    allow_dangerous: bool,
    unattended: bool = False,
    stored: StoredTrial | None = None,
) -> Venue:
    """Return where the trial runs. Raise an error if anything that its protocol names is missing there.

    `stored` is the trial to continue; with `unattended`, the machine carries out its blocks by itself.
    """
    if boots_this_machine(file):
        raise Refused(
            "this command cannot compare kernels or kernel arguments, because it does not reboot",
            hint="use `ktrial try`, `trial run`, `blame`, `ladder` or `kernel trial`",
        )
    if file.live:
        if unattended:
            raise BadInput("cannot run a live trial unattended", hint="leave out --unattended")
        return OnLiveWork(app, file, allow_dangerous=allow_dangerous, stored=stored)
    if file.guest is None:
        return _Here(app, file, allow_dangerous=allow_dangerous, unattended=unattended, stored=stored)

    return InGuests(app, file, allow_dangerous=allow_dangerous)


def run_file(
    app: App,
    file: TrialFile,
    *,
    allow_dangerous: bool,
    profile: bool,
    as_json: bool,
    anyway: bool = False,
    consent: BootConsent | None = None,
    unattended: bool = False,
    export: Callable[[StoredTrial], None] | None = None,
) -> int:
    """Run a new trial from its protocol to its verdict, or until a person must set up an arm.

    With `anyway` the trial runs even if the noise is too high to detect the effect. `consent` is for trials that boot
    this machine. With `unattended`, the machine carries out the blocks by itself. `export` gets the trial at
    the end, unless the trial boots this machine or has arms that a person sets up.
    """
    refuse_turn(app, unattended=unattended)
    if unattended:
        refuse_elsewhere(app, file)
    file = _in_boots(app, file)
    refuse_idle(app, file)
    _refuse_results(file)
    if boots_this_machine(file):
        from ktrial.cli.shared.boot_trials import begin_in_boots
        from ktrial.cli.shared.boots import BootConsent

        return begin_in_boots(
            app, file, consent=consent or BootConsent(), allow_dangerous=allow_dangerous, as_json=as_json
        )
    if file.guest is None and is_by_hand(file):
        return begin_by_hand(app, file, allow_dangerous=allow_dangerous, as_json=as_json)
    venue = venue_of(app, file, allow_dangerous=allow_dangerous, unattended=unattended)
    if app.turn is not None:
        refuse_second(app, file.name)
    if file.campaign:
        announce_decision(app, file.campaign, file.design.cap or file.budget)
    listen = TrialProgress(app.clock, as_json=as_json)
    timed = TimedTrial(app, listen, ask=not as_json)
    told = results_out(app, timed)
    with app.interrupts, listen:
        protocol, forecast, cap_s = venue.plan(told, profile=profile)
    unread = venue.unread_gates(protocol)
    listen.announce(
        venue.ready, protocol, forecast=forecast, cap_s=cap_s, unread=unread, rules=not file.compares_commands
    )
    if forecast is not None and not forecast.sees_enough:
        agree_to_blindness(forecast, anyway=anyway or bool(file.design.anyway), ask=not as_json)
    timed.expect(protocol, cap_s)
    with app.interrupts, listen:
        stored = venue.begin(protocol)
        told.begins(stored.trial, protocol, blind=file.is_blind)
        carried = _to_its_end(app, venue, stored, told, as_json=as_json)
    if export is not None:
        export(stored)
    return _end(app, stored, carried, as_json=as_json)


def part_of_question(
    app: App,
    file: TrialFile,
    stored: StoredTrial | None,
    check: Callable[[Prepared], None],
    timed: TimedTrial,
    *,
    allow_dangerous: bool,
    profile: bool = False,
) -> tuple[StoredTrial, CarriedOut]:
    """Start or continue one of several trials that answer a question together; `check` may refuse the trial."""
    refuse_idle(app, file)
    venue = venue_of(app, file if stored is None else stored.file, allow_dangerous=allow_dangerous)
    check(venue.ready)
    if stored is not None and (changed := venue.changed(stored)) is not None:
        raise _refusal(changed, stored, hint="add --fresh to start over")
    protocol, _, cap_s = venue.plan(timed, profile=profile)
    timed.progress.announce(venue.ready, protocol)
    timed.expect(protocol, cap_s)
    stored = venue.begin(protocol) if stored is None else stored
    return stored, venue.carry_on(stored, timed)


def _refusal(arm: str, stored: StoredTrial, hint: str) -> Refused:
    what = f"the machine has changed, so arm {arm} is no longer the same"
    if stored.file.guest is not None:
        what = f"the kernel or a value of arm {arm} has changed"
    return Refused(f"cannot continue {stored.trial}: {what}", hint=hint)


def _refuse_results(file: TrialFile) -> None:
    """Raise BadInput if results must be sent for a trial whose visits this process does not make itself."""
    if boots_this_machine(file):
        refuse_results_out("a trial that boots this machine")
    if file.guest is None and is_by_hand(file):
        refuse_results_out("a trial whose arms you set up")


def _in_boots(app: App, file: TrialFile) -> TrialFile:
    """Return the trial. If the host is an exact guest, give every visit a boot of its own instead of the host."""
    if app.host is not None:
        refuse_in_guests(app.host, file)
    booted = app.host.in_boots(file) if app.host is not None and file.guest is None else None
    if booted is None:
        return file
    app.host = None
    return booted


def _end(app: App, stored: StoredTrial, carried: CarriedOut, *, as_json: bool) -> int:
    """Show the result, or when to look again at a machine that makes the next blocks by itself."""
    if carried.in_use is not None and not carried.interrupted:
        return tell_turn(app, stored, IDLE_S, in_use=carried.in_use, as_json=as_json)
    if carried.sent_s is not None and not carried.interrupted:
        return tell_turn(app, stored, carried.sent_s, as_json=as_json)
    if app.turn is not None and not carried.interrupted:
        tell_turn(app, stored, None, as_json=as_json)
    return finish(app, stored, interrupted=carried.interrupted, as_json=as_json)


def _to_its_end(app: App, venue: Venue, stored: StoredTrial, listen: TrialListener, *, as_json: bool) -> CarriedOut:
    """Run a trial to its end, or until it pauses. On LimitPassed, show the trial before raising.

    If the connection to another machine breaks, wait until it is back and continue. The interrupted run is repeated.
    """
    is_broken = False
    while True:
        try:
            if is_broken:
                app.reconnect()
                venue = venue_of(app, stored.file, allow_dangerous=True, stored=stored)
                if (changed := venue.changed(stored)) is not None:
                    raise _refusal(changed, stored, hint="undo that change, or start a new trial")
            return venue.carry_on(stored, listen)
        except LimitPassed:
            finish(app, stored, interrupted=False, as_json=as_json)
            raise
        except KeyboardInterrupt:
            if not is_broken:
                raise
            return CarriedOut(judgement_of(app.trials.log(stored.trial)), interrupted=True)
        except AgentError as error:
            if error.kind != "lost" or app.turn is not None or app.host is None or not app.host.can_come_back:
                raise
            is_broken = True
            resume = f"`{again(app.host)} trial resume {stored.trial}`"
            waits = f"waiting until {app.host.called} is back"
            app.say(f"{error.message}; {waits}. Ctrl-C stops waiting; {resume} continues later")


def resume_trial(
    app: App,
    stored: StoredTrial,
    *,
    allow_dangerous: bool,
    as_json: bool,
    consent: BootConsent | None = None,
    unattended: bool = False,
) -> int:
    if stored.file.live and continue_running(app, stored):
        return 0
    log = app.trials.log(stored.trial)
    judgement = judgement_of(log)
    if judgement.next.action == "stop" and isinstance(log[-1], TrialEnd):
        app.say(f"{stored.trial} is over")
        return _end(app, stored, CarriedOut(judgement, interrupted=False), as_json=as_json)
    refuse_turn(app, unattended=unattended)
    if unattended:
        refuse_elsewhere(app, stored.file)
        if app.turn is not None and has_running_plan(app, stored):
            return tell_turn(app, stored, LOOK_AGAIN_S, as_json=as_json)
    refuse_idle(app, stored.file)
    _refuse_results(stored.file)
    if boots_this_machine(stored.file):
        from ktrial.cli.shared.boot_trials import resume_in_boots
        from ktrial.cli.shared.boots import BootConsent

        return resume_in_boots(app, stored, consent=consent or BootConsent(), as_json=as_json)
    if stored.file.guest is None and is_by_hand(stored.file):
        return next_visit(app, stored.trial, done=None, dry_run=False, allow_dangerous=allow_dangerous, as_json=as_json)
    venue = venue_of(app, stored.file, allow_dangerous=allow_dangerous, unattended=unattended, stored=stored)
    if (changed := venue.changed(stored)) is not None:
        raise _refusal(changed, stored, hint="undo that change, or start a new trial")
    listen, protocol = TrialProgress(app.clock, as_json=as_json), protocol_in(log)
    timed = TimedTrial(app, listen, ask=not as_json)
    left_s = left_seconds(app, venue.ready, protocol, judgement.blocks)
    listen.announce(venue.ready, protocol, judgement, cap_s=left_s)
    if left_s is not None:
        done = count_words(judgement.blocks, "block is", "blocks are")
        app.say(f"{done} done; about {duration(left_s)} left, at most")
    timed.expect(protocol, left_s)
    told = results_out(app, timed)
    told.begins(stored.trial, protocol, judgement, blind=stored.file.is_blind)
    with app.interrupts, listen:
        carried = _to_its_end(app, venue, stored, told, as_json=as_json)
    return _end(app, stored, carried, as_json=as_json)


def extend_trial(app: App, stored: StoredTrial, blocks: int, *, allow_dangerous: bool, as_json: bool) -> int:
    """Raise the number of blocks of an inconclusive trial to `blocks`, and continue it."""
    extendable(stored.trial, app.trials.log(stored.trial), blocks)
    app.lock_trials()
    app.trials.append(stored.trial, [Extended(blocks=blocks)])
    return resume_trial(app, stored, allow_dangerous=allow_dangerous, as_json=as_json)


def write_report(found: Comparison, path: Path) -> None:
    write_file(path, html_page(found).encode())


def report_trial(app: App, stored: StoredTrial, output: Path | None) -> None:
    """Write the report of a trial to `output`, or to a file named after the trial."""
    if stored.file.screen is not None:
        raise BadInput(
            f"{stored.trial} is part of a blame and has no report of its own",
            hint=f"use `ktrial trial show {stored.trial}`",
        )
    path = output or Path(f"{stored.trial}.html")
    write_report(load_comparison(app, stored), path)
    app.say(f"wrote {path}")


def recheck_trial(app: App, stored: StoredTrial) -> None:
    """Report every contradiction in a stored trial. Raise KtrialError if there is one."""
    found = _contradictions(app, stored)
    for sentence in found:
        app.say(sentence)
    if found:
        raise KtrialError(
            f"{stored.trial} contradicts its own data",
            hint=f"repeat the trial with `ktrial retest {stored.trial}`",
        )
    app.say(f"{stored.trial} is consistent: the seed gives every order, and the runs give every verdict")


def _contradictions(app: App, stored: StoredTrial) -> list[str]:
    """Return the contradictions between a trial's log, its records and their raw output."""
    found = [f"{one.where}: {one.told}" for one in trial_differences(kept_trial(app, stored), app.store)]
    for run in reparse([stored.session], app.store, app.benchmarks):
        broken = [run.unread] if run.unread is not None and run.unread.startswith(BROKEN) else []
        found += [f"run {run.run}, {run.benchmark}: {change}" for change in (*run.changes, *broken)]
    return found
