# SPDX-License-Identifier: Apache-2.0
"""What takes a trial's CPU time is said before its first run, and a build says whose it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.cli.app import App


def lock_machine(app: App) -> None:
    """Keep other trials away, and say what disturbs this one: builds by ktrial, load and pressure as `doctor` sees."""
    from ktrial.tuning.doctor.confounders import load_now

    if not app.measuring_place.machine.take():
        return
    for builder in app.measuring_place.machine.others_building():
        app.say(f"a kernel is built on this machine meanwhile: {builder}")
        app.say("  next: end this trial with Ctrl-C and let the build end first, or its runs are doubtful")
    for found in load_now(app.user_session):
        app.say(f"disturbs: {found.found}; {found.advice}")


def say_whom_a_build_disturbs(app: App) -> None:
    """A trial that runs here: its runs are slower while a kernel is built."""
    machine = app.measuring_place.machine
    machine.build()
    for trial in machine.others_trying():
        app.say(f"a trial runs on this machine, and this build takes CPU time from it: {trial}")
        app.say("  next: Ctrl-C ends the build; what was compiled stays, and the same command goes on")
