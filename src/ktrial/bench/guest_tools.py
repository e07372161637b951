# SPDX-License-Identifier: Apache-2.0
"""A guest: a kernel booted in an emulator with one program, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from ktrial.kit.errors import KtrialError

#: How a guest runs: on the processor itself, emulated, or emulated with a clock that counts instructions.
Mode = Literal["kvm", "emulated", "exact"]

#: Exit statuses of `kernel boot` that are not the program's own, as `timeout`, `env` and shells have them.
STATUS_LIMIT, STATUS_FAILED, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND, STATUS_SIGNAL = 124, 125, 126, 127, 128

_NO_ENTRY = 2
#: Folders that a guest mounts file systems of its own on.
_HIDDEN = ("/tmp/", "/var/", "/run/", "/dev/", "/proc/", "/sys/")
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C"}

#: What an exact guest's clock means; printed with every result.
EXACT_CLOCK = (
    "Time in this guest counts instructions, 2 ns each, on one CPU; idle time passes at once. There are no caches, no "
    "branch prediction, no other CPU and no CPU frequency in it: it judges scheduling, wake-ups, reclaim and the "
    "length of code paths, not compiler flags, caches or what depends on the processor."
)

#: What is said where the first two boots of an exact guest were not the same and a third one was as one of them.
ODD_BOOT = "of three runs one was not as the two others"

#: And that of an emulated one.
EMULATED_CLOCK = (
    "Time in this guest is that of an emulator, which other work on this machine disturbs and in which every "
    "instruction costs about the same: it shows that things work, and only large differences."
)

#: Guest seconds of rest before an exact guest's program: the kernel tests and sorts itself out after boot.
EXACT_SETTLE_S = 12


class GuestTool(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs in the guest; `user` is its number and group, None is root.

    `beside` runs from a moment before it until it ends.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(_ENVIRONMENT))
    directory: str = "/"
    user: int | None = None
    beside: tuple[GuestTool, ...] = ()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the first process of the guest does.

    `programs` run one after the other, until one fails. `disk` is the type of the file system on the disk in memory;
    with `sessions` the head opens some then, and ends the guest itself; with `script` all that it would say lies in the
    guest, word for word.
    """

    programs: tuple[GuestTool, ...] = ()
    modules: tuple[str, ...] = ()
    disk: str | None = None
    settle_s: int = 0
    sessions: bool = False
    script: bool = False


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The machine that the guest sees."""

    mode: Mode
    memory_bytes: int
    cpus: int
    append: tuple[str, ...] = ()


class GuestPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel by the word that names it, and the machine that it runs on; with `disk` there is a real file system.

    `tools` are programs of this machine, by their paths, that the guest brings along.
    """

    kernel: str
    shape: Shape
    modules: tuple[str, ...] = ()
    disk: bool = False
    limit_s: float = 300.0
    tools: tuple[str, ...] = ()


class Ends(NamedTuple):
    """The two pipes of a session in a guest, as the head has them, and its number there."""

    to_agent: int
    from_agent: int
    session: int


class KeptProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A guest that outlives a command, as it is told to those that use it; `tools`: where its programs lie, by name.

    `place` is what an exact one is booted with for each answer.
    """

    kernel: str
    release: str
    mode: Mode
    tools: Mapping[str, str] = {}
    place: GuestPlace | None = None


class ProgramPast(msgspec.Struct, frozen=True, kw_only=True):
    """What was said to an exact guest, frame by frame, and the lines that each session answered: all there is of it."""

    script: bytes = b""
    said: Mapping[int, tuple[bytes, ...]] = {}


class GuestTools(msgspec.Struct, frozen=True, kw_only=True):
    """Programs of this machine in a guest that is the host of a command.

    `places` are where they lie there, by name. `found` tells where this machine has what was looked for, None if it
    has it not. `kept` is the name of a guest that goes on, which was given its programs at its boot.
    """

    places: Mapping[str, str]
    found: Mapping[str, str | None] = {}
    kept: str | None = None
    foreign: bool = False
    exact: bool = False


def guest_path(path: str) -> str:
    """Return where a program lies in a guest: as here, but for folders that the guest has something else in."""
    return f"/usr/bin/{path.rpartition('/')[2]}" if path.startswith(_HIDDEN) else path


class GuestStart(msgspec.Struct, frozen=True, kw_only=True):
    """What the guest told of itself when its first process ran; `uptime_s` is its own time since it began to boot."""

    release: str
    version: str
    architecture: str
    command_line: str
    uptime_s: float
    cpus: int
    memory_bytes: int
    unloaded: tuple[str, ...] = ()


class ProgramEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the program ended: its status, the signal that killed it, or why it was not started."""

    status: int | None = None
    signal: int | None = None
    unstarted: str | None = None
    errno: int | None = None
    unknown: str | None = None


class GuestRun(msgspec.Struct, frozen=True, kw_only=True):
    """One boot. `failure` says why the guest did not come to its end; None if it did.

    `said` are the frames of sessions that a script opened.
    """

    shape: Shape
    emulator: str
    begun: GuestStart | None
    ended: ProgramEnded | None
    stdout: bytes
    stderr: bytes
    console: bytes
    wall_s: float
    failure: str | None = None
    limit_passed: bool = False
    said: bytes = b""

    @property
    def exit_status(self) -> int:
        """The program's own status where it has one; 128 and the signal's number as shells do; else why not."""
        if self.limit_passed:
            return STATUS_LIMIT
        if self.failure is not None:
            return STATUS_FAILED
        return 0 if self.ended is None else status_of(self.ended)


def status_of(ended: ProgramEnded) -> int:
    """Return the status that stands for how a program ended."""
    if ended.status is not None:
        return ended.status
    if ended.signal is not None:
        return STATUS_SIGNAL + ended.signal
    if ended.unstarted is not None:
        return STATUS_NOT_FOUND if ended.errno == _NO_ENTRY else STATUS_NOT_EXECUTABLE
    return STATUS_FAILED


_MORE = "--memory gives it more room, --append loglevel=7 lets its kernel say more"
_LONGER = f"--limit gives it longer, {_MORE}"


class GuestFailed(KtrialError):
    """The guest did not come to its end."""

    def __init__(self, message: str, exit_status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or (_LONGER if exit_status == STATUS_LIMIT else _MORE))
        self.exit_status = exit_status


class GuestDiffers(KtrialError):
    """No two runs of an exact guest were the same."""

    exit_status = STATUS_FAILED


class InitCall(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the kernel's own start, and the microseconds that it took."""

    name: str
    us: int


class GuestBootTime(msgspec.Struct, frozen=True, kw_only=True):
    """How long a kernel takes to its first process, in the guest's own time; `wall_s` is a whole boot here.

    `told_…` and `calls`, the slowest first, are of one more boot in which the kernel told what it does, which takes
    time itself; `cut`: the newest of it are missing.
    """

    schema: str = "ktrial.guest-boot-time/1"
    kernel: str
    release: str
    mode: Mode
    first_process_s: tuple[float, ...]
    median_s: float
    wall_s: float
    told_first_process_s: float | None
    told_kernel_s: float | None
    calls: tuple[InitCall, ...]
    cut: bool = False
