# SPDX-License-Identifier: Apache-2.0
"""Creates the adapters that verbs use, each one when it is first needed. No other package creates them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ktrial.agent.user_folders import cache_folder, config_folder, state_folder
from ktrial.cli.app_here import Here, say_load
from ktrial.cli.hosts import Host, session_over
from ktrial.cli.program_wiring import Closes
from ktrial.kit import interruption
from ktrial.kit.errors import AgentError

if TYPE_CHECKING:
    from ktrial.agent.clock import SystemClock
    from ktrial.agent.interrupts import Interrupts
    from ktrial.agent.session import AgentSession
    from ktrial.agent.transport import Detached
    from ktrial.bench.around.session_bus import SessionDesktop
    from ktrial.bench.benchmark import Benchmark
    from ktrial.bench.run.built_file import SeenFile
    from ktrial.bench.run.container import ContainerExecutor
    from ktrial.bench.run.executor import AgentExecutor
    from ktrial.bench.run.load_generator import LoadGenerator
    from ktrial.bench.run.place import MeasuringPlace
    from ktrial.bench.run.recorder import AgentRunRecorder
    from ktrial.bench.run.sampling import AgentSampling
    from ktrial.bench.suite import Suite
    from ktrial.bench.suite_files import Faulty
    from ktrial.cli.app_guest import GuestHost
    from ktrial.cli.app_kernels import Kernels
    from ktrial.cli.app_remote import RemoteHost
    from ktrial.cli.program_wiring import Tools
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
    from ktrial.trial.unattended.carrier import Turn
    from ktrial.tuning.catalog.model import Catalog
    from ktrial.tuning.state.saved import SavedStates
    from ktrial.watch.record.agent_watch import AgentWatching


Closing = TypeVar("Closing", bound=Closes)
#: OOM score of measured programs: the kernel kills them first, unless another one uses 30 % of all memory more.
_MEASURED_SCORE = 300
#: Attributes that belong to the connection with a host; ktrial creates them again after the connection broke.
_OF_HOST = ("user_session", "executor", "sampling", "looking_session", "run_recorder", "measuring_place")


def is_file_name(word: str) -> bool:
    """Return whether a command-line word names a profile file rather than a profile or a setting."""
    return word.startswith(("/", "./", "../")) or (word.endswith(".toml") and "=" not in word)


class App:
    """The adapters of one command: the catalog, the store, and sessions as the user and as root."""

    def __init__(
        self,
        *,
        may_ask: bool,
        machine_root: Path | None = None,
        machine_state: Path | None = None,
        catalogs: Sequence[Path] = (),
        store: str | None = None,
        host: str | None = None,
        keeps_agent: bool = False,
    ) -> None:
        self._catalogs = tuple(catalogs)
        self.store_path = store
        self._here = Here(machine_root, machine_state, may_ask=may_ask, say=self.say)
        self._machine_root = machine_root
        self._sessions: list[Closes] = []
        self.host: GuestHost | RemoteHost | None = None  # None for this machine
        if host is not None:
            from ktrial.cli.exact_host import host_of

            self.host = self.close_at_end(
                host_of(host, lambda: self.kernels, self.say, may_ask=may_ask, keeps_agent=keeps_agent)
            )
        self.generator: LoadGenerator | None = None  # the machine that sends the load, if it is another one
        self._root: AgentSession | None = None
        self._oom_before: int | None = None  # this process's score before protect() changed it
        self._measured_first = False
        self.fail_on: tuple[tuple[Verdict, float | None], ...] = ()  # verdicts with limits that make the exit status 3
        self.when_idle = self.agreed = False  # runs wait for an idle machine; the user agreed to a long measurement
        self.turn: Turn | None = None  # if set, the trial pauses when the machine has its next blocks
        self._faulty: list[Faulty] = []

    def close_at_end(self, session: Closing) -> Closing:
        self._sessions.append(session)
        return session

    @property
    def on_this_machine(self) -> bool:
        """Whether sessions use this machine itself, not a guest or a folder that stands for a machine."""
        return self._machine_root is None and self.host is None

    @property
    def may_run_trials(self) -> bool:
        """Whether trials may run on this host."""
        return self.host is not None or self._here.may_run_trials

    def _detached(self, *more: str) -> Detached:
        """Return an agent of the user that Ctrl-C does not reach."""
        if self.host is not None:
            return self.host.connect("user", arguments=more)
        return self._here.detached([*self._exposed_as_before(), *more])

    def look_at_file(self, path: str) -> SeenFile | None:
        from ktrial.bench.run.built_file import look

        return look(path)

    def protect(self) -> None:
        """Make the kernel kill this process and the root session last when memory runs out.

        Without root, or if root may not do that, make the kernel kill measured programs before this process.
        """
        if not self.on_this_machine or self._oom_before is not None:
            return
        self._measured_first = True
        if self._root is None:
            return
        try:
            self._oom_before = int(self._root.request("protect", process=os.getpid())["before"])
        except AgentError as error:
            if error.kind == "lost":
                raise

    def _expose(self) -> None:
        if self._root is None or self._oom_before is None:
            return
        with suppress(AgentError):
            self._root.request("protect", process=os.getpid(), score=self._oom_before)
        self._oom_before = None

    def _exposed_as_before(self) -> list[str]:
        """Return the agent's arguments that restore the OOM score from before protect(); none if it changed nothing."""
        return [] if self._oom_before is None else ["--oom-score-adj", str(self._oom_before)]

    def _exposed(self) -> list[str]:
        """Return arguments that make the kernel kill agents first if memory runs out; none if protect() worked."""
        exposed = self._measured_first and self._oom_before is None
        return ["--oom-score-adj", str(_MEASURED_SCORE)] if exposed else []

    @cached_property
    def catalog(self) -> Catalog:
        """The built-in catalog plus the user's own knobs and profiles."""
        from ktrial.tuning.catalog.cache import compiled_catalog

        folders = [config_folder(), *self._catalogs]
        return compiled_catalog(None if self._catalogs else cache_folder() / "catalog.msgpack", folders)

    def catalog_for(self, words: Sequence[str]) -> tuple[Catalog, tuple[str, ...]]:
        """Return the catalog plus the profile files in `words`, and `words` with profile names instead of files."""
        from ktrial.tuning.catalog.loader import with_profile_file

        catalog, names = self.catalog, []
        for word in words:
            name = word
            if is_file_name(word) or (not self._is_known(word) and Path(word).suffix and Path(word).is_file()):
                catalog, name = with_profile_file(catalog, Path(word))
            names.append(name)
        return catalog, tuple(names)

    def _is_known(self, word: str) -> bool:
        return "=" in word or word in self.catalog.profiles or word in self.catalog.knobs

    @cached_property
    def user_session(self) -> AgentSession:
        host = self.host
        transport = self._here.user(self._exposed_as_before()) if host is None else host.connect("user")
        return self.close_at_end(session_over(host, transport))

    def root_session(self, purpose: str) -> AgentSession:
        """Return the root session of this command. Ask the user at most once, and name the purpose."""
        if self._root is None:
            self._root = self.new_root_session(purpose)
        return self._root

    def new_root_session(self, purpose: str) -> AgentSession:
        """Start and return another root session, for work that must not wait for the session of `root_session`."""
        transport = self._here.root(purpose) if self.host is None else self.host.connect("root", purpose)
        return self.close_at_end(session_over(self.host, transport))

    @cached_property
    def run_recorder(self) -> AgentRunRecorder:
        """The recorder of runs, with a root session of its own. The command uses its other root session meanwhile."""
        from ktrial.bench.run.recorder import AgentRunRecorder

        connect = partial(self.new_root_session, "tracing events")
        is_far = self.host is not None and self.host.quiet is not None
        return AgentRunRecorder(connect, lambda: self.executor.agent_pid, holds=is_far)

    @property
    def can_be_root(self) -> bool:
        """Whether a root session is possible, with or without asking the user."""
        return self._here.can_be_root if self.host is None else self.host.can_be_root

    @property
    def _is_root(self) -> bool:
        """Whether a root session is possible without asking the user."""
        return self._here.is_root if self.host is None else self.host.is_root

    def best_session(self, purpose: str) -> AgentSession:
        return self.root_session(purpose) if self._is_root else self.user_session

    @cached_property
    def benchmarks(self) -> dict[str, Benchmark]:
        from ktrial.bench.adapters import all_benchmarks
        from ktrial.bench.suite_files import load_benchmarks

        return load_benchmarks([config_folder(), *self._catalogs], all_benchmarks(self.say), self._faulty)

    @cached_property
    def suites(self) -> dict[str, Suite]:
        from ktrial.bench.suite_files import load_suites

        return load_suites([config_folder(), *self._catalogs], self.benchmarks, self._faulty)

    @property
    def faulty(self) -> Sequence[Faulty]:
        """The user's suite and benchmark files that ktrial cannot use."""
        _ = self.suites
        return self._faulty

    @cached_property
    def goals(self) -> dict[str, Goal]:
        from ktrial.studies.goals import load_goals

        measurable = (*self.suites, *self.benchmarks, *(one.name for one in self.faulty))
        return load_goals([config_folder(), *self._catalogs], self.catalog, measurable)

    @cached_property
    def bundles(self) -> BundleFolder:
        from ktrial.evidence.file import BundleFolder

        return self.close_at_end(BundleFolder(state_folder() / "bundles"))

    @staticmethod
    def scrubbing() -> tuple[Identity, bytes]:
        """Return the names of this machine and its users, which bundles replace, and the salt of the placeholders."""
        from ktrial.agent.identity import identity, salt, with_hosts

        return with_hosts(identity(), state_folder() / "hosts"), salt(state_folder() / "salt")

    @cached_property
    def measuring_place(self) -> MeasuringPlace:
        """The work folder of runs and the lock on measuring. The place is closed last, after everything is restored."""
        place = (self.host or Host("")).measuring_place(self._machine_root)
        self._sessions.insert(0, place)
        return place

    @cached_property
    def store(self) -> Store:
        """The database of results: --store or KTRIAL_STORE, by default a file of the user."""
        from ktrial.results.store.database import Database
        from ktrial.results.store.runs import Store

        store = self.close_at_end(Store(Database.open(self.store_path or str(state_folder() / "results.db"))))
        store.mark_interrupted()
        return store

    @cached_property
    def saved_states(self) -> SavedStates:
        return self._saved("states")

    @cached_property
    def receipts(self) -> SavedStates:
        return self._saved("receipts")

    @cached_property
    def boot_questions(self) -> SavedStates:
        """Questions whose trials boot this machine; ktrial resumes the questions after a boot."""
        return self._saved("boot-questions")

    @staticmethod
    def _saved(folder: str) -> SavedStates:
        from ktrial.tuning.state.saved import SavedStates

        return SavedStates(state_folder() / folder)

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
        """The ledger of the store; each store has its own."""
        from ktrial.studies.ledger.file import LedgerFile

        if self.store_path is None:
            return LedgerFile(state_folder() / "ledger.json")
        import hashlib

        return LedgerFile(state_folder() / f"ledger-{hashlib.sha256(self.store_path.encode()).hexdigest()[:12]}.json")

    @cached_property
    def executor(self) -> AgentExecutor:
        """The executor that runs benchmarks as the user, through agents that Ctrl-C does not reach."""
        from ktrial.bench.run.executor import AgentExecutor

        root = self.root_session if self.can_be_root else None
        host, work = self.host, self.measuring_place.work
        return self.close_at_end(
            AgentExecutor(
                lambda: self._detached(*self._exposed()),
                work,
                root,
                None if host is not None and host.is_kept else self.tools.box,
                self.interrupts,
                guest=None if host is None else host.guest_tools,
                quiet=None if host is None else host.quiet,
            )
        )

    def executor_in(self, tools: str | None) -> AgentExecutor | ContainerExecutor:
        """Return the executor for programs from `tools`, the value of --tools; None means the host's own programs."""
        if tools is None:
            return self.executor
        if self.host is not None:
            self.executor.use_programs(self.host.programs_from(tools))
            return self.executor
        from ktrial.agent.binary import find_agent
        from ktrial.agent.run_folder import work_folders
        from ktrial.bench.run.container import ContainerExecutor
        from ktrial.machine.container import parse_tools

        image = parse_tools(tools)
        work = self.measuring_place.work
        inside = ContainerExecutor(
            lambda: self.tools.runtimes.box(image, find_agent(), work_folders(work)),
            self.executor,
            work,
            self.interrupts,
        )
        self._sessions.append(inside)
        return inside

    @cached_property
    def tools(self) -> Tools:
        """The benchmark tools that ktrial built for this user, and the container tools."""
        from ktrial.cli.program_wiring import Tools

        return Tools()

    @cached_property
    def kernels(self) -> Kernels:
        from ktrial.cli.app_kernels import Kernels

        return Kernels(self.say, lambda: self.catalog)

    @cached_property
    def looking_session(self) -> AgentSession:
        """The session that observes the machine, as root if that needs no prompt. Ctrl-C does not reach it."""
        if self._is_root or self._root is not None:
            return self.root_session("looking at the machine")
        return self.close_at_end(session_over(self.host, self._detached()))

    @cached_property
    def sampling(self) -> AgentSampling:
        """The sampling of the machine's sensors during runs, through agents of the user that Ctrl-C does not reach."""
        return self.sampling_of(())

    def sampling_of(self, sources: Sequence[str]) -> AgentSampling:
        """Return a sampling of these sources, or of all sources if none is named."""
        from ktrial.bench.run.sampling import AgentSampling

        return self.close_at_end(AgentSampling(self._detached, sources))

    def watching(self, file: Path, nvidia_hz: float | None) -> AgentWatching:
        """Return a watch, as root if possible, because only root can trace events."""
        from ktrial.watch.record.agent_watch import AgentWatching, nvidia

        beside = None if self.host is not None else nvidia(nvidia_hz)
        session = self.root_session("tracing events") if self.can_be_root else self.user_session
        return AgentWatching(session, self.interrupts, file, beside)

    @staticmethod
    def pack_samples(samples: Samples) -> bytes:
        from ktrial.results.store.telemetry import to_parquet

        return to_parquet(samples)

    @cached_property
    def desktop(self) -> SessionDesktop | None:
        from ktrial.bench.around.session_bus import session_desktop

        is_here = self.host is None or self.host.guest_tools is not None
        return session_desktop(os.environ) if is_here else None

    @cached_property
    def clock(self) -> SystemClock:
        from ktrial.agent.clock import SystemClock

        return SystemClock(self.interrupts)

    @cached_property
    def interrupts(self) -> Interrupts:
        """Records Ctrl-C during a measurement; otherwise Ctrl-C would raise KeyboardInterrupt."""
        from ktrial.agent.interrupts import Interrupts

        return Interrupts()

    def lock_trials(self) -> None:
        """Block other trials on this machine, and other measurements of this user, until this command ends.

        Also report what disturbs the trial: ktrial's kernel builds, load and pressure.
        """
        machine = self.measuring_place.machine
        if machine.take():
            for builder in machine.others_building():
                self.say(f"a kernel build is running on this machine: {builder}")
                self.say("  next: press Ctrl-C and let the build finish first; otherwise the runs are doubtful")
            say_load(self.user_session, self.say, when_idle=self.when_idle)
        self.lock_runs()

    def share_machine(self) -> None:
        """Block trials on this machine until this command ends. Raise Refused while a trial runs."""
        self.measuring_place.machine.share()

    def lock_runs(self) -> None:
        """Block other measurements of this user until this command ends, and remove what a killed measurement left."""
        from ktrial.agent.run_folder import remove_leftovers

        self.measuring_place.lock()
        remove_leftovers(self.measuring_place.work)

    def end_interrupted(self, next_step: str) -> int:
        """Report what interrupted this command and the next step; return the exit status."""
        self.say(f"{interruption.words(self.interrupts.number)}; {next_step}")
        return interruption.status(self.interrupts.number)

    def reconnect(self) -> None:
        """Wait until a host whose connection broke is back, and start all sessions there again."""
        assert self.host is not None
        was_root = self._root is not None
        self._end_sessions()
        self.host.come_back(self.clock.sleep)
        root = self.root_session("going on after the connection broke") if was_root else None
        self.host.outlast(self.measuring_place.machine, root, self.clock.sleep)

    def leave_machine(self) -> None:
        """Release the locks on trials, so that the machine can run a plan. With --host, also end all sessions."""
        if self.host is None:
            return self.measuring_place.close()
        self._end_sessions()
        return self.host.leave()

    def _end_sessions(self) -> None:
        staying = [self.host, *(self.__dict__.get(name) for name in ("store", "bundles", "generator"))]
        for session in [one for one in reversed(self._sessions) if one not in staying]:
            with suppress(AgentError, OSError):
                session.close()
            self._sessions.remove(session)
        self.__dict__ = {name: value for name, value in self.__dict__.items() if name not in _OF_HOST}
        self._root = None

    def say(self, text: str) -> None:
        print(f"ktrial: {text}", file=sys.stderr)

    def close(self) -> None:
        self._expose()
        for session in reversed(self._sessions):
            session.close()
