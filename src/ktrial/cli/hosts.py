# SPDX-License-Identifier: Apache-2.0
"""Where a command works: on this machine, which one trial at a time has, or in a guest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ktrial.cli.app_guest import GuestHost
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.cli.app_kernels import Kernels
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


def host_of(word: str, kernels: Callable[[], Kernels], say: Callable[[str], None]) -> GuestHost:
    """Return the host that a word names. Raises BadInput."""
    from ktrial.cli.exact_host import ExactHost

    for kind in (GuestHost, ExactHost):
        if word.startswith(kind.prefix) and word != kind.prefix:
            return kind(word, kernels, say)
    raise BadInput(
        f"--host {word}: not supported",
        hint="--host takes guest:KERNEL, exact:KERNEL for a deterministic guest, or guest:NAME for one that "
        "`ktrial kernel boot --keep` started",
    )
