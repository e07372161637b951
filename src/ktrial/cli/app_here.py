# SPDX-License-Identifier: Apache-2.0
"""Agents on this machine or on a folder that stands for a machine, and what disturbs a measurement there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ktrial.agent.lent_root import LentRoot
    from ktrial.agent.transport import DetachedTransport, ProcessTransport, Transport
    from ktrial.machine.ports import Machine

#: A file that lets trials run in the folder of `--machine-root`, under this machine's load: for tests.
_TEST_MARK = ".ktrial-test-machine"


class Here:
    """Starts agents: as the user, or as root if the user agrees. `root` and `state` are for tests."""

    def __init__(self, root: Path | None, state: Path | None, *, may_ask: bool, say: Callable[[str], None]) -> None:
        self._root = root
        self._state = state
        self._may_ask = may_ask
        self._say = say
        self._lent: LentRoot | None = None  # starts root sessions if the launcher dropped root
        if root is None and "KTRIAL_LAUNCHED" in os.environ:
            from ktrial.agent.lent_root import lent_root

            self._lent = lent_root()

    @property
    def is_root(self) -> bool:
        """Whether a root session is possible without asking the user."""
        return os.geteuid() == 0 or self._lent is not None or self._root is not None

    @property
    def can_be_root(self) -> bool:
        """Whether a root session is possible, with or without asking the user."""
        if self.is_root:
            return True
        from ktrial.agent.root import can_ask

        return self._may_ask and can_ask()

    @property
    def may_run_trials(self) -> bool:
        """Whether trials may run here: on a machine, or in a folder that a test has marked as one."""
        return self._root is None or (self._root / _TEST_MARK).exists()

    def user(self, more: Sequence[str]) -> ProcessTransport:
        from ktrial.agent.transport import ProcessTransport

        return ProcessTransport(self._argv("user", more))

    def detached(self, more: Sequence[str]) -> DetachedTransport:
        """Return an agent of the user that Ctrl-C does not reach."""
        from ktrial.agent.transport import DetachedTransport

        return DetachedTransport(self._argv("user", more))

    def root(self, purpose: str) -> Transport:
        """Return an agent as root; ask the user if needed, and name the purpose."""
        if self._lent is not None:
            return self._lent.start(None if self._state is None else str(self._state))
        from ktrial.agent.root import root_transport
        from ktrial.agent.transport import ProcessTransport

        argv = self._argv("root", ())
        if self._root is not None:  # a folder that stands for a machine needs no root
            return ProcessTransport(argv)
        from pathlib import Path

        from ktrial.cli.app_ssh import given_password

        return root_transport(
            Path(argv[0]), argv[1:], purpose, may_ask=self._may_ask, say=self._say, password=given_password
        )

    def _argv(self, role: str, more: Sequence[str]) -> list[str]:
        from ktrial.agent.binary import find_agent

        words = [str(find_agent()), "serve", "--role", role]
        if self._root is not None:
            words += ["--root", str(self._root.resolve())]
        if self._state is not None:
            words += ["--state", str(self._state)]
        return [*words, *more]


def say_load(machine: Machine, say: Callable[[str], None], *, when_idle: bool) -> None:
    """Report load and pressure that would disturb a measurement now, and how to wait until they end."""
    from ktrial.tuning.doctor.confounders import load_now

    found = load_now(machine)
    for disturbance in found:
        say(f"disturbs: {disturbance.found}; {disturbance.advice}")
    if found and not when_idle:
        say("  next: wait until the machine is idle, or add --when-idle if the command has it")
