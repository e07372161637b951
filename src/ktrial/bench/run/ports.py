# SPDX-License-Identifier: Apache-2.0
"""Interfaces through which measurements reach the machine, its programs and the user's files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ktrial.bench.run.undoable_command import ArmCommand, OpenCommand
from ktrial.machine.ports import Clock, Machine, Sampling, SleepClock

if TYPE_CHECKING:
    from pathlib import PurePath

    from ktrial.bench.benchmark import Invocation, RawOutput
    from ktrial.bench.guest_tools import GuestTools
    from ktrial.bench.record import Earlier, Execution, Exit, RunRecord, Session, Watch
    from ktrial.machine.container import Container
    from ktrial.machine.facts import FactBook
    from ktrial.machine.sensors import Samples
    from ktrial.recordings.frames.statistics import Capture
    from ktrial.recordings.watching import HandedBlocks, MachineView, WatchEnded
    from ktrial.tuning.catalog.model import Catalog


class RunningLoad(Protocol):
    """A background load in progress."""

    def alive(self) -> bool: ...

    def stop(self) -> RawOutput:
        """End the load and return its output."""


class Desktop(Protocol):
    """The user's desktop."""

    def keep_awake(self, why: str) -> str | None:
        """Ask the desktop not to blank or lock the screen; return why it refuses, None if it agrees."""

    def release(self) -> None:
        """Allow the desktop to blank and lock the screen again."""


class Watching(Protocol):
    """Something that records a machine over a long time."""

    def watch(
        self, fields: dict[str, Any], begun: Callable[[], None]
    ) -> Iterator[MachineView | HandedBlocks | WatchEnded]:
        """Begin, call `begun`, then yield views and recorded blocks, and finally the end.

        Raise AgentError if the agent fails.
        """


class RunRecorder(Protocol):
    """Something that records the machine during a run, especially the processes of the run."""

    def start(self) -> None:
        """Start to record; return once the recording has begun. Raise AgentError if it cannot begin."""

    def stop(self) -> bytes:
        """Stop and return the recording. Raise AgentError if it failed."""


class Executor(Protocol):
    """Something that runs benchmarks as the user, each in a fresh private directory."""

    @property
    def agent_version(self) -> str: ...

    @property
    def runs_as_root(self) -> bool:
        """Whether programs here run as root."""

    @property
    def has_root(self) -> bool:
        """Whether root is available: ktrial is root, or can use sudo or the like."""

    def obtain_root(self, purpose: str) -> None:
        """Get root now, before any run; a prompt for root shows the purpose."""

    @property
    def container(self) -> Container | None:
        """The container in which programs run, if any."""

    @property
    def has_loads(self) -> bool:
        """Whether the agent has loads of its own."""

    @property
    def guest(self) -> GuestTools | None:
        """The programs of the guest in which this executor runs benchmarks; None on a real machine."""

    def programs(self, names: Iterable[str]) -> Mapping[str, str | None]:
        """Return the path of each program, None for a missing program; look up bare names in the fixed folders."""

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        """Run a program or load until it ends, reaches its limit or is interrupted. The output says which.

        Every interruption also ends the children of the run. `watch` observes directly before and after the run.
        """

    def start(self, invocation: Invocation) -> RunningLoad:
        """Start a background load, which runs until `stop`."""


def run_or_stop(executor: Executor, invocation: Invocation) -> RawOutput:
    """Return the output of a run. Raise KeyboardInterrupt if the user interrupted it."""
    raw = executor.run(invocation).raw
    if raw.interrupted:
        raise KeyboardInterrupt
    return raw


class RunStore(Protocol):
    """Storage of runs and sessions."""

    def new_name(self) -> str: ...

    def where(self, session: str) -> str:
        """Return where the runs of a session are, as text."""

    def earlier(self, plan: str) -> Earlier | None:
        """Return the newest measurement of the same plan, if there is one."""

    def begin(self, session: Session, plan: str) -> None: ...

    def keep_state(self, session: str, place: str, state: bytes) -> None:
        """Store the machine's tunable settings; `place` names the moment in the session."""

    def start(self, session: str, run: int, benchmark: str, *, warm_up: bool) -> None:
        """Store that a run begins, so that it is known even if ktrial crashes."""

    def give_up(self, session: str, run: int) -> None:
        """Store that a run was interrupted before it had a record."""

    def save(self, record: RunRecord, parts: Mapping[str, bytes]) -> str:
        """Store the record and raw output of a run, both or neither; return the run's name for `ktrial show`."""


class Launcher(Protocol):
    """Something that runs the user's program in the user's folder and terminal."""

    def run(self, argv: Sequence[str], environment: Mapping[str, str], *, quiet: bool) -> Exit:
        """Run a program to its end and pass signals on; `quiet` sends its stdout to stderr."""


class CaptureFolder(Protocol):
    """A folder in which logs of frame times appear."""

    @property
    def folder(self) -> str: ...

    def found(self, started_unix_ms: int) -> tuple[Capture, ...]:
        """Return the logs written since `started_unix_ms`."""


class WrittenLog(Protocol):
    """A log that a program rewrites at each start."""

    def read(self, started_unix_ms: int) -> bytes | None:
        """Return the log if the program has rewritten it since `started_unix_ms`; otherwise None."""


class TrialExecutor(Executor, Protocol):
    """An executor that also returns facts of the machine."""

    def facts(self) -> FactBook: ...


class WorkPlace(Protocol):
    """The folder, locks and journal that runs use."""

    @property
    def work(self) -> PurePath: ...

    @property
    def commands(self) -> CommandJournal: ...


class RunClock(Clock, SleepClock, Protocol):
    """A clock that also measures how long the machine was suspended."""


class RunWorld(Protocol):
    """Everything that ktrial needs to observe the machine around runs."""

    @property
    def catalog(self) -> Catalog: ...

    @property
    def executor(self) -> TrialExecutor: ...

    @property
    def clock(self) -> RunClock: ...

    @property
    def sampling(self) -> Sampling: ...

    @property
    def looking_session(self) -> Machine:
        """The session that reads the machine during a measurement."""

    @property
    def desktop(self) -> Desktop | None:
        """The user's desktop; None without a session bus."""

    @property
    def measuring_place(self) -> WorkPlace: ...

    @property
    def run_recorder(self) -> RunRecorder: ...

    def pack_samples(self, samples: Samples) -> bytes: ...

    def root_session(self, purpose: str) -> Machine:
        """Return the root session. At most the first call prompts for root, and the prompt shows the purpose."""


class CommandJournal(Protocol):
    """Remembers commands that ktrial must undo, even after ktrial was killed."""

    @property
    def where(self) -> str: ...

    def begin(self, trial: str, arm: str, command: ArmCommand) -> int:
        """Write a command to disk before it runs, and return its number."""

    def end(self, number: int) -> None: ...

    def left(self) -> tuple[OpenCommand, ...]:
        """Return the commands to undo, newest first."""
