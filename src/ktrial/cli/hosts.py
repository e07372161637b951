# SPDX-License-Identifier: Apache-2.0
"""What verbs need to know about a host other than this machine: a guest, or another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ktrial.agent.session import AgentSession
    from ktrial.agent.transport import Detached, Transport
    from ktrial.bench.guest_tools import GuestTools
    from ktrial.bench.run.place import MeasuringPlace
    from ktrial.cli.app_kernels import Role
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.tuning.state.lock import MachineLock


class Host:
    """The host of one command, from the argument of --host."""

    #: Whether the guest's clock counts instructions.
    is_exact = False
    #: Whether the host can run a trial's blocks by itself.
    carries_plans = True

    def __init__(self, word: str) -> None:
        #: The argument of --host.
        self.word = word
        #: A function that returns the programs of this machine in the guest; None if the host is not a guest.
        self.guest_tools: Callable[[], GuestTools] | None = None
        #: A context that stops traffic on the connection during a run; None if there is no connection.
        self.quiet: Callable[[float], AbstractContextManager[None]] | None = None
        #: A context that keeps the connection open while nothing is sent; None if there is no connection.
        self.asleep: Callable[[float], AbstractContextManager[None]] | None = None

    @property
    def is_root(self) -> bool:
        """Whether a root session is possible without asking the user."""
        return True

    @property
    def can_be_root(self) -> bool:
        """Whether a root session is possible."""
        return True

    @property
    def is_kept(self) -> bool:
        """Whether the host remains after this command, with everything that the command left there."""
        return True

    def check_verb(self, verb: str | None) -> None:
        """Raise BadInput for a verb that this host cannot serve; a guest with sessions can serve all verbs."""

    def check_trial(self) -> None:
        """Raise BadInput if this host cannot run a trial's visits."""

    def in_boots(self, file: TrialFile) -> TrialFile | None:
        """Return the trial with a fresh boot for every visit, or None if this host does not need that."""
        del file
        return None

    def give(self, programs: Mapping[str, str | None], *, disk: bool = False) -> None:
        """Add programs of this machine (name to path, None if missing) to a guest before it boots."""

    def programs_from(self, tools: str) -> Mapping[str, str]:
        """Copy the programs in the value of --tools to the host; return their paths there by name.

        Raise BadInput if the host takes no programs.
        """
        del tools
        raise BadInput(f"cannot combine --tools with --host {self.word}", hint="leave out --tools or --host")

    @property
    def called(self) -> str:
        """The host's name in messages."""
        return "the guest"

    @property
    def ahead_ms(self) -> int:
        """How many milliseconds the host's clock is ahead of this machine's."""
        return 0

    @property
    def home(self) -> str:
        """The folder on the host in which the user's commands run."""
        return "/tmp"

    @property
    def agent(self) -> str:
        """The agent's path on the host."""
        return "/init"

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the user's commands on the host."""
        return {}

    def program_of(self, word: str) -> Path:
        """Return the path on the host of a program that the user named. Raise BadInput if there is none."""
        raise NotImplementedError

    def connect(self, role: Role, purpose: str = "this command", arguments: tuple[str, ...] = ()) -> Detached:
        """Start an agent on the host. If ktrial must ask a person for root, the question states `purpose`."""
        raise NotImplementedError

    def session(self, transport: Transport) -> AgentSession:
        """Return a session with an agent on the host."""
        from ktrial.agent.session import AgentSession

        return AgentSession(transport)

    def measuring_place(self, machine_root: Path | None) -> MeasuringPlace:
        """Return the locks on trials and measurements, and this machine's folder for runs.

        Runs in a guest lock this machine.
        """
        from ktrial.agent.user_folders import state_folder
        from ktrial.bench.run.place import MeasuringPlace
        from ktrial.tuning.state.lock import MachineLock

        return MeasuringPlace(state_folder() / "measuring", MachineLock(machine_root))

    @property
    def can_come_back(self) -> bool:
        """Whether the host may still exist after its connection broke."""
        return False

    def why_gone(self) -> str | None:
        """Return why the connection broke; None while it is open. Nothing is sent to the host."""
        return None

    def come_back(self, sleep: Callable[[float], None]) -> None:
        """Wait until the host answers again; `sleep` raises KeyboardInterrupt on Ctrl-C."""
        raise NotImplementedError

    def outlast(self, lock: MachineLock, root: AgentSession | None, sleep: Callable[[float], None]) -> None:
        """Take the lock on trials once the sessions of a broken connection have ended and restored their settings."""
        raise NotImplementedError

    def leave(self) -> None:
        """End the sessions on the host, and all locks with them; later requests start new sessions."""

    def close(self) -> None:
        """Release the host at the end of the command."""


def session_over(host: Host | None, transport: Transport) -> AgentSession:
    """Return a session over a transport, with an agent on this host, or on this machine if there is no host."""
    return (host or Host("")).session(transport)


def again(host: Host | None) -> str:
    """Return the start of a command in a hint: `ktrial`, or `ktrial --host HOST`."""
    return "ktrial" if host is None else f"ktrial --host {host.word}"


def as_before(host: Host | None) -> str:
    """Return a sentence for the user: all settings have been restored, or they end with the guest."""
    if host is not None and not host.is_kept:
        return "the guest and its settings end with this command"
    return f"all settings have been restored (check with `{again(host)} status`)"
