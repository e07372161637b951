# SPDX-License-Identifier: Apache-2.0
"""`ktrial keep --watch-drift`: a systemd timer that runs `ktrial drift` every day."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktrial.agent.checkout import checkout_folder
from ktrial.cli.options import is_terminal, write_json
from ktrial.kit.errors import BadInput, Refused
from ktrial.kit.tables import columns
from ktrial.machine.transactions import UNFINISHED, Status, checked, is_open, revert
from ktrial.machine.transactions import status as status_of
from ktrial.tuning.lasting.model import DRIFT_TIMER
from ktrial.tuning.plans.confirm import apply_whole, must_agree
from ktrial.tuning.plans.transaction_text import apply_text, revert_text

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.cli.app import App

_UNITS = "/etc/systemd/system"
_SYSTEMD = "/run/systemd/system"


def watch(app: App, words: Sequence[str], *, undo: bool, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Install or remove the timer; return the exit status."""
    if app.host is not None:
        raise BadInput(
            f"--host {app.host.word}: the timer needs ktrial installed on that machine",
            hint=f"let a timer of this machine run `ktrial --host {app.host.word} drift`",
        )
    if words:
        raise BadInput("--watch-drift takes no settings", hint="keep the settings with a separate `ktrial keep`")
    session = app.root_session("removing the drift timer" if undo else "installing the drift timer")
    status = status_of(session)
    found = installed(status)
    if undo:
        return _remove(session, found, dry_run=dry_run, as_json=as_json)
    if found is not None:
        sys.stderr.write(f"ktrial: the timer is installed already (transaction {found})\n")
        return 0
    if not session.list([_SYSTEMD])[_SYSTEMD]:
        raise Refused("cannot install a timer: systemd does not run here", hint="let cron run `ktrial drift`")
    plan = timer_plan(program())
    _refuse_unfit(session, plan)
    if not as_json:
        names = "".join(f"new file: {step['path']}\n" for step in plan["steps"])
        sys.stdout.write(f"{names}root will run `{program()} drift` every day\n")
    if dry_run:
        _write_json(plan, [], as_json=as_json)
        return 0
    if not yes and not as_json and is_terminal():
        must_agree("Write?")
    return _install(app, session, plan, as_json=as_json)


def _install(app: App, session: AgentSession, plan: Mapping[str, Any], *, as_json: bool) -> int:
    applied, answer = apply_whole(session, lambda: session.request("apply", plan=plan))
    _write_json(plan, [answer], as_json=as_json)
    if applied.state == "applied" and not as_json:
        sys.stdout.write(f"The timer is installed (transaction {applied.transaction}).\n")
        app.say("`systemctl status ktrial-drift` shows the last check; `ktrial keep --watch-drift --undo` removes it")
    elif not as_json:
        sys.stdout.write(apply_text(applied, [step["path"] for step in plan["steps"]], width=columns()))
    return 0 if applied.state == "applied" else 1


def _write_json(plan: Mapping[str, Any] | None, transactions: Sequence[Any], *, as_json: bool) -> None:
    if as_json:
        write_json({"schema": "ktrial.drift-timer/1", "plan": plan, "transactions": transactions})


def installed(status: Status) -> int | None:
    """Return the transaction that installed the timer, or None if no timer is installed."""
    for one in status.transactions:
        if one.state in {"applied", UNFINISHED} and any(step.path == DRIFT_TIMER for step in one.steps):
            return one.transaction
    return None


def program() -> str:
    """Return the path of the running `ktrial`, for units that start it later."""
    folder = checkout_folder() or Path(sysconfig.get_path("scripts"))
    return str(folder.resolve() / "ktrial")


def timer_plan(command: str) -> dict[str, Any]:
    """Return the agent's plan: the service, its timer, and the drop-in that starts the timer at boot."""
    files: Mapping[str, Mapping[str, Any]] = {
        f"{_UNITS}/ktrial-drift.service": {"drift-service": {"program": command}},
        DRIFT_TIMER: {"drift-timer": "daily"},
        f"{_UNITS}/timers.target.d/ktrial.conf": {"systemd-wants": "ktrial-drift.timer"},
    }
    return {
        "schema": "ktrial.plan/2",
        "title": "keep --watch-drift",
        "lease": {"kind": "keep"},
        "steps": [{"kind": "file", "path": path, "expect": "", "holds": holds} for path, holds in files.items()],
    }


def _refuse_unfit(session: AgentSession, plan: Mapping[str, Any]) -> None:
    for step in checked(session, plan):
        if step.outcome not in {"ready", "same"}:
            hint = (
                "install ktrial as root, in a folder that only root can write"
                if "someone other" in step.message
                else "run `ktrial drift` by hand"
            )
            raise Refused(f"cannot install a timer: {step.message}", hint=hint)


def _remove(session: AgentSession, number: int | None, *, dry_run: bool, as_json: bool) -> int:
    done = [revert(session, number)] if number is not None and not dry_run else []
    _write_json(None, done, as_json=as_json)
    if as_json:
        pass
    elif number is None:
        sys.stdout.write("No timer is installed.\n")
    elif dry_run:
        sys.stdout.write(f"would undo transaction {number}\n")
    else:
        sys.stdout.write(revert_text(done, width=columns()))
    return int(is_open(done))
