# SPDX-License-Identifier: Apache-2.0
"""Pauses, continues and stops a live trial that another process of this user runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrial.agent.user_folders import state_folder
from ktrial.kit.errors import BadInput, Refused
from ktrial.live.control import ask_of, running_trials

if TYPE_CHECKING:
    from pathlib import Path

    from ktrial.cli.app import App
    from ktrial.trial.record import StoredTrial


def desk_folder() -> Path:
    """Return the folder through which other processes can reach running live trials."""
    return state_folder() / "live"


def pause_trial(app: App, name: str | None) -> int:
    trial = _running(app, name)
    if trial is None:
        raise _not_running(app, name)
    ask_of(desk_folder(), trial, "pause")
    app.say(f"{trial} pauses now: its settings are restored within seconds, and its present block will be repeated")
    app.say(f"continue with `ktrial trial resume {trial}`, `ktrial trial stop {trial}` ends it")
    return 0


def _not_running(app: App, name: str | None) -> Refused:
    """Return the error for a trial that cannot be paused."""
    if name is None:
        return Refused(
            "cannot pause a trial: no live trial is running", hint="interrupt a trial that is not live with Ctrl-C"
        )
    stored = app.trials.find(name)
    if running := running_trials(desk_folder()):
        hint = f"name a live trial that is running: {', '.join(running)}"
    elif stored.file.live:
        hint = f"run `ktrial trial show {stored.trial}` to see its last step"
    else:
        hint = "interrupt a trial that is not live with Ctrl-C"
    return Refused(f"cannot pause {stored.trial}: it is not running as a live trial", hint=hint)


def continue_running(app: App, stored: StoredTrial) -> bool:
    """Tell the process that runs this trial to continue it; return False if no process runs the trial."""
    if stored.trial not in running_trials(desk_folder()):
        return False
    ask_of(desk_folder(), stored.trial, "run")
    app.say(f"{stored.trial} continues in the process that runs it")
    return True


def stop_running(app: App, name: str | None) -> bool:
    """Stop the live trial with this name, by default the running one; return False if there is none."""
    trial = _running(app, name)
    if trial is None:
        return False
    ask_of(desk_folder(), trial, "stop")
    app.say(f"{trial} stops now: its settings are restored within seconds, and what it has measured stays")
    app.say(f"continue with `ktrial trial resume {trial}`")
    return True


def _running(app: App, name: str | None) -> str | None:
    running = running_trials(desk_folder())
    if name is not None and running:
        trial = app.trials.find(name).trial
        return trial if trial in running else None
    if len(running) > 1:
        raise BadInput(
            f"cannot choose a trial: {len(running)} live trials are running", hint=f"name one of: {', '.join(running)}"
        )
    return running[0] if running else None
