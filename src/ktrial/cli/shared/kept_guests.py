# SPDX-License-Identifier: Apache-2.0
"""Runs `ktrial kernel boot --keep`: a guest that other commands use until Ctrl-C or a time limit ends it.

Between commands an exact guest does not run: ktrial stores its conversation, and replays it at each boot.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ktrial.bench.guest_tools import STATUS_FAILED, GuestFailed, KeptProgram
from ktrial.cli.app_guest import boot_to_talk, keeper, tools_of
from ktrial.cli.exact_host import boot_with, place_of
from ktrial.cli.options import seconds
from ktrial.guests.kept_guest import check_name
from ktrial.guests.replay import Replay
from ktrial.guests.text import failure_text, kept_text
from ktrial.kernels.images.images import RUNNING
from ktrial.kit.errors import AgentError, BadInput
from ktrial.kit.tables import columns

if TYPE_CHECKING:
    from ktrial.agent.carrier import AgentCarrier, Ends
    from ktrial.bench.guest_tools import GuestStart, Mode, Shape
    from ktrial.cli.app import App


def check(app: App, name: str, program: tuple[str, ...], *, as_json: bool) -> None:
    """Raise BadInput for a name that a kept guest cannot have, or an argument that --keep excludes."""
    check_name(name)
    if name == RUNNING or name in app.kernels.images.installed():
        raise BadInput(f"--keep {name}: a kernel has this name", hint="choose another name, such as --keep lab")
    if program:
        raise BadInput("cannot combine --keep with PROGRAM", hint="leave out --keep or PROGRAM")
    if as_json:
        raise BadInput("cannot combine --keep with --json", hint="leave out --keep or --json")


def keep_guest(
    app: App,
    kernel: str,
    name: str,
    mode: Mode | None,
    shape: Shape,
    modules_and_tools: tuple[tuple[str, ...], tuple[str, ...]],
    limit: str | None,
) -> int:
    """Boot the guest and offer sessions with it until it ends.

    `modules_and_tools` holds the names of modules, and the names of tools.
    """
    limit_s = None if limit is None else seconds(limit, "--limit")
    boots = _boot_exact if mode == "exact" else _boot
    with keeper(name) as keeps:
        guest, begun, kept = boots(app, kernel, mode, shape, *modules_and_tools)
        try:
            for refused in begun.unloaded:
                app.say(f"the guest cannot load {refused}")
            sys.stdout.write(kept_text(name, begun, kept.mode, width=columns()))
            sys.stdout.flush()
            with app.interrupts:
                gone = keeps.serve(guest, kept, app.interrupts, limit_s)
        except KeyboardInterrupt:
            gone = None
        finally:
            guest.close()
    if gone is not None:
        raise GuestFailed(
            gone, STATUS_FAILED, "run the same command again to boot a new guest, without the settings of this one"
        )
    app.say(f"the guest {name} has ended, and its settings are gone")
    return 0


class _BootedGuest(NamedTuple):
    guest: AgentCarrier
    begun: GuestStart
    kept: KeptProgram


def _boot(
    app: App, kernel: str, mode: Mode | None, shape: Shape, modules: tuple[str, ...], tools: tuple[str, ...]
) -> _BootedGuest:
    guest, ran, places = boot_to_talk(app.kernels.lab, kernel, mode, shape, modules, tools, runs_programs=True)
    return _BootedGuest(
        guest, guest.begun, KeptProgram(kernel=kernel, release=guest.begun.release, mode=ran, tools=places)
    )


def _boot_exact(
    app: App, kernel: str, mode: Mode | None, shape: Shape, modules: tuple[str, ...], tools: tuple[str, ...]
) -> _BootedGuest:
    """Return an exact guest whose conversation is empty."""
    del mode
    lab = app.kernels.lab
    kernel = kernel_from_anywhere(kernel)
    programs = tools_of(lab, kernel, tuple(map(tool_from_anywhere, tools)), runs_programs=True)
    place = place_of(kernel, shape, programs, modules=modules, disk=lab.can_have_disk(kernel))
    run = Replay(lambda script: boot_with(lab, place, script, app.say)).booted()
    if run.begun is None or run.failure is not None:
        raise GuestFailed(failure_text(run), run.exit_status)
    kept = KeptProgram(kernel=kernel, release=run.begun.release, mode="exact", tools=lab.tools_in(place), place=place)
    return _BootedGuest(Asleep(), run.begun, kept)


def kernel_from_anywhere(word: str) -> str:
    """Return a word that names the same kernel from every folder."""
    return word if word == RUNNING or not Path(word).exists() else str(Path(word).absolute())


def tool_from_anywhere(word: str) -> str:
    """Return a word that names the same program from every folder.

    A name without a slash needs no change, because it is found in PATH.
    """
    return str(Path(word).absolute()) if "/" in word else word


class Asleep:
    """An exact guest between two answers: it does not run, so nothing can open a session in it."""

    def open(self, arguments: list[str], *, root: bool) -> Ends:
        """Raise AgentError, because only `--host exact:NAME` can use this guest."""
        del arguments, root
        raise AgentError("lost", "cannot open a session in an exact guest", hint="use --host exact:NAME")

    def kill(self, session: int) -> None: ...

    def why_gone(self) -> str | None:
        return None

    def close(self) -> None: ...
