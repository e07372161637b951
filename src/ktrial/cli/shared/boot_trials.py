# SPDX-License-Identifier: Apache-2.0
"""Trials that boot this machine.

Each visit boots the entry of an arm; a service continues the trial after each boot.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ktrial.bench.text import duration
from ktrial.cli.options import is_terminal
from ktrial.cli.shared.boots import (
    TRIAL_NAME,
    Attempt,
    BootConsent,
    BootMaker,
    prepare_boots,
    read_status,
    refuse_forbidden,
    refuse_second,
    remove_boots,
    start_boot,
    trial_of,
    version_of,
    wait_until_judged,
)
from ktrial.cli.shared.drift_timer import program
from ktrial.cli.shared.keeping import confirm_guarded
from ktrial.cli.shared.manual_trials import next_visit, start_by_hand
from ktrial.judge.model.log import protocol_in
from ktrial.kit.errors import BadInput, KtrialError, Refused, UnknownName
from ktrial.kit.tables import columns, labelled, paragraph
from ktrial.trial.arms.boot_arms import boots_this_machine, entry_of, with_boot_signs
from ktrial.trial.run.manual_visits import BOOT_S, due_of
from ktrial.tuning.boots.boot_status import BootStatus, rehearsal_of, state_of
from ktrial.tuning.boots.command_line import find_guarded_words, parse_changes
from ktrial.tuning.boots.entry import REHEARSAL, BootPlan, find_kernel
from ktrial.tuning.boots.wire import ResumedTrial, wire_boots
from ktrial.tuning.doctor.confounders import load_now

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App
    from ktrial.trial.arms.manual import Due
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.record import StoredTrial
    from ktrial.tuning.lasting.model import GuardedWord

#: Number of boots of one entry in a row without a healthy boot that end the trial.
MOST_IN_VAIN = 8
#: Seconds between the start of a boot and the first measurement.
UPTIME_S = 60.0
#: Rough time from a reboot to the first measurement, in seconds.
EACH_S = BOOT_S + UPTIME_S
#: Seconds between two looks at a busy machine, and the number of looks after which it is measured although it is busy.
_LOOK_EACH_S, _LOOKS = 10.0, 24
_LIMIT_S = 300


def refuse_own_store(path: str | None, state_home: str | None) -> None:
    """Raise Refused if the user chose the place of the store, because ktrial would not look there after a boot."""
    place = path or state_home
    hint = "use the default store (no --store, no KTRIAL_STORE)" if path else "run the command without XDG_STATE_HOME"
    if place:
        raise Refused(
            f"cannot boot this machine for a trial: after a boot, ktrial would not look for the trial in {place}",
            hint=hint,
        )


class TrialBoots:
    """The boots of a trial on this machine, with a boot entry for each arm."""

    def __init__(self, app: App, file: TrialFile, consent: BootConsent) -> None:
        self._app = app
        if app.host is not None:
            raise Refused(
                f"--host {app.host.word}: a trial over boots needs ktrial on the machine, to continue after each boot",
                hint="run ktrial on that machine itself, or use `ktrial kernel trial --guest`",
            )
        if app.on_this_machine:
            refuse_own_store(app.store_path, os.environ.get("XDG_STATE_HOME"))
        self._session = app.root_session("preparing the boots of a trial")
        now = read_status(self._session)
        refuse_second(now)
        maker = BootMaker(self._session, self._session.facts(), None, consent)
        self.plans = {name: _plan(maker, file, name) for name, one in file.arms.items() if not one.placebo}
        self._consent = consent
        rehearsal = maker.rehearsal()
        self.is_rehearsed = rehearsal_of(now, version_of(self._session, rehearsal.path)) is not None
        self._entries = [*([] if self.is_rehearsed else [rehearsal]), *self.plans.values()]
        found = [one for plan in self.plans.values() for one in find_guarded_words(plan.line, app.catalog.knobs)]
        self.guarded: tuple[GuardedWord, ...] = tuple(dict.fromkeys(found))

    @property
    def releases(self) -> dict[str, str | None]:
        """The releases of kernels by arm, for arms that do not boot the running kernel."""
        return {name: one.release for name, one in self.plans.items() if one.is_other_kernel}

    def agree(self, file: TrialFile, *, as_json: bool, overall: str | None = None) -> bool:
        """Show how often this trial boots the machine, and `overall`, a text about all trials.

        Return whether to go on.
        """
        if not as_json:
            text = _plans_text(file, self.plans, is_rehearsed=self.is_rehearsed, width=columns())
            sys.stdout.write(text if overall is None else text + labelled("overall", overall, width=columns()) + "\n")
        refuse_forbidden(self._session, self._wired(file.name))
        if not self._consent.yes:
            what = "the trial" if overall is None else "the trials"
            self._app.say(f"nothing was started; add --yes to let this machine reboot for {what}")
            return False
        confirm_guarded(self.guarded, self._consent.security, may_ask=not as_json and is_terminal())
        return True

    def start(self, stored: StoredTrial, due: Due, *, as_json: bool) -> int:
        """Write the boot entries and reboot. Return the exit status: 1 if the entries could not be written."""
        if prepare_boots(self._session, self._wired(stored.trial), as_json=as_json) is None:
            return 1
        first = entry_of(due.place)
        self._app.say(f"`ktrial trial show {stored.trial}` shows its blocks so far, `ktrial trial stop` stops it")
        entry, then = (first, None) if self.is_rehearsed else (REHEARSAL, first)
        start_boot(self._app, self._session, entry, then, reboots=True)
        return 0

    def _wired(self, name: str) -> dict[str, Any]:
        trial = ResumedTrial(program=program(), user=os.getuid(), name=name)
        confirmed = dict.fromkeys(one.name for one in self.guarded)
        return wire_boots(
            f"trial {name}",
            self._entries,
            limit_s=_LIMIT_S,
            confirmed=confirmed,
            trial=trial,
            sources={TRIAL_NAME: name},
        )


def begin_in_boots(app: App, file: TrialFile, *, consent: BootConsent, allow_dangerous: bool, as_json: bool) -> int:
    """Show the boot entries and the number of boots. With --yes, start the trial and boot its first arm."""
    boots = TrialBoots(app, file, consent)
    file = with_boot_signs(file, boots.releases)
    if not boots.agree(file, as_json=as_json):
        return 0
    stored, due = start_by_hand(app, file, allow_dangerous=allow_dangerous, as_json=as_json)
    return boots.start(stored, due, as_json=as_json)


def resume_in_boots(app: App, stored: StoredTrial, *, consent: BootConsent, as_json: bool) -> int:
    """Resume a stopped trial: write its boot entries again and boot the arm that is due."""
    due = _due(app, stored)
    assert due is not None, "the caller has looked"
    boots = TrialBoots(app, stored.file, consent)
    return boots.start(stored, due, as_json=as_json) if boots.agree(stored.file, as_json=as_json) else 0


def _plan(maker: BootMaker, file: TrialFile, name: str) -> BootPlan:
    one = file.arms[name]
    assert one.kernel is None or isinstance(one.kernel, str), "check_boot_arms refuses recipes"
    kernel = None if one.kernel is None else find_kernel(one.kernel, maker.grounds)
    if one.kernel is not None and kernel is None:
        hint = (
            "install this kernel (`ktrial kernel package` makes a package), or use `ktrial kernel trial --guest`, "
            "which needs no installed kernel"
        )
        raise UnknownName("kernel", one.kernel, maker.grounds.files, hint=hint)
    changes = parse_changes(one.boot) if one.boot else ()
    return maker.plan(Attempt(changes, kernel), entry_of(name))


def _plans_text(file: TrialFile, plans: Mapping[str, BootPlan], *, is_rehearsed: bool, width: int) -> str:
    lines = [
        paragraph(
            "This machine boots once for each visit, by itself: the boot loader gets an entry for each arm, and starts"
            " it once. The default entry stays as it is.",
            width=width,
        ),
        "",
    ]
    shown = plans if file.screen is None else {file.control: plans[file.control]}
    for name, plan in shown.items():
        words = [word.text for word in plan.line.words] + [f"-{word}" for word in plan.removed]
        kernel = [plan.entry.file] if plan.is_other_kernel else []
        lines.append(labelled(name, " ".join([*kernel, *words]) or "as booted now", width=width))
    if file.screen is not None:
        halves = f"{len(plans) - 1} more entries, each with a random part of {', '.join(file.screen.settings)}"
        lines.append(labelled("halves", halves, width=width))
    lines.append(labelled("boots", _boots_text(file), width=width))
    if not is_rehearsed:
        lines.append(
            labelled("first", "one boot that fails on purpose, to see that the machine comes back", width=width)
        )
    return "\n".join(lines) + "\n"


def _boots_text(file: TrialFile) -> str:
    visits = len(file.arms) if file.screen is None else 2
    return f"at most {boots_text((file.design.cap or file.budget) * visits)}, without repeated blocks"


def boots_text(count: int) -> str:
    """Return the number of boots and how long they take."""
    return f"{count}, about {duration(count * EACH_S)} plus the runs, at {duration(EACH_S)} a boot"


def continue_in_boots(app: App, name: str, then: Callable[[App, AgentSession, StoredTrial], bool]) -> int:
    """Measure the visit of this boot, then boot the next entry; clean up at the end of the trial.

    When the trial is over, `then` may start another trial, and returns whether it started one.
    """
    stored = app.trials.find(name)
    if not boots_this_machine(stored.file):
        raise BadInput(f"{stored.trial} does not boot this machine", hint=f"ktrial trial resume {stored.trial}")
    session = app.root_session("continuing a trial over boots")
    now = read_status(session)
    if now.transaction is None or trial_of(session, now) != stored.trial:
        raise Refused(
            f"cannot continue {stored.trial}: the trial was stopped",
            hint=f"run `ktrial trial show {stored.trial}` to see its results",
        )
    if state_of(now)[0] == "rehearsal-failed":
        app.say(f"{stored.trial} ends: its rehearsal failed; `ktrial boot status` says why")
        return _end(app, session, now)
    due = _due(app, stored)
    if due is not None and now.running == entry_of(due.place):
        wait_for_services(app)
        _wait_until_idle(app)
        try:
            next_visit(app, stored.trial, done=None, dry_run=False, allow_dangerous=True, as_json=False)
        except KtrialError:
            # Nobody is there to repair the machine: it returns to its default entry, and the service logs the error as
            # its last line.
            _end(app, session, now)
            raise
        due, now = _due(app, stored), read_status(session)
        if now.transaction is None:
            return 0  # somebody has stopped the trial meanwhile
    if due is None:
        return _after(app, session, stored, then)
    if boots_in_vain(now, entry_of(due.place)):
        app.say(
            f"{stored.trial} ends: the last {MOST_IN_VAIN} boots of {due.place} failed; `ktrial boot status` says why"
        )
        return _end(app, session, now)
    if now.running is None:
        # This gives a user time to log in and stop the trial.
        wait_for_services(app)
    start_boot(app, session, entry_of(due.place), None, reboots=True)
    return 0


def _after(
    app: App, session: AgentSession, stored: StoredTrial, then: Callable[[App, AgentSession, StoredTrial], bool]
) -> int:
    try:
        if then(app, session, stored):
            return 0
    except KtrialError:
        now = read_status(session)
        if now.transaction is not None:
            _end(app, session, now)
        raise
    now = read_status(session)
    return 0 if now.transaction is None else _end(app, session, now)


def _due(app: App, stored: StoredTrial) -> Due | None:
    log = app.trials.log(stored.trial)
    assert protocol_in(log) is not None, "a stored trial has its protocol"
    return due_of(stored, log)


def boots_in_vain(now: BootStatus, entry: str) -> bool:
    """Return whether this entry was booted several times in a row without a healthy boot."""
    vain = 0
    was_healthy = has_failed = False
    for event in reversed(now.of_attempt()):
        if event.event != "armed":
            was_healthy |= event.event == "healthy"
            has_failed |= event.event == "failed"
            continue
        if event.entry != entry or (was_healthy and not has_failed):
            break
        vain += 1
        was_healthy = has_failed = False
    return vain >= MOST_IN_VAIN


def wait_for_services(app: App) -> None:
    """Wait until the services of this boot have had time to start."""
    facts = app.best_session("waiting for the machine").facts(["boot.uptime"])
    app.clock.sleep(max(0.0, UPTIME_S - float(facts.value("boot.uptime") or UPTIME_S)))


def _wait_until_idle(app: App) -> None:
    """Wait until nothing waits for a CPU, a disk or memory, but at most for a fixed time."""
    session = app.best_session("waiting for the machine")
    busy: list[str] = []
    for _ in range(_LOOKS):
        busy = [one.found for one in load_now(session) if one.name.endswith("pressure")]
        if not busy:
            return
        app.clock.sleep(_LOOK_EACH_S)
    app.say(f"measuring although this machine is still busy: {'; '.join(busy)}")


def _end(app: App, session: AgentSession, now: BootStatus) -> int:
    """Remove the boot entries and units; reboot into the default entry if an entry of the trial is running."""
    done = remove_boots(session, now)
    if now.running is not None:
        app.say("the machine reboots into its default entry")
        session.request("reboot")
    return int(done.state != "reverted")


def stop_in_boots(app: App, name: str | None) -> int:
    """Stop a trial over boots and remove what it prepared; keep its measurements."""
    session = app.root_session("stopping a trial over boots")
    now = read_status(session)
    running = trial_of(session, now)
    part = next((one.file.part for one in app.trials.all() if one.trial == running), None)
    asked = running if name is None or name == part else app.trials.find(name).trial
    if running is None or asked != running:
        if asked is None:
            raise Refused(
                "cannot stop a trial: no live or unattended trial is running, and no trial boots this machine",
                hint="interrupt any other trial with Ctrl-C",
            )
        raise Refused(
            f"cannot stop {asked}: no boots are prepared for it",
            hint="run `ktrial boot status` to see what is prepared",
        )
    now = wait_until_judged(app, session)
    if now.transaction is None:
        app.say(f"{running} has ended meanwhile, or its boot was not healthy; `ktrial boot status` shows more")
        return 0
    done = remove_boots(session, now)
    where = "; reboot for the default entry" if now.running is not None else ""
    what = running if part is None else f"{part} in its trial {running}"
    app.say(f"stopped {what}{where}; `ktrial trial show {running}` shows what it found")
    if part is not None:
        app.say("next: run the same `ktrial blame` command again to continue")
    return int(done.state != "reverted")
