# SPDX-License-Identifier: Apache-2.0
"""What services need of the world."""

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
    """A background load."""

    def alive(self) -> bool: ...

    def stop(self) -> RawOutput:
        """End it: what it printed and wrote."""


class Desktop(Protocol):
    """The desktop of the user."""

    def keep_awake(self, why: str) -> str | None:
        """Ask it not to blank or lock the screen: None, or why it does not."""

    def release(self) -> None:
        """It may do as it likes again."""


class Watching(Protocol):
    """Watches a machine for a long time."""

    def watch(
        self, fields: dict[str, Any], begun: Callable[[], None]
    ) -> Iterator[MachineView | HandedBlocks | WatchEnded]:
        """Begin, call `begun`, tell what is seen and kept, and at last how it ended. Raises AgentError."""


class RunRecorder(Protocol):
    """Records the machine beside a run, and what the run starts most of all."""

    def start(self) -> None:
        """Begin; comes back when it has begun. Raises AgentError."""

    def stop(self) -> bytes:
        """End it: the recording. Raises AgentError."""


class Executor(Protocol):
    """Runs benchmarks as the user, each in a fresh private directory."""

    @property
    def agent_version(self) -> str: ...

    @property
    def runs_as_root(self) -> bool:
        """Whether what is run here is run as root."""

    @property
    def has_root(self) -> bool:
        """Whether root can be had: this is root, or sudo or its like may be asked."""

    def obtain_root(self, purpose: str) -> None:
        """Ask for root now where somebody has to be asked, and say what for."""

    @property
    def container(self) -> Container | None:
        """The container in which programs run; None if they run on the machine itself."""

    @property
    def has_loads(self) -> bool:
        """Whether the agent carries out loads itself."""

    @property
    def guest(self) -> GuestTools | None:
        """The programs of a guest of ktrial's that is the host; None if it is a machine."""

    def programs(self, names: Iterable[str]) -> Mapping[str, str | None]:
        """Where each program is: bare names in the fixed folders, others as they are; None when it is not there."""

    def run(self, invocation: Invocation, watch: Watch | None = None) -> Execution:
        """Run it to its end or its limit, or to a Ctrl-C, which is told in the output.

        Whatever interrupts this ends the run and its children too. `watch` looks on directly before and after it.
        """

    def start(self, invocation: Invocation) -> RunningLoad:
        """Start a background load; it ends when it is stopped."""


class RunStore(Protocol):
    """Keeps run records."""

    def new_name(self) -> str:
        """Return a name that no session has."""

    def where(self, session: str) -> str:
        """Return where the runs of a session are, for people."""

    def earlier(self, plan: str) -> Earlier | None:
        """Return what the newest measurement of the same plan left; None when there is none."""

    def begin(self, session: Session, plan: str) -> None: ...

    def keep_state(self, session: str, place: str, state: bytes) -> None:
        """The tunable state of the machine at a place of a session."""

    def start(self, session: str, run: int, benchmark: str, *, warm_up: bool) -> None:
        """A run begins: it is known from now on, whatever becomes of its writer."""

    def give_up(self, session: str, run: int) -> None:
        """A run that began has come to nothing that could be recorded: it was interrupted."""

    def save(self, record: RunRecord, parts: Mapping[str, bytes]) -> str:
        """Return a run ended: its record and raw output are kept, both or neither. Its name for `ktrial show`."""


class Launcher(Protocol):
    """Runs a program of the user's where the user stands."""

    def run(self, argv: Sequence[str], environment: Mapping[str, str], *, quiet: bool) -> Exit:
        """Run it to its end, passing signals on; `quiet` sends its standard output to standard error."""


class CaptureFolder(Protocol):
    """Where logs of frames are looked for."""

    @property
    def folder(self) -> str: ...

    def found(self, started_unix_ms: int) -> tuple[Capture, ...]:
        """Logs made since the start; never an older one."""


class WrittenLog(Protocol):
    """A log that a program writes anew at each start."""

    def read(self, started_unix_ms: int) -> bytes | None:
        """Return what it holds since the start; None when it was not written since."""


class TrialExecutor(Executor, Protocol):
    """Also knows the machine."""

    def facts(self) -> FactBook: ...


class WorkPlace(Protocol):
    """Where runs work."""

    @property
    def work(self) -> PurePath:
        """Where private directories of runs are made."""

    @property
    def commands(self) -> CommandJournal:
        """Commands of arms that must be undone."""


class RunClock(Clock, SleepClock, Protocol):
    """Also tells suspends."""


class RunWorld(Protocol):
    """What is needed to look at the machine around runs."""

    @property
    def catalog(self) -> Catalog: ...

    @property
    def executor(self) -> TrialExecutor: ...

    @property
    def clock(self) -> RunClock: ...

    @property
    def sampling(self) -> Sampling:
        """Samples the machine's sensors beside runs."""

    @property
    def looking_session(self) -> Machine:
        """Looks on while something is measured."""

    @property
    def desktop(self) -> Desktop | None:
        """The user's; None if no session bus leads to one."""

    @property
    def measuring_place(self) -> WorkPlace: ...

    @property
    def run_recorder(self) -> RunRecorder:
        """Records the machine beside a run."""

    def pack_samples(self, samples: Samples) -> bytes: ...

    def root_session(self, purpose: str) -> Machine:
        """Return a root session; asks at most once, and says what for."""


class CommandJournal(Protocol):
    """Knows what was begun and not undone, whatever became of who began it."""

    @property
    def where(self) -> str: ...

    def begin(self, trial: str, arm: str, command: ArmCommand) -> int:
        """Write down what is about to be run; its number. On disk when this returns."""

    def end(self, number: int) -> None: ...

    def left(self) -> tuple[OpenCommand, ...]:
        """Return what is left to undo, the newest first."""
