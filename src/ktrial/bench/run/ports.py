# SPDX-License-Identifier: Apache-2.0
"""Interfaces through which services reach the world."""

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
    """A background load that runs."""

    def alive(self) -> bool: ...

    def stop(self) -> RawOutput:
        """End it and return what it printed and wrote."""


class Desktop(Protocol):
    """The user's desktop."""

    def keep_awake(self, why: str) -> str | None:
        """Ask it not to blank or lock the screen; return None, or why it will not."""

    def release(self) -> None:
        """Let it blank and lock again."""


class Watching(Protocol):
    """Watches a machine for a long time."""

    def watch(
        self, fields: dict[str, Any], begun: Callable[[], None]
    ) -> Iterator[MachineView | HandedBlocks | WatchEnded]:
        """Begin, call `begun`, yield what is seen and recorded, and at last how it ended. Raises AgentError."""


class RunRecorder(Protocol):
    """Records the machine during a run, above all the processes that the run starts."""

    def start(self) -> None:
        """Begin; returns once the recording has begun. Raises AgentError."""

    def stop(self) -> bytes:
        """End and return the recording. Raises AgentError."""


class Executor(Protocol):
    """Runs benchmarks as the user, each in a fresh private directory."""

    @property
    def agent_version(self) -> str: ...

    @property
    def runs_as_root(self) -> bool:
        """Whether programs here run as root."""

    @property
    def has_root(self) -> bool:
        """Whether root is available: ktrial is root, or may ask through sudo or the like."""

    def obtain_root(self, purpose: str) -> None:
        """Ask for root now, if somebody has to be asked, and say what for."""

    @property
    def container(self) -> Container | None:
        """The container in which programs run; None on the machine itself."""

    @property
    def has_loads(self) -> bool:
        """Whether the agent runs loads itself."""

    @property
    def guest(self) -> GuestTools | None:
        """The programs of the guest that is the host; None on a machine."""

    def programs(self, names: Iterable[str]) -> Mapping[str, str | None]:
        """Return each program's path, or None: bare names are looked up in the fixed folders."""

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        """Run it until it ends, reaches its limit or is interrupted by Ctrl-C, which the output says.

        Any interruption also ends the run's children. `watch` observes directly before and after it.
        """

    def start(self, invocation: Invocation) -> RunningLoad:
        """Start a background load, which runs until it is stopped."""


def run_or_stop(executor: Executor, invocation: Invocation) -> RawOutput:
    """Return the output of a run. Raises KeyboardInterrupt if the user interrupted it."""
    raw = executor.run(invocation).raw
    if raw.interrupted:
        raise KeyboardInterrupt
    return raw


class RunStore(Protocol):
    """Stores run records."""

    def new_name(self) -> str: ...

    def where(self, session: str) -> str:
        """Return where the runs of a session are, for people."""

    def earlier(self, plan: str) -> Earlier | None:
        """Return what the newest measurement of the same plan left; None if there is none."""

    def begin(self, session: Session, plan: str) -> None: ...

    def keep_state(self, session: str, place: str, state: bytes) -> None:
        """Store the machine's tunable state at a place of a session."""

    def start(self, session: str, run: int, benchmark: str, *, warm_up: bool) -> None:
        """Note that a run begins, so that it is known even if the writer dies."""

    def give_up(self, session: str, run: int) -> None:
        """Note that a run was interrupted and left nothing to record."""

    def save(self, record: RunRecord, parts: Mapping[str, bytes]) -> str:
        """Store the record and raw output of a run, both or neither; return its name for `ktrial show`."""


class Launcher(Protocol):
    """Runs the user's program where the user is."""

    def run(self, argv: Sequence[str], environment: Mapping[str, str], *, quiet: bool) -> Exit:
        """Run it to its end and pass signals on; `quiet` sends its standard output to standard error."""


class CaptureFolder(Protocol):
    """Finds logs of frames."""

    @property
    def folder(self) -> str: ...

    def found(self, started_unix_ms: int) -> tuple[Capture, ...]:
        """Return the logs made since the start, never older ones."""


class WrittenLog(Protocol):
    """A log that a program rewrites at each start."""

    def read(self, started_unix_ms: int) -> bytes | None:
        """Return what it holds since the start; None if it was not written since."""


class TrialExecutor(Executor, Protocol):
    """An executor that also knows the machine."""

    def facts(self) -> FactBook: ...


class WorkPlace(Protocol):
    """Where runs work."""

    @property
    def work(self) -> PurePath: ...

    @property
    def commands(self) -> CommandJournal: ...


class RunClock(Clock, SleepClock, Protocol):
    """A clock that also measures suspends."""


class RunWorld(Protocol):
    """What observing the machine around runs needs."""

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
        """Session that reads the machine during a measurement."""

    @property
    def desktop(self) -> Desktop | None:
        """The user's desktop; None without a session bus."""

    @property
    def measuring_place(self) -> WorkPlace: ...

    @property
    def run_recorder(self) -> RunRecorder: ...

    def pack_samples(self, samples: Samples) -> bytes: ...

    def root_session(self, purpose: str) -> Machine:
        """Return the root session; asks at most once, and says what for."""


class CommandJournal(Protocol):
    """Remembers which commands began and were not undone, whatever became of their process."""

    @property
    def where(self) -> str: ...

    def begin(self, trial: str, arm: str, command: ArmCommand) -> int:
        """Write down what is about to run and return its number; it is on disk when this returns."""

    def end(self, number: int) -> None: ...

    def left(self) -> tuple[OpenCommand, ...]:
        """Return what is left to undo, the newest first."""
