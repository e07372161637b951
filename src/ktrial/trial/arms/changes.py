# SPDX-License-Identifier: Apache-2.0
"""Changes of an arm besides settings, as people write them: commands with their undo, a service, a scheduler."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput

_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.\\@-]*\.(service|socket|timer|path)")

ServiceState = Literal["started", "stopped"]


class CommandFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`run` makes a change and ends, `undo` reverts it, `check` has status 0 while the change is in force."""

    run: tuple[str, ...]
    undo: tuple[str, ...]
    check: tuple[str, ...] = ()


class ServiceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wanted state of a systemd unit."""

    name: str
    state: ServiceState


class SchedExtFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sched_ext scheduler: its program, and the beginning of the name that the kernel shows for it.

    Without `ops` that is the program's name without `scx_`.
    """

    run: tuple[str, ...]
    ops: str | None = None

    @property
    def name(self) -> str:
        """The name that the kernel shows, or its beginning."""
        return self.ops or self.run[0].rpartition("/")[2].removeprefix("scx_")


class BuildFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the arm's program is built for every visit: the command, and the file that it writes."""

    run: tuple[str, ...]
    artefact: str


def check_arm_changes(
    arm: str, commands: Sequence[CommandFile], service: ServiceFile | None, sched_ext: SchedExtFile | None
) -> None:
    """Raise BadInput for changes that no machine can make."""
    for command in commands:
        for what, words in (("run", command.run), ("undo", command.undo)):
            if not words or not words[0]:
                raise BadInput(
                    f"arm {arm}: a command lacks {what}",
                    hint='run = ["gsettings", "set", …], undo = [what reverts it]; no shell is used',
                )
        if command.check and not command.check[0]:
            raise BadInput(f"arm {arm}: a check lacks a program", hint="name one, or remove the check")
    if sched_ext is not None and not (sched_ext.run and sched_ext.run[0] and sched_ext.name):
        raise BadInput(f"arm {arm}: sched_ext lacks a program", hint='sched_ext = { run = ["scx_lavd"] }')
    if service is not None and not _UNIT.fullmatch(service.name):
        raise BadInput(f"arm {arm}: {service.name!r} is not a systemd unit", hint="for example irqbalance.service")
