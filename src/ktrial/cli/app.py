# SPDX-License-Identifier: Apache-2.0
"""Builds adapters: the only place that does. Everything is made when it is first needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ktrial.cli.program_wiring import Closes, WithDesktop
from ktrial.cli.root_session import connect_root, find_lent_root
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.agent.clock import SystemClock
    from ktrial.agent.interrupts import Interrupts
    from ktrial.agent.session import AgentSession
    from ktrial.agent.transport import Detached, Transport
    from ktrial.bench.benchmark import Benchmark
    from ktrial.bench.run.built_file import SeenFile
    from ktrial.bench.run.container import ContainerExecutor
    from ktrial.bench.run.executor import AgentExecutor
    from ktrial.bench.run.place import MeasuringPlace
    from ktrial.bench.run.recorder import AgentRunRecorder
    from ktrial.bench.run.sampling import AgentSampling
    from ktrial.bench.suite import Suite
    from ktrial.bench.suite_files import Faulty
    from ktrial.cli.app_guest import GuestHost
    from ktrial.cli.app_kernels import Kernels
    from ktrial.cli.program_wiring import FrameLogs, Tools
    from ktrial.evidence.file import BundleFolder
    from ktrial.judge.model.verdict import Verdict
    from ktrial.kit.scrub import Identity
    from ktrial.machine.sensors import Samples
    from ktrial.results.foreign import Importer
    from ktrial.results.store.recorder import Recorder
    from ktrial.results.store.runs import Store
    from ktrial.studies.goals import Goal
    from ktrial.studies.ledger.file import LedgerFile
    from ktrial.trial.store import StoredTrials
    from ktrial.tuning.catalog.model import Catalog
    from ktrial.tuning.state.saved import SavedStates
    from ktrial.watch.record.agent_watch import AgentWatching


#: What is measured is killed before an ordinary process of the same size, and a third of the memory more.
_MEASURED_SCORE = 300
#: A file in the folder of `--machine-root` that lets trials run there, with this machine's loads: for tests.
_TEST_MARK = ".ktrial-test-machine"


def is_file_name(word: str) -> bool:
    """Return whether a word of the command line names a profile's file rather than a profile or a setting."""
    return word.startswith(("/", "./", "../")) or (word.endswith(".toml") and "=" not in word)


