# SPDX-License-Identifier: Apache-2.0
"""What an arm changes beside settings, as people write it: commands with their undo, a service, a scheduler."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput

_UNIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9:_.\\@-]*\.(service|socket|timer|path)")

ServiceState = Literal["started", "stopped"]


class CommandFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`run` brings something about and ends, `undo` takes it back, `check` has status 0 while it is in force."""

    run: tuple[str, ...]
    undo: tuple[str, ...]
    check: tuple[str, ...] = ()


class ServiceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state of a unit of systemd."""

    name: str
    state: ServiceState


class SchedExtFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sched_ext scheduler: the program that holds it, and how the name begins that the kernel shows of it.

    Without `ops` it is the program's name without `scx_`.
    """

    run: tuple[str, ...]
    ops: str | None = None

    @property
    def name(self) -> str:
        """What the kernel shows of it, or its beginning."""
        return self.ops or self.run[0].rpartition("/")[2].removeprefix("scx_")


class BuildFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is measured in the arm is made anew for every visit: the command, and the file that it writes."""

    run: tuple[str, ...]
    artefact: str


def check_arm_changes(
    arm: str, commands: Sequence[CommandFile], service: ServiceFile | None, sched_ext: SchedExtFile | None
) -> None:
    """Raise BadInput for what cannot be carried out on any machine."""
    for command in commands:
        for what, words in (("run", command.run), ("undo", command.undo)):
            if not words or not words[0]:
                raise BadInput(
                    f"arm {arm}: a command without {what}",
                    hint='run = ["gsettings", "set", …], undo = [what takes it back]; no shell is used',
                )
        if command.check and not command.check[0]:
            raise BadInput(f"arm {arm}: a check without a program", hint="leave it out, or name one")
    if sched_ext is not None and not (sched_ext.run and sched_ext.run[0] and sched_ext.name):
        raise BadInput(f"arm {arm}: sched_ext without a program", hint='sched_ext = { run = ["scx_lavd"] }')
    if service is not None and not _UNIT.fullmatch(service.name):
        raise BadInput(f"arm {arm}: {service.name!r} is not a unit of systemd", hint="for example irqbalance.service")
