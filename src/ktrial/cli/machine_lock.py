# SPDX-License-Identifier: Apache-2.0
"""Keeps other trials away from this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktrial.machine.ports import Machine
    from ktrial.tuning.state.lock import MachineLock


def lock_machine(machine: MachineLock, session: Callable[[], Machine], say: Callable[[str], None]) -> None:
    """Keep other trials away, and say what disturbs this one: builds by ktrial, load and pressure as `doctor` sees."""
    from ktrial.tuning.doctor.confounders import load_now

    if not machine.take():
        return
    for builder in machine.others_building():
        say(f"a kernel is built on this machine meanwhile: {builder}")
        say("  next: end this trial with Ctrl-C and let the build end first, or its runs are doubtful")
    for found in load_now(session()):
        say(f"disturbs: {found.found}; {found.advice}")
