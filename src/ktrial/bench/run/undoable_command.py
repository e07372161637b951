# SPDX-License-Identifier: Apache-2.0
"""Commands of an arm, resolved: the paths of programs, where they run, and what must hold meanwhile."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

#: Beginning of a run's failure if its arm was not in force until its end.
EJECTED = "the arm was lost"


class ArmCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command and the one that undoes it, with the whole environment that both get."""

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
    """A check before and after each run; `passes` says whether its status must be 0."""

    argv: tuple[str, ...]
    passes: bool = True
    environment: Mapping[str, str] = {}
    directory: str | None = None

    @property
    def text(self) -> str:
        return shlex.join(self.argv)


class ArmScheduler(msgspec.Struct, frozen=True, kw_only=True):
    """A sched_ext scheduler: its program, and the beginning of the name that the kernel shows for it."""

    argv: tuple[str, ...]
    ops: str
    environment: Mapping[str, str] = {}
    directory: str | None = None


class ArmBuild(msgspec.Struct, frozen=True, kw_only=True):
    """The command that builds an arm's program again, and the file that it writes."""

    argv: tuple[str, ...]
    artefact: str
    environment: Mapping[str, str] = {}
    directory: str | None = None

    @property
    def text(self) -> str:
        return shlex.join(self.argv)


class ArmExtras(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm has besides its plan."""

    commands: tuple[ArmCommand, ...] = ()
    checks: tuple[ArmCheck, ...] = ()
    scheduler: ArmScheduler | None = None
    build: ArmBuild | None = None


class OpenCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that began and is not undone yet."""

    number: int
    trial: str
    arm: str
    command: ArmCommand
