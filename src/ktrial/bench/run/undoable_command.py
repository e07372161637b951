# SPDX-License-Identifier: Apache-2.0
"""The commands of an arm, with the full paths of their programs, their directories and environments."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

from ktrial.bench.command_benchmark import OwnBenchmark

#: Beginning of a run's failure if its arm was not in force until its end.
EJECTED = "the arm was lost"


class ArmCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command and the command that undoes it, with the complete environment of both."""

    run: tuple[str, ...]
    undo: tuple[str, ...]
    environment: Mapping[str, str] = {}
    directory: str | None = None

    @property
    def text(self) -> str:
        return shlex.join(self.run)

    @property
    def undo_text(self) -> str:
        return shlex.join(self.undo)


class ArmCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check before and after each run: `argv` must exit with status 0 if `passes`, otherwise with another status."""

    argv: tuple[str, ...]
    passes: bool = True
    environment: Mapping[str, str] = {}
    directory: str | None = None

    @property
    def text(self) -> str:
        return shlex.join(self.argv)


class ArmScheduler(msgspec.Struct, frozen=True, kw_only=True):
    """A sched_ext scheduler, which `argv` starts. The name that the kernel gives it begins with `ops`."""

    argv: tuple[str, ...]
    ops: str
    environment: Mapping[str, str] = {}
    directory: str | None = None


class ArmBuild(msgspec.Struct, frozen=True, kw_only=True):
    """A command that rebuilds an arm's program, and the file that the build writes."""

    argv: tuple[str, ...]
    artefact: str
    environment: Mapping[str, str] = {}
    directory: str | None = None

    @property
    def text(self) -> str:
        return shlex.join(self.argv)


class ArmExtras(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an arm besides its plan; `measured` is what the arm measures, if arms differ in that."""

    commands: tuple[ArmCommand, ...] = ()
    checks: tuple[ArmCheck, ...] = ()
    scheduler: ArmScheduler | None = None
    build: ArmBuild | None = None
    measured: OwnBenchmark | None = None


class OpenCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that started and is not undone yet."""

    number: int
    trial: str
    arm: str
    command: ArmCommand
