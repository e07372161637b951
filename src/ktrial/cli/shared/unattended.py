# SPDX-License-Identifier: Apache-2.0
"""Trials whose blocks the machine carries out by itself (`--unattended`), and the plans that it still has."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ktrial.bench.run.folders import FoldersThere, PlanFoldersHere
from ktrial.bench.text import duration
from ktrial.cli.shared.boot_trials import stop_in_boots
from ktrial.cli.shared.live_control import stop_running
from ktrial.judge.model.log import BlockVoided, RunEnded
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, Busy, Refused
from ktrial.trial.arms.boot_arms import boots_this_machine
from ktrial.trial.arms.manual import is_by_hand
from ktrial.trial.outcome.summary import judgement_of
from ktrial.trial.unattended.carrier import Carrier, plan_states, refuse_running
from ktrial.trial.unattended.log import made_visits
from ktrial.trial.unattended.plan import refuse_shape
from ktrial.trial.unattended.visits import Unattended

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.record import StoredTrial

_PURPOSE = "carrying out a trial's plans"
#: Seconds until the next look at a plan whose end is unknown.
LOOK_AGAIN_S = 5.0


def refuse_turn(app: App, *, unattended: bool) -> None:
    """Raise BadInput for --turn with a trial that is not unattended."""
    if app.turn is not None and app.turn.fleet is None and not unattended:
        raise BadInput("--turn requires --unattended", hint="add --unattended, or leave out --turn")


def refuse_second(app: App, name: str) -> None:
    """Raise Busy if the store has a trial with this name, because another coordinator began it meanwhile."""
    if app.trials.all(name):
        raise Busy(
            "busy",
            f"the store already has a trial {name}",
            hint=f"continue that trial with `ktrial trial resume {name} --unattended --turn`, or rename the new trial",
        )


def tell_turn(
    app: App, stored: StoredTrial, next_look_s: float | None, *, as_json: bool, in_use: str | None = None
) -> int:
    """Report what the machine does now, and when to look again; if `next_look_s` is None, the trial is over."""
    judgement = judgement_of(app.trials.log(stored.trial))
    state = "ended" if next_look_s is None else "running"
    if as_json:
        told = {"trial": stored.trial, "state": state, "blocks": judgement.blocks, "cap": judgement.cap}
        sys.stdout.write(plain_json.line({"event": "turn", **told, "next_look_s": next_look_s, "in_use": in_use}))
    if in_use is not None and next_look_s is not None:
        app.say(f"the machine is in use ({in_use}); look again in {duration(next_look_s)}")
    elif next_look_s is not None:
        app.say(f"the machine makes the next blocks of {stored.trial}; look again in {duration(next_look_s)}")
    return 0


def has_running_plan(app: App, stored: StoredTrial) -> bool:
    """Return whether the machine carries out a plan of this trial now."""
    states = plan_states(app.root_session(_PURPOSE))
    return any(one.id == states.running and one.trial == stored.trial for one in states.plans)


def refuse_elsewhere(app: App, file: TrialFile) -> None:
    """Raise Refused, before anything else is done, for a trial that this machine cannot carry out by itself."""
    refuse_shape(
        [
            ("trials on phones", app.host is not None and not app.host.carries_plans),
            ("trials in guests", file.guest is not None or (app.host is not None and app.host.quiet is None)),
            ("arms that boot this machine", boots_this_machine(file)),
            ("arms that a person sets up", is_by_hand(file)),
            ("a load from another machine", bool(file.load_from)),
        ]
    )
    is_root = os.geteuid() == 0 if app.on_this_machine else app.host is not None and app.executor.user == 0
    if is_root:
        step = "run ktrial as an ordinary user with sudo" if app.host is None else "connect as an ordinary user"
        raise Refused(
            "cannot run this trial unattended: its commands would run as root",
            hint=f"{step}, or leave out --unattended",
        )


def needs_of(app: App) -> Unattended:
    """Ask for root; return the sessions and folders with which the machine carries out a trial's plans."""
    root = app.root_session(_PURPOSE)
    if app.host is not None:
        folders = FoldersThere(lambda: app.user_session)
        return Unattended(root, app.executor, folders, app.host.ahead_ms, app.host.asleep, app.turn)
    folder = Path(app.measuring_place.work).with_name("unattended")
    return Unattended(root, app.executor, PlanFoldersHere(folder), turn=app.turn)


def finish_running(app: App, stored: StoredTrial) -> None:
    """Wait until the machine has carried out its plan of this trial; Ctrl-C stops the plan."""
    root = app.root_session(_PURPOSE)
    running = plan_states(root).running
    carrier = Carrier(root, app.clock, stored.trial)
    if running is None or running not in carrier.own_plans():
        return
    app.say(f"waiting for {running}, which this machine carries out by itself")
    with app.interrupts:
        try:
            carrier.fetch(running)
        except KeyboardInterrupt:
            carrier.stop()
            raise


def refuse_plans(app: App, stored: StoredTrial | None) -> None:
    """Raise Refused while the machine carries out a plan, or has runs of this trial that nobody has fetched.

    Check nothing if reading the plans would need a password prompt.
    """
    root = app.best_session("looking for plans")
    if not root.is_root or "unattended-status" not in root.hello.get("capabilities", ()):
        return
    trial = None if stored is None else stored.trial
    refuse_running(root, trial)
    if stored is not None and _has_unfetched(app, stored):
        raise Refused(
            f"cannot continue {stored.trial} without --unattended: ktrial has not fetched the runs that the machine "
            "made by itself",
            hint=f"run `ktrial trial resume {stored.trial} --unattended` to fetch the runs and continue",
        )


def _has_unfetched(app: App, stored: StoredTrial) -> bool:
    """Return whether a plan's log has visits that are missing in the trial's log."""
    log = app.trials.log(stored.trial)
    void = {event.block for event in log if isinstance(event, BlockVoided)}
    told = {(event.block, event.arm) for event in log if isinstance(event, RunEnded)}
    carrier = Carrier(app.best_session("looking for plans"), app.clock, stored.trial)
    made = [one.visit for name in carrier.own_plans() for one in made_visits(carrier.fetch(name).lines)]
    return any(one.block not in void and (one.block, one.arm) not in told for one in made)


def stop_trial(app: App, name: str | None) -> int:
    """Stop a live trial, an unattended trial, or a trial that boots this machine."""
    if stop_running(app, name):
        return 0
    root = app.root_session("stopping a trial")
    states = plan_states(root)
    if states.running is None:
        found = None if name is None else app.trials.find(name)
        if found is None or boots_this_machine(found.file):
            return stop_in_boots(app, name)
        app.say(f"this machine carries out no plan of {found.trial}; nothing to restore")
        return 0
    running = next((one.trial for one in states.plans if one.id == states.running), states.running)
    if name is not None and app.trials.find(name).trial != running:
        raise Refused(
            f"cannot stop {name}: this machine carries out {running}", hint=f"run `ktrial trial stop` to stop {running}"
        )
    Carrier(root, app.clock, running).stop()
    app.say(f"stopped {running}; everything has been restored")
    app.say(f"next: `ktrial trial resume {running} --unattended` fetches what it measured and continues")
    return 0
