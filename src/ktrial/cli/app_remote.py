# SPDX-License-Identifier: Apache-2.0
"""Another machine as the host of a command: what ssh and adb have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

from ktrial.cli.hosts import Host
from ktrial.kit.errors import BadInput, Busy, KtrialError, PrivilegeMissing
from ktrial.machine.transactions import status
from ktrial.tuning.state.lock import MachineLock
from ktrial.tuning.state.lock_holder import Process, told_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ktrial.agent.carrier import CarriedTransport
    from ktrial.agent.remote import OtherMachine, RelayDescription, Way
    from ktrial.agent.session import AgentSession
    from ktrial.bench.run.place import MeasuringPlace
    from ktrial.cli.app_kernels import Role

#: How long the sessions of a broken connection may take to end (the relay's silence limit, and what still runs), and
#: seconds between two looks.
_OUTLAST_S, _LOOK_S = 180.0, 2.0
_LIMIT_S = 120.0
_LOG_IN = "log in to the other machine, and run ktrial on it"
#: Verbs that work with this machine's own files, programs or windows, and what to do instead.
_HERE_ONLY = {
    "demo": "leave out --host",
    "kernel": "leave out --host: guests run on this machine",
    "install-recovery": _LOG_IN,
    "uninstall": _LOG_IN,
    "with": _LOG_IN,
}


def _waits_s() -> Iterator[float]:
    """Yield how long to wait before each attempt to connect: soon at first, then once a minute."""
    wait_s = 1.0
    while True:
        yield wait_s
        wait_s = min(60.0, 2 * wait_s)


def _has_session_lease(root: AgentSession) -> bool:
    """Return whether a transaction of a broken connection is still in force; it is reverted when its session ends."""
    found = status(root).transactions
    return any(one.state == "applied" and one.lease.kind == "while-session" for one in found)


class RemoteLock(MachineLock):
    """The locks on trials and measurements of another machine, held by a session of the user there."""

    def __init__(self, name: str, session: Callable[[], AgentSession]) -> None:
        super().__init__()
        self._name = name
        self.own_session = session
        self._has_taken = False

    def take(self) -> bool:
        if self._has_taken:
            return False
        self._sit("trial", "another trial")
        self._has_taken = True
        return True

    def share(self) -> None:
        self.take()

    def measure(self) -> None:
        self._sit("measurement", "another measurement")

    def others_building(self) -> tuple[str, ...]:
        return ()

    def _sit(self, seat: str, what: str) -> None:
        answer = self.own_session().request("seat", of=seat)
        if not answer["taken"]:
            held = [told_process(Process(pid=one["pid"], words=tuple(one["words"]))) for one in answer["holders"]]
            by = held[0] if held else "a process that /proc/locks does not show"
            raise Busy(
                "busy",
                f"{what} runs on {self._name}: {by}",
                hint=f"wait until that process ends, or end it on {self._name}",
            )


class RemoteHost(Host, ABC):
    """Another machine. Everything that is measured or changed is there; results are stored here."""

    #: Folders of system programs there, where root's helpers are, and folders of programs that the user may name.
    folders: tuple[str, ...]
    program_folders: tuple[str, ...]
    #: Programs there that can start others as root.
    askers: tuple[str, ...]
    #: Verbs that do not work there, and what to do instead.
    here_only: Mapping[str, str] = _HERE_ONLY
    #: More arguments of the agent in every session.
    agent_arguments: tuple[str, ...] = ()

    def __init__(self, word: str, say: Callable[[str], None], *, may_ask: bool, keeps_agent: bool = False) -> None:
        super().__init__(word)
        self._say = say
        self._may_ask = may_ask
        self._keeps_agent = keeps_agent
        self._connection: OtherMachine | None = None
        #: The words that start a root session there, and the password that the user gave, if one is needed.
        self._asker: tuple[tuple[str, ...], str | None] | None = None
        self.quiet = self._keep_quiet
        self.asleep = self._keep_asleep

    @property
    @abstractmethod
    def way(self) -> Way:
        """How to reach the machine."""

    @property
    def name(self) -> str:
        """The machine's name in messages."""
        return self.way.name

    @abstractmethod
    def find_asker(self, purpose: str) -> tuple[tuple[str, ...], str | None]:
        """Return the words that start a program as root there, and the password that they need, if any.

        Raise PrivilegeMissing if the user cannot become root there.
        """

    def check_verb(self, verb: str | None) -> None:
        if verb is not None and verb in self.here_only:
            raise BadInput(f"--host {self.word}: `{verb}` works on this machine only", hint=self.here_only[verb])

    @property
    def machine(self) -> OtherMachine:
        if self._connection is None:
            self._connection = self._connected()
        return self._connection

    def _connected(self) -> OtherMachine:
        from ktrial.agent.foreign_agent import agent_for
        from ktrial.agent.identity import remember
        from ktrial.agent.remote import OtherMachine

        machine = OtherMachine(self.way, agent_for, self._say, keeps=self._keeps_agent)
        remember(self._folder, *self.private_names(machine.machine))
        return machine

    def private_names(self, there: RelayDescription) -> tuple[set[str], set[str]]:
        """Return the names of the machine and of its users, which bundles replace."""
        return {self.name.rpartition("@")[2], there.host}, {there.user} if there.user else set()

    @property
    def _folder(self) -> Path:
        """The folder on this machine with the files about that machine."""
        import re

        from ktrial.agent.user_folders import state_folder

        return state_folder() / "hosts" / re.sub(r"[^A-Za-z0-9.@-]", "_", self.name)

    def connect(self, role: Role, purpose: str = "this command", arguments: tuple[str, ...] = ()) -> CarriedTransport:
        from functools import partial

        from ktrial.agent.carrier import CarriedTransport

        machine = self.machine
        words = ["serve", "--role", role, "--work", f"{machine.base}/work", *self.agent_arguments, *arguments]
        asker, password = self._root_asker(purpose) if role == "root" else ((), None)
        ends = machine.open(words, root=role == "root", asker=asker)
        transport = CarriedTransport(
            ends.to_agent,
            ends.from_agent,
            partial(machine.kill, ends.session),
            machine.why_gone,
            hint=f"check with `ktrial --host {self.word} status` that the agent has restored everything",
            asker=asker[0] if asker else None,
        )
        if password is not None:
            transport.send(f"{password}\n".encode())
        return transport

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def measuring_place(self, machine_root: Path | None) -> MeasuringPlace:
        """Return the locks on trials and measurements there, and a folder here for runs on that machine."""
        from ktrial.bench.run.place import MeasuringPlace

        del machine_root
        return MeasuringPlace(self._folder, RemoteLock(self.name, lambda: self.own_session))

    def _keep_quiet(self, limit_s: float) -> AbstractContextManager[None]:
        return self.machine.quiet(limit_s)

    def _keep_asleep(self, limit_s: float) -> AbstractContextManager[None]:
        return self.machine.asleep(limit_s)

    @property
    def can_come_back(self) -> bool:
        return True

    def why_gone(self) -> str | None:
        return None if self._connection is None else self._connection.why_gone()

    def leave(self) -> None:
        self.close()
        self.__dict__.pop("own_session", None)

    def come_back(self, sleep: Callable[[float], None]) -> None:
        self.leave()
        told = ""
        for wait_s in _waits_s():
            sleep(wait_s)
            try:
                self._connection = self._connected()
            except KtrialError as error:
                if error.message != told:
                    told = error.message
                    self._say(f"{self.name} is not back yet: {told}")
                continue
            self._say(f"{self.name} is back")
            return

    def outlast(self, lock: MachineLock, root: AgentSession | None, sleep: Callable[[float], None]) -> None:
        """Take the lock on trials once the sessions of a broken connection have ended and restored their settings.

        These sessions get no more requests and end by themselves. Raise Busy if they do not.
        """
        from ktrial.trial.unattended.carrier import plan_states

        left_s = _OUTLAST_S
        while True:
            try:
                lock.take()
            except Busy:
                if left_s <= 0:
                    raise
            else:
                if root is None or plan_states(root).running is not None or not _has_session_lease(root):
                    return
            sleep(_LOOK_S)
            left_s -= _LOOK_S

    @property
    def called(self) -> str:
        return self.name

    @property
    def ahead_ms(self) -> int:
        return self.machine.ahead_ms

    @property
    def home(self) -> str:
        return self.machine.machine.home or "/"

    @property
    def agent(self) -> str:
        return self.machine.machine.program

    @property
    def environment(self) -> Mapping[str, str]:
        return {"PATH": ":".join(self.folders), "HOME": self.home}

    def program_of(self, word: str) -> Path:
        """Return the path of a program there. Raise BadInput if there is none.

        A relative path starts in the home of the user there. A name without `/` is a file in `program_folders`.
        """
        from pathlib import Path

        name = Path(word)
        places = [f"{folder}/{word}" for folder in self.program_folders]
        if "/" in word:
            places = [str(name if name.is_absolute() else Path(self.home) / name)]
        listed = self.own_session.list(places)
        found = next((place for place in places if listed.get(place)), None)
        if found is None:
            raise BadInput(
                f"{word}: no such program on {self.name}", hint="install it there, or give a path that exists there"
            )
        return Path(found)

    @property
    def is_root(self) -> bool:
        """Whether a root session is possible without asking the user."""
        return self._asker is not None or self.machine.machine.uid == 0

    @property
    def can_be_root(self) -> bool:
        """Whether a root session is possible, with or without asking the user."""
        return self.is_root or (self._may_ask and bool(self.asking_programs))

    @cached_property
    def asking_programs(self) -> tuple[str, ...]:
        """The programs on that machine that can start other programs as root."""
        places = [f"{folder}/{name}" for name in self.askers for folder in self.folders]
        listed = self.own_session.list(places)
        return tuple(place for place in places if listed.get(place))

    @cached_property
    def own_session(self) -> AgentSession:
        """A session of the user, for requests of the host itself."""
        from ktrial.agent.session import AgentSession

        return AgentSession(self.connect("user"))

    def _root_asker(self, purpose: str) -> tuple[tuple[str, ...], str | None]:
        """Return the words that start a program as root there, and the password, if needed. Ask only once."""
        if self.machine.machine.uid == 0:
            return (), None
        if self._asker is None:
            if not self._may_ask:
                raise PrivilegeMissing(
                    f"{purpose} needs root on {self.name}, and --no-sudo forbids asking for it",
                    hint="leave out --no-sudo; plan, explain, why and doctor work without root",
                )
            self._asker = self.find_asker(purpose)
        return self._asker

    def gives_root(self, asker: tuple[str, ...], password: str | None = None) -> bool:
        """Return whether these words start a program as root."""
        answer = self.own_session.request(
            "exec",
            argv=[*asker, self.machine.machine.program, "--version"],
            environment={"PATH": ":".join(self.folders)},
            directory="/",
            limit_s=_LIMIT_S,
            capture_bytes=1 << 16,
            **({"stdin": f"{password}\n"} if password is not None else {}),
        )
        return bool(answer["exit"].get("status") == 0)
