# SPDX-License-Identifier: Apache-2.0
"""Commands of an arm, resolved: programs with their paths, where they run, and what must hold meanwhile."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import msgspec

#: How the failure of a run begins whose arm was not in force to its end.
EJECTED = "the arm was lost"


class ArmCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One command and what undoes it, with the whole environment that both get."""

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
    """A question before and after each run: `passes` is whether its status must be 0."""

    argv: tuple[str, ...]
    passes: bool = True
    environment: Mapping[str, str] = {}
    directory: str | None = None

    @property
    def text(self) -> str:
        return shlex.join(self.argv)


class ArmScheduler(msgspec.Struct, frozen=True, kw_only=True):
    """A sched_ext scheduler: its program, and how the name begins that the kernel shows of it."""

    argv: tuple[str, ...]
    ops: str
    environment: Mapping[str, str] = {}
    directory: str | None = None


class ArmBuild(msgspec.Struct, frozen=True, kw_only=True):
    """What makes the program of an arm anew, and the file that it writes."""

    argv: tuple[str, ...]
    artefact: str
    environment: Mapping[str, str] = {}
    directory: str | None = None

    @property
    def text(self) -> str:
        return shlex.join(self.argv)


class ArmExtras(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm has beside its plan."""

    commands: tuple[ArmCommand, ...] = ()
    checks: tuple[ArmCheck, ...] = ()
    scheduler: ArmScheduler | None = None
    build: ArmBuild | None = None


class OpenCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was begun and not undone yet."""

    number: int
    trial: str
    arm: str
    command: ArmCommand
