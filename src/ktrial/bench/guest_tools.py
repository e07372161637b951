# SPDX-License-Identifier: Apache-2.0
"""What a benchmark needs to know about a guest, which is a kernel booted in a virtual machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.kit.errors import KtrialError

#: How a guest runs: on the processor itself, emulated, or emulated with a clock that counts instructions.
Mode = Literal["kvm", "emulated", "exact"]

#: Exit statuses of `kernel boot` that are not the program's own, numbered as in `timeout`, `env` and shells.
STATUS_LIMIT, STATUS_FAILED, STATUS_NOT_EXECUTABLE, STATUS_NOT_FOUND, STATUS_SIGNAL = 124, 125, 126, 127, 128

_NO_ENTRY = 2
#: Folders over which a guest mounts its own file systems.
_HIDDEN = ("/tmp/", "/var/", "/run/", "/dev/", "/proc/", "/sys/")
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C"}

#: What time means in an exact guest; printed with every result.
EXACT_CLOCK = (
    "Time in this guest counts instructions, 2 ns each, on one CPU; idle time passes at once. There are no caches, no "
    "branch prediction, no other CPU and no CPU frequency in it: it judges scheduling, wake-ups, reclaim and the "
    "length of code paths, not compiler flags, caches or what depends on the processor."
)

#: Note if the first two boots of an exact guest differed and a third one matched one of them.
ODD_BOOT = "one of three runs differed from the other two"

#: What time means in an emulated guest.
EMULATED_CLOCK = (
    "Time in this guest is that of an emulator: other work on this machine disturbs it, and every instruction costs "
    "about the same. It shows whether things work, and large differences only."
)

#: Guest seconds to wait before an exact guest's program: after boot the kernel is still testing and initialising
#: itself.
EXACT_SETTLE_S = 12


class GuestTool(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs in the guest; `user` is its user and group id, None for root.

    The programs in `beside` start just before it, and run until this program ends.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(_ENVIRONMENT))
    directory: str = "/"
    user: int | None = None
    beside: tuple[GuestTool, ...] = ()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the first process of the guest does.

    The process runs `programs` in order until a program fails. `disk` is the file system type of a disk in memory. With
    `sessions`, the head opens sessions and ends the guest; with `script`, the guest already has all of the head's
    input.
    """

    programs: tuple[GuestTool, ...] = ()
    modules: tuple[str, ...] = ()
    disk: str | None = None
    settle_s: int = 0
    sessions: bool = False
    script: bool = False


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The virtual machine of a guest; `append` are additional kernel arguments."""

    mode: Mode
    memory_bytes: int
    cpus: int
    append: tuple[str, ...] = ()


class GuestPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel as named on the command line, and the virtual machine that runs it; `disk` adds a real file system.

    `tools` are paths of programs of this machine to put into the guest.
    """

    kernel: str
    shape: Shape
    modules: tuple[str, ...] = ()
    disk: bool = False
    limit_s: float = 300.0
    tools: tuple[str, ...] = ()


class KeptProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A guest that keeps running after the command. `tools` are the paths of its programs, by name.

    An exact guest instead boots from `place` again for each answer.
    """

    kernel: str
    release: str
    mode: Mode
    tools: Mapping[str, str] = {}
    place: GuestPlace | None = None


class ProgramPast(msgspec.Struct, frozen=True, kw_only=True):
    """All frames sent to an exact guest, and the lines with which each session answered."""

    script: bytes = b""
    said: Mapping[int, tuple[bytes, ...]] = {}


class GuestTools(msgspec.Struct, frozen=True, kw_only=True):
    """The programs that a guest gets from this machine.

    `places` are their paths in the guest, `found` their paths on this machine (None: missing), both by name. `kept`
    names a guest that keeps running, which got its programs when it booted. `foreign` means that the guest has another
    architecture than this machine.
    """

    places: Mapping[str, str]
    found: Mapping[str, str | None] = {}
    kept: str | None = None
    foreign: bool = False
    exact: bool = False


def guest_path(path: str) -> str:
    """Return a program's path in a guest: the same as on this machine, unless the guest mounts something over it."""
    return f"/usr/bin/{path.rpartition('/')[2]}" if path.startswith(_HIDDEN) else path


class GuestStart(msgspec.Struct, frozen=True, kw_only=True):
    """What the guest reports when its first process runs; `uptime_s` is guest time since the boot began.

    `unloaded` says which modules or disk it could not load, and why.
    """

    release: str
    version: str
    architecture: str
    command_line: str
    uptime_s: float
    cpus: int
    memory_bytes: int
    unloaded: tuple[str, ...] = ()


class ProgramEnded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the program ended: its status, the signal that killed it, why it did not start, or why its end is unknown."""

    status: int | None = None
    signal: int | None = None
    unstarted: str | None = None
    errno: int | None = None
    unknown: str | None = None


class GuestRun(msgspec.Struct, frozen=True, kw_only=True):
    """One boot of a guest; `failure` says why the guest failed early, None if it ended normally.

    `said` holds the frames of the sessions that the guest's script opened.
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
        """The program's status, 128 plus the number of its signal as in shells, or the status for a failed guest."""
        if self.limit_passed:
            return STATUS_LIMIT
        if self.failure is not None:
            return STATUS_FAILED
        return 0 if self.ended is None else status_of(self.ended)


def status_of(ended: ProgramEnded) -> int:
    """Return the exit status of a command that ended like the guest's program."""
    if ended.status is not None:
        return ended.status
    if ended.signal is not None:
        return STATUS_SIGNAL + ended.signal
    if ended.unstarted is not None:
        return STATUS_NOT_FOUND if ended.errno == _NO_ENTRY else STATUS_NOT_EXECUTABLE
    return STATUS_FAILED


_SEE = "run `ktrial kernel boot KERNEL --append loglevel=7 {}` to see why"
_MORE, _LONGER = _SEE.format("--memory 2GiB"), _SEE.format("--limit 5m")


class GuestFailed(KtrialError):
    """The guest crashed, ended early or exceeded its time limit."""

    def __init__(self, message: str, exit_status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint or (_LONGER if exit_status == STATUS_LIMIT else _MORE))
        self.exit_status = exit_status


class GuestDiffers(KtrialError):
    """An exact guest gave other results when ktrial repeated a run."""

    exit_status = STATUS_FAILED


class InitCall(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the kernel calls during its boot (an initcall), and the time that the function took."""

    name: str
    us: int


class GuestBootTime(msgspec.Struct, frozen=True, kw_only=True):
    """How long a kernel takes to reach its first process, in guest time; `wall_s` is the real time of a whole boot.

    `told_first_process_s`, `told_kernel_s` and `calls` (slowest first) come from another boot. In that boot the kernel
    logged its steps, which slows the boot down. `cut` means that the newest lines of this log are missing.
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