class App(WithDesktop):
    """What a verb may use: the catalog, an ordinary session, and a root session that says what it is for."""

    def __init__(
        self,
        *,
        may_ask: bool,
        machine_root: Path | None = None,
        machine_state: Path | None = None,
        catalogs: Sequence[Path] = (),
        store: str | None = None,
        host: str | None = None,
    ) -> None:
        self._catalogs = tuple(catalogs)
        self._store = store
        self._may_ask = may_ask
        self._machine_root = machine_root
        self._machine_state = machine_state
        self._sessions: list[Closes] = []
        self.host: GuestHost | None = None  # none if it is this machine
        if host is not None:
            from ktrial.cli.hosts import host_of

            self.host = host_of(host, lambda: self.kernels, self.say)
            self._sessions.append(self.host)
        self._root: AgentSession | None = None
        self._oom_before: int | None = None  # the score when memory runs out, before this was protected
        self._measured_first = False
        self.fail_on: tuple[Verdict, ...] = ()  # they end the command with status 3
        self._lent = find_lent_root() if machine_root is None else None  # where the launcher gave root up
        self._faulty: list[Faulty] = []

    @property
    def on_this_machine(self) -> bool:
        """Whether the sessions look at this machine itself rather than at a folder that stands for one."""
        return self._machine_root is None and self.host is None

    @property
    def may_run_trials(self) -> bool:
        """Whether trials may run here: on a machine, or on a folder that is marked as one for tests."""
        return self._machine_root is None or (self._machine_root / _TEST_MARK).exists()

    def _detached(self, *more: str) -> Detached:
        """Return an agent of the user that no Ctrl-C reaches."""
        if self.host is not None:
            return self.host.connect("user")
        from ktrial.agent.binary import find_agent
        from ktrial.agent.transport import DetachedTransport

        return DetachedTransport([str(find_agent()), *self._arguments("user"), *more])

    def look_at_file(self, path: str) -> SeenFile | None:
        from ktrial.bench.run.built_file import look

        return look(path)

    def protect(self) -> None:
        """Have the kernel kill this process and the root session last when memory runs out.

        Where root is not at hand or may not do that, what is measured goes first.
        """
        if not self.on_this_machine or self._oom_before is not None:
            return
        self._measured_first = True
        if self._root is None:
            return
        from ktrial.kit.errors import AgentError

        try:
            self._oom_before = int(self._root.request("protect", process=os.getpid())["before"])
        except AgentError as error:
            if error.kind == "lost":
                raise

    def _expose(self) -> None:
        if self._root is None or self._oom_before is None:
            return
        from contextlib import suppress

        from ktrial.kit.errors import AgentError

        with suppress(AgentError):
            self._root.request("protect", process=os.getpid(), score=self._oom_before)
        self._oom_before = None

    def _arguments(self, role: str) -> list[str]:
        arguments = ["serve", "--role", role]
        if self._machine_root is not None:
            arguments += ["--root", str(self._machine_root.resolve())]
        if self._machine_state is not None:
            arguments += ["--state", str(self._machine_state)]
        if role == "user" and self._oom_before is not None:
            arguments += ["--oom-score-adj", str(self._oom_before)]
        return arguments

    def _exposed(self) -> list[str]:
        """Return how agents that run what is measured are started where nobody could be protected."""
        exposed = self._measured_first and self._oom_before is None
        return ["--oom-score-adj", str(_MEASURED_SCORE)] if exposed else []

    @cached_property
    def catalog(self) -> Catalog:
        """The built-in catalog and the user's own knobs and profiles."""
        from ktrial.agent.user_folders import cache_folder, config_folder
        from ktrial.tuning.catalog.cache import compiled_catalog

        folders = [config_folder(), *self._catalogs]
        return compiled_catalog(None if self._catalogs else cache_folder() / "catalog.msgpack", folders)

    def catalog_for(self, words: Sequence[str]) -> tuple[Catalog, tuple[str, ...]]:
        """Return the catalog with the profile files among the words, and the words with those profiles' names."""
        from ktrial.tuning.catalog.loader import with_profile_file

        catalog, names = self.catalog, []
        for word in words:
            name = word
            if is_file_name(word):
                catalog, name = with_profile_file(catalog, Path(word))
            names.append(name)
        return catalog, tuple(names)

    @cached_property
    def user_session(self) -> AgentSession:
        from ktrial.agent.binary import find_agent
        from ktrial.agent.session import AgentSession
        from ktrial.agent.transport import ProcessTransport

        here = [str(find_agent()), *self._arguments("user")]
        session = AgentSession(ProcessTransport(here) if self.host is None else self.host.connect("user"))
        self._sessions.append(session)
        return session

    def root_session(self, purpose: str) -> AgentSession:
        """Return a root session; asks at most once per command, and says what for."""
        if self._root is None:
            self._root = self._new_root(purpose)
        return self._root

    def _new_root(self, purpose: str) -> AgentSession:
        from ktrial.agent.session import AgentSession

        transport: Transport
        if self.host is not None:
            transport = self.host.connect("root")
        elif self._lent is not None:
            transport = self._lent.start(None if self._machine_state is None else str(self._machine_state))
        else:
            needs_right = self._machine_root is None
            transport = connect_root(self._arguments("root"), purpose, self._may_ask, self.say, needs_right=needs_right)
        session = AgentSession(transport)
        self._sessions.append(session)
        return session

    @cached_property
    def run_recorder(self) -> AgentRunRecorder:
        """Records beside runs, with a root session of its own: the other one is asked for things meanwhile."""
        from ktrial.bench.run.recorder import AgentRunRecorder

        connect = partial(self._new_root, "tracing events")
        return AgentRunRecorder(connect, lambda: self.executor.agent_pid)

    @property
    def can_be_root(self) -> bool:
        """Whether a root session can be had, by asking where that is allowed."""
        if os.geteuid() == 0 or self._lent is not None or not self.on_this_machine:
            return True
        from ktrial.agent.root import can_ask

        return self._may_ask and can_ask()

    def best_session(self, purpose: str) -> AgentSession:
        if os.geteuid() == 0 or self._lent is not None or not self.on_this_machine:
            return self.root_session(purpose)
        return self.user_session

    @cached_property
    def benchmarks(self) -> dict[str, Benchmark]:
        """The built-in benchmarks and the user's own, by name."""
        from ktrial.agent.user_folders import config_folder
        from ktrial.bench.adapters import all_benchmarks
        from ktrial.bench.suite_files import load_benchmarks

        return load_benchmarks([config_folder(), *self._catalogs], all_benchmarks(self.say), self._faulty)

    @cached_property
    def suites(self) -> dict[str, Suite]:
        """The built-in suites and the user's own, by name."""
        from ktrial.agent.user_folders import config_folder
        from ktrial.bench.suite_files import load_suites

        return load_suites([config_folder(), *self._catalogs], self.benchmarks, self._faulty)

    @property
    def faulty(self) -> Sequence[Faulty]:
        """The user's own files of suites and benchmarks that cannot be used."""
        _ = self.suites
        return self._faulty

    @cached_property
    def goals(self) -> dict[str, Goal]:
        """The built-in goals and the user's own, by name."""
        from ktrial.agent.user_folders import config_folder
        from ktrial.studies.goal_files import load_goals

        measurable = (*self.suites, *self.benchmarks, *(one.name for one in self.faulty))
        return load_goals([config_folder(), *self._catalogs], self.catalog, measurable)

    @cached_property
    def bundles(self) -> BundleFolder:
        """Packs and unpacks bundles, in a private folder of the user's."""
        from ktrial.agent.user_folders import state_folder
        from ktrial.evidence.file import BundleFolder

        folder = BundleFolder(state_folder() / "bundles")
        self._sessions.append(folder)
        return folder

    @staticmethod
    def scrubbing() -> tuple[Identity, bytes]:
        """Return what would tell on this machine and its users, and the secret that placeholders are made with."""
        from ktrial.agent.identity import identity, salt
        from ktrial.agent.user_folders import state_folder

        return identity(), salt(state_folder() / "salt")

    @cached_property
    def measuring_place(self) -> MeasuringPlace:
        """Where runs work, one measurement at a time; let go of last, when what was changed is put back."""
        from ktrial.agent.user_folders import state_folder
        from ktrial.bench.run.place import MeasuringPlace
        from ktrial.tuning.state.lock import MachineLock

        place = MeasuringPlace(state_folder() / "measuring", MachineLock(self._machine_root))
        self._sessions.insert(0, place)
        return place

    @cached_property
    def store(self) -> Store:
        """What was measured here or brought here: in what --store or KTRIAL_STORE says, else the user's file."""
        from ktrial.agent.user_folders import state_folder
        from ktrial.results.store.database import Database
        from ktrial.results.store.runs import Store

        store = Store(Database.open(self._store or str(state_folder() / "results.db")))
        self._sessions.append(store)
        store.mark_interrupted()
        return store

    @cached_property
    def saved_states(self) -> SavedStates:
        from ktrial.agent.user_folders import state_folder
        from ktrial.tuning.state.saved import SavedStates

        return SavedStates(state_folder() / "states")

    @cached_property
    def receipts(self) -> SavedStates:
        from ktrial.agent.user_folders import state_folder
        from ktrial.tuning.state.saved import SavedStates

        return SavedStates(state_folder() / "receipts")

    @cached_property
    def importers(self) -> dict[str, Importer]:
        from ktrial.results.importers import all_importers

        return all_importers(self.say)

    @cached_property
    def run_store(self) -> Recorder:
        from ktrial.results.store.recorder import Recorder

        return Recorder(lambda: self.store, self.clock.unix_ms)

    @cached_property
    def trials(self) -> StoredTrials:
        from ktrial.trial.store import StoredTrials

        return StoredTrials(lambda: self.store.database)

    @cached_property
    def ledger_file(self) -> LedgerFile:
        """The ledger beside the store; another store has another one."""
        from ktrial.agent.user_folders import state_folder
        from ktrial.studies.ledger.file import LedgerFile

        if self._store is None:
            return LedgerFile(state_folder() / "ledger.json")
        import hashlib

        return LedgerFile(state_folder() / f"ledger-{hashlib.sha256(self._store.encode()).hexdigest()[:12]}.json")

    @cached_property
    def executor(self) -> AgentExecutor:
        """Runs benchmarks as the user, through agents that a Ctrl-C on the terminal does not reach."""
        from ktrial.bench.run.executor import AgentExecutor

        root = self.root_session if self.can_be_root else None
        host, work = self.host, self.measuring_place.work
        box = self.tools.box if host is None or not host.is_kept else None
        connect, guest = lambda: self._detached(*self._exposed()), None if host is None else host.tools
        executor = AgentExecutor(connect, work, root, box, self.interrupts, guest=guest)
        self._sessions.append(executor)
        return executor

    def executor_in(self, tools: str | None) -> AgentExecutor | ContainerExecutor:
        """Return the executor that takes programs from where --tools says."""
        if tools is None:
            return self.executor
        if self.host is not None:
            raise BadInput("--tools takes programs of this machine, --host another one", hint="leave one of them out")
        from ktrial.agent.binary import find_agent
        from ktrial.agent.run_folder import work_folders
        from ktrial.bench.run.container import ContainerExecutor
        from ktrial.machine.container import parse_tools

        wanted = parse_tools(tools)
        work = self.measuring_place.work
        inside = ContainerExecutor(
            lambda: self.tools.runtimes.box(wanted, find_agent(), work_folders(work)),
            self.executor,
            work,
            self.interrupts,
        )
        self._sessions.append(inside)
        return inside

    @cached_property
    def tools(self) -> Tools:
        """Tools of benchmarks: built for this user, or in a container."""
        from ktrial.cli.program_wiring import Tools

        return Tools()

    @cached_property
    def kernels(self) -> Kernels:
        """Kernels, their sources and compilers, and guests that run them."""
        from ktrial.cli.app_kernels import Kernels

        return Kernels(self.say, lambda: self.catalog)

    @cached_property
    def looking_session(self) -> AgentSession:
        """Looks on while something is measured, as root where that needs no asking; no Ctrl-C reaches it."""
        if os.geteuid() == 0 or self._lent is not None or self._root is not None:
            return self.root_session("looking at the machine")
        from ktrial.agent.session import AgentSession

        session = AgentSession(self._detached())
        self._sessions.append(session)
        return session

    @cached_property
    def sampling(self) -> AgentSampling:
        """Samples the machine's sensors beside runs, by agents of the user that no Ctrl-C reaches."""
        return self.sampling_of(())

    def sampling_of(self, sources: Sequence[str]) -> AgentSampling:
        """Return another one that looks at these sources only, or at all where none is named."""
        from ktrial.bench.run.sampling import AgentSampling

        sampling = AgentSampling(self._detached, sources)
        self._sessions.append(sampling)
        return sampling

    def watching(self, file: Path, nvidia_hz: float | None) -> AgentWatching:
        """Watches as root where that can be had: events can be traced by root alone."""
        from ktrial.watch.record.agent_watch import AgentWatching, nvidia

        beside = None if self.host is not None else nvidia(nvidia_hz)
        session = self.root_session("tracing events") if self.can_be_root else self.user_session
        return AgentWatching(session, self.interrupts, file, beside)

    @staticmethod
    def pack_samples(samples: Samples) -> bytes:
        from ktrial.results.store.telemetry import to_parquet

        return to_parquet(samples)

    @cached_property
    def clock(self) -> SystemClock:
        from ktrial.agent.clock import SystemClock

        return SystemClock(self.interrupts)

    @cached_property
    def interrupts(self) -> Interrupts:
        """Ctrl-C, noted rather than thrown while something is measured."""
        from ktrial.agent.interrupts import Interrupts

        return Interrupts()

    @cached_property
    def frame_logs(self) -> FrameLogs:
        """Programs that log their frames, and where the logs lie."""
        from ktrial.cli.program_wiring import FrameLogs

        return FrameLogs(self.measuring_place, self._sessions)

    def lock_trials(self) -> None:
        """Keep other trials away from this machine, and other measurements of this user, until this command ends."""
        from ktrial.cli.hosts import lock_machine

        lock_machine(self.measuring_place.machine, lambda: self.user_session, self.say)
        self.lock_runs()

    def lock_runs(self) -> None:
        """Keep other measurements away until this command ends, and take away what a killed one left."""
        from ktrial.agent.run_folder import remove_leftovers

        self.measuring_place.lock()
        remove_leftovers(self.measuring_place.work)

    def say(self, text: str) -> None:
        print(f"ktrial: {text}", file=sys.stderr)

    def close(self) -> None:
        """End all sessions, the newest first."""
        self._expose()
        for session in reversed(self._sessions):
            session.close()
