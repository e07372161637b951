# SPDX-License-Identifier: Apache-2.0
"""Run benchmarks through the agent, in fresh private directories with a pinned environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ktrial.agent.clock import SystemClock
from ktrial.agent.interrupts import Interrupts
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import Detached
from ktrial.bench.benchmark import (
    DIRECTORY,
    PINNED,
    PROGRAM_FOLDERS,
    VERSIONED_FOLDERS,
    Invocation,
    RawOutput,
    why_failed,
)
from ktrial.bench.guest_tools import GuestTools
from ktrial.bench.record import Execution, Watch
from ktrial.bench.run.folders import FoldersHere, FoldersInGuest, FoldersThere, RunFolders
from ktrial.bench.run.load_generator import GeneratorLost, LoadGenerator, generator_limit_s, with_words
from ktrial.bench.run.rights import Connect, OpenRoot, Rights
from ktrial.bench.run.servers import Course, Running, output_of
from ktrial.bench.tool import Receipt
from ktrial.bench.tools.toolbox import UserToolbox
from ktrial.kit.errors import AgentError, BadInput
from ktrial.machine.facts import FactBook
from ktrial.machine.reading import Reading

#: Bytes captured of each stream. A reply has at most 4 MiB, and JSON may write a byte as six.
CAPTURE_BYTES = 1 << 20
#: A server that nobody stops ends after this many seconds; no run with one takes longer.
SERVER_LIMIT_S = 3600.0


class AgentExecutor:
    """Implements `bench.run.ports.Executor` with agents of its own.

    `connect` starts an agent as the user, detached. `root` opens the root session, given its purpose; None if root is
    not available. Programs of `tools`, which ktrial built for this user, take precedence over those in the fixed
    folders. `interrupts` can end the wait for a run. If the agents are in a guest, `guest` returns its programs. If
    they are on another machine, `quiet` keeps the connection quiet during a run of at most the given seconds.
    `generator` is the load generator, if there is one.
    """

    container: None = None

    def __init__(
        self,
        connect: Connect,
        work: Path,
        root: OpenRoot | None,
        tools: UserToolbox | None = None,
        interrupts: Interrupts | None = None,
        *,
        guest: Callable[[], GuestTools] | None = None,
        quiet: Callable[[float], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._guest = guest
        self._connect = connect
        self._rights = Rights(root, connect)
        self._quiet = quiet
        self.generator: LoadGenerator | None = None
        self._folders: RunFolders = FoldersHere(work)
        if guest is not None:
            self._folders = FoldersInGuest(self._open, guest)
        elif quiet is not None:
            self._folders = FoldersThere(self._open)
        self._tools = tools
        self._interrupts = interrupts or Interrupts()
        self.clock = SystemClock(self._interrupts)
        #: Paths of programs that do not change: those in a guest, and those that were copied to the machine.
        self._known: dict[str, str | None] = {}
        self._transport: Detached | None = None
        self._session: AgentSession | None = None
        self._asked: AgentSession | None = None

    @property
    def guest(self) -> GuestTools | None:
        return None if self._guest is None else self._guest()

    @property
    def agent_version(self) -> str:
        return str(self._open().hello["agent"])

    @property
    def agent_pid(self) -> int:
        """The process id of the agent that starts the runs."""
        return int(self._open().hello["pid"])

    @property
    def runs_as_root(self) -> bool:
        return self._open().hello.get("uid") == 0

    @property
    def has_root(self) -> bool:
        return self._rights.has_root

    @property
    def user(self) -> int:
        """The user id with which commands run."""
        return int(self._open().hello["uid"])

    def obtain_root(self, purpose: str) -> None:
        self._rights.obtain(purpose, self._open())

    @property
    def has_loads(self) -> bool:
        return "load" in self._open().hello.get("capabilities", ())

    def facts(self) -> FactBook:
        return self._open().facts()

    def read(self, paths: Sequence[str]) -> Mapping[str, Reading | None]:
        return self._open().read(paths)

    def use_programs(self, places: Mapping[str, str]) -> None:
        """Prefer the programs in `places` (name -> path on the machine) to all others."""
        self._known |= places

    def programs(self, names: Iterable[str]) -> dict[str, str | None]:
        names = list(dict.fromkeys(names))
        wanted = [name for name in names if name not in self._known]
        places = {name: (*self._built_places(name), *_places(name)) for name in wanted}
        listed = self._open().list([place for name in wanted for place in places[name]])
        found = {name: next((listed[place][-1] for place in places[name] if listed[place]), None) for name in wanted}
        if self._guest is not None:
            self._known |= found
        return {name: found[name] if name in found else self._known[name] for name in names}

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        self._interrupts.check()
        if invocation.generator is not None and self.generator is not None:
            return self._run_loaded(invocation, self.generator, watch)
        with self._private_directory(invocation) as folder, Course() as course:
            request = self.request_for(invocation, folder)
            started = (self.clock.monotonic_ns(), self.clock.unix_ms())
            asked = False
            try:
                failure = self._prepare(invocation, folder, course)
                if watch is not None:
                    watch.begin()
                started = (self.clock.monotonic_ns(), self.clock.unix_ms())
                asked = failure is None
                raw = RawOutput(failed=failure) if failure is not None else self._ask(invocation, request)
                if watch is not None:
                    watch.end()
            except KeyboardInterrupt:
                raw = self._cut_short(invocation) if asked else self._cut_short(None)
            except BaseException:
                self._abandon()
                raise
            course.end()
            if raw.failed is None and course.died is not None and not raw.interrupted:
                raw = msgspec.structs.replace(raw, failed=course.died, exit_status=None)
            if invocation.load is None:
                raw = self._folders.with_files(raw, folder, invocation.files)
        return Execution(
            argv=(request["argv"][0], *invocation.argv[1:]) if invocation.argv else (),
            steps=(*course.steps, *_other_end(invocation, request)),
            step_raw=course.raw,
            environment=request.get("environment", {}),
            directory=str(request.get("directory", "/")),
            started_monotonic_ns=started[0],
            started_unix_ms=started[1],
            raw=raw,
            built=self.receipt(invocation),
        )

    def _run_loaded(self, told: Invocation, generator: LoadGenerator, watch: Watch | None) -> Execution:
        """Run the server here, and the rest on the load generator."""
        placed = generator.place(told, self.read)
        invocation = placed.invocation
        with self._private_directory(invocation) as folder, Course() as course:
            started = (self.clock.monotonic_ns(), self.clock.unix_ms())
            sent = Execution(
                argv=told.argv,
                environment={},
                directory=str(folder),
                started_monotonic_ns=started[0],
                started_unix_ms=started[1],
                raw=RawOutput(),
            )
            try:
                failure = self._prepare(invocation, folder, course)
                if failure is None:
                    with nullcontext() if self._quiet is None else self._quiet(generator_limit_s(invocation)):
                        sent = generator.run(placed, watch)
                    raw = sent.raw
                else:
                    raw = RawOutput(failed=failure)
            except KeyboardInterrupt:
                raw = self._cut_short(None)
            except GeneratorLost as error:
                raw = RawOutput(load_failed=f"{error.message}; next: {error.hint}")
            except BaseException:
                self._abandon()
                raise
            course.end()
        if course.died is not None and not raw.interrupted:
            raw = msgspec.structs.replace(raw, failed=course.died, load_failed=None, exit_status=None)
        step_raw = {**course.raw, **{f"generator/{name}": data for name, data in sent.step_raw.items()}}
        return msgspec.structs.replace(
            sent,
            raw=placed.hide_in(raw),
            steps=(*with_words(course.steps, [one.argv for one in told.steps]), *sent.steps),
            step_raw={name: placed.hide(data) for name, data in step_raw.items()},
        )

    def _built_places(self, name: str) -> tuple[str, ...]:
        """Return the path of a program that ktrial built or that the guest has; nothing for other programs."""
        if self._guest is not None:
            place = self._guest().places.get(name)
            return (place,) if place is not None else ()
        built = self._tools.find(name) if self._tools is not None and "/" not in name else None
        return (str(built[0]),) if built is not None else ()

    def receipt(self, invocation: Invocation) -> Receipt | None:
        """Return the receipt of the program; None if ktrial did not build it."""
        if self._tools is None or invocation.load is not None or "/" in invocation.argv[0]:
            return None
        built = self._tools.find(invocation.argv[0])
        return built[1] if built is not None else None

    def _prepare(self, invocation: Invocation, folder: Path, course: Course) -> str | None:
        """Carry out the steps; return why one failed, or None."""
        for step in invocation.steps:
            own = Invocation(
                argv=step.argv,
                limit_s=SERVER_LIMIT_S if step.ready else step.limit_s,
                environment=invocation.environment,
                cpus=step.cpus,
                stdin=step.stdin,
                directory=invocation.directory,
            )
            request = self.request_for(own, folder)
            argv = (request["argv"][0], *step.argv[1:])
            if not step.ready:
                raw = self._ask(own, request)
                course.note(argv, raw)
                failure = why_failed(raw)
            else:
                server = course.serve(argv, self._start(own, folder))
                probe = msgspec.structs.replace(own, argv=step.ready, limit_s=step.limit_s, stdin=b"")
                question = self.request_for(probe, folder)
                failure = server.wait(step.limit_s, self.clock, partial(self._ask, probe, question))
            if failure is not None:
                return f"{step.argv[0]}, which must run first, {failure}"
        return None

    def start(self, invocation: Invocation) -> RunningAgentLoad:
        folder = self._make_directory(invocation)
        try:
            return RunningAgentLoad(self._start(invocation, folder), self._folders, folder, invocation)
        except BaseException:
            self._folders.remove(folder)
            raise

    def _start(self, invocation: Invocation, folder: Path) -> Running:
        transport = self._connect()
        try:
            session = AgentSession(transport)
            session.send("exec" if invocation.load is None else "load", **self.request_for(invocation, folder))
        except BaseException:
            transport.finish()
            raise
        return Running(transport, session, own_load=invocation.load is not None)

    def close(self) -> None:
        """End the user's sessions, but not the root session, which belongs to the caller."""
        self._rights.close()
        if self._session is not None:
            self._session.close()

    def _open(self) -> AgentSession:
        if self._session is None:
            self._transport = self._connect()
            self._session = AgentSession(self._transport)
        return self._session

    def _cut_short(self, invocation: Invocation | None) -> RawOutput:
        """End everything that runs. Return the output of `invocation` so far; empty output without an invocation."""
        raw = RawOutput()
        try:
            if invocation is not None and self._asked is not None:
                self._asked.hang_up()
                raw = output_of(self._asked, own_load=invocation.load is not None)
        except AgentError:
            raw = RawOutput()  # a lost agent returns nothing; the run counts as interrupted either way
        finally:
            self._abandon()
        return msgspec.structs.replace(raw, interrupted=True)

    def _abandon(self) -> None:
        if self._transport is not None:
            self._transport.finish()
        self._rights.abandon()
        self._session = self._transport = self._asked = None

    def _ask(self, invocation: Invocation, request: Mapping[str, Any]) -> RawOutput:
        own_load = invocation.load is not None
        try:
            session = self._asked = self._rights.session_for(invocation, self._open())
            with nullcontext() if self._quiet is None else self._quiet(invocation.limit_s):
                session.send("load" if own_load else "exec", **request)
                session.wait(self._interrupts)
                return output_of(session, own_load=own_load)
        except AgentError as error:
            if error.kind == "lost":
                self._session = self._transport = None
                self._rights.forget()
                if self._quiet is not None:
                    raise  # the connection broke, which says nothing about the run
            step = f"; {error.hint}" if error.hint else ""
            return RawOutput(failed=f"the agent reported an error ({error.message}){step}")
        except BadInput as error:
            return RawOutput(failed=error.message)

    def request_for(self, invocation: Invocation, folder: Path) -> dict[str, Any]:
        """Return the fields of the agent's request `exec` or `load` that runs the invocation in a folder."""
        common = {"limit_s": invocation.limit_s, **({"cpus": list(invocation.cpus)} if invocation.cpus else {})}
        if invocation.load is not None:
            parameters = {
                name: value.replace(DIRECTORY, str(folder)) if isinstance(value, str) else value
                for name, value in invocation.load.parameters.items()
            }
            return {"load": invocation.load.name, "parameters": parameters, **common}
        network: dict[str, Any] = {}
        if (link := invocation.network) is not None:
            server = {"argv": self._resolved(link.server, folder), "port": link.port}
            network = {"network": dict(link.link), "server": server}
        environment = {**PINNED, "HOME": DIRECTORY, "TMPDIR": DIRECTORY, **invocation.environment}
        return {
            **common,
            "argv": self._resolved(invocation.argv, folder),
            "environment": {name: value.replace(DIRECTORY, str(folder)) for name, value in environment.items()},
            "directory": invocation.directory or str(folder),
            "capture_bytes": CAPTURE_BYTES,
            "while_connected": True,
            **({"stdin": _bytes(invocation.stdin)} if invocation.stdin else {}),
            **network,
        }

    def _resolved(self, argv: tuple[str, ...], folder: Path) -> list[str]:
        """Return a command line with the full path of the program and the path of the run's directory."""
        place = self.programs([argv[0]])[argv[0]] or f"{PROGRAM_FOLDERS[0]}/{argv[0]}"
        return [place, *(word.replace(DIRECTORY, str(folder)) for word in argv[1:])]

    @contextmanager
    def _private_directory(self, invocation: Invocation) -> Iterator[Path]:
        folder = self._make_directory(invocation)
        try:
            yield folder
        finally:
            self._folders.remove(folder)

    def _make_directory(self, invocation: Invocation) -> Path:
        return self._folders.make(in_memory=invocation.in_memory, for_program=invocation.load is None)


class RunningAgentLoad:
    """A background load with its own agent; implements `bench.run.ports.RunningLoad`."""

    def __init__(self, running: Running, folders: RunFolders, folder: Path, invocation: Invocation) -> None:
        self._running = running
        self._folders = folders
        self._folder = folder
        self._files = invocation.files

    def alive(self) -> bool:
        return self._running.alive()

    def stop(self) -> RawOutput:
        try:
            return self._folders.with_files(self._running.stop(), self._folder, self._files)
        finally:
            self._folders.remove(self._folder)


def _other_end(invocation: Invocation, request: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    if invocation.network is None:
        return ()
    return ((request["server"]["argv"][0], *invocation.network.server[1:]),)


def _places(name: str) -> tuple[str, ...]:
    if name.startswith("/"):
        return (name,)
    return tuple(f"{folder}/{name}" for folder in (*VERSIONED_FOLDERS, *PROGRAM_FOLDERS))


def _bytes(data: bytes) -> str | dict[str, str]:
    import base64

    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
