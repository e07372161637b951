# SPDX-License-Identifier: Apache-2.0
"""What takes a trial's CPU time is said before its first run, and a build says whose it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.cli.app import App


def say_whom_a_build_disturbs(app: App) -> None:
    """A trial that runs here: its runs are slower while a kernel is built."""
    machine = app.measuring_place.machine
    machine.build()
    for trial in machine.others_trying():
        app.say(f"a trial runs on this machine, and this build takes CPU time from it: {trial}")
        app.say("  next: Ctrl-C ends the build; what was compiled stays, and the same command goes on")
