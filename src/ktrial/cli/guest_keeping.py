# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel boot --keep`: a guest that other commands use, until its terminal or a limit ends it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ktrial.cli.options import seconds
from ktrial.domain.errors import BadInput

if TYPE_CHECKING:
    from ktrial.cli.wiring import App
    from ktrial.domain.guest import Mode, Shape


def check(app: App, name: str, program: tuple[str, ...], mode: Mode | None, *, as_json: bool) -> None:
    """Refuse what a guest that is kept cannot have or be called."""
    from ktrial.host.kept_guest import check_name
    from ktrial.kernels.images import RUNNING

    check_name(name)
    if name == RUNNING or name in app.kernels.images.installed():
        raise BadInput(f"--keep {name}: this is the name of a kernel", hint="take another one: --keep lab")
    if program:
        raise BadInput("--keep keeps a guest for other commands; it runs no program", hint="leave one of them out")
    if as_json:
        raise BadInput("--json tells what a program did; a guest that is kept runs none", hint="leave one of them out")
    if mode == "exact":
        raise BadInput(
            "an exact guest holds no conversation: what is said to it, and when, would be part of it",
            hint="`ktrial --host exact:KERNEL VERB` boots one for each answer; `ktrial kernel trial` uses them too",
        )


def keep_guest(
    app: App,
    kernel: str,
    name: str,
    mode: Mode | None,
    shape: Shape,
    brought: tuple[tuple[str, ...], tuple[str, ...]],
    limit: str | None,
) -> int:
    """Boot it, and hand out sessions with it; `brought` are modules and tools."""
    from ktrial.cli.host_wiring import boot_to_talk, keeper
    from ktrial.domain.guest import STATUS_FAILED, GuestFailed, Kept
    from ktrial.report.guest import kept_text
    from ktrial.report.terminal import columns

    limit_s = None if limit is None else seconds(limit, "--limit")
    with keeper(name) as keeps:
        guest, ran, tools = boot_to_talk(app.kernels.lab, kernel, mode, shape, *brought, runs_programs=True)
        try:
            for refused in guest.begun.unloaded:
                app.say(f"the guest could not load {refused}")
            sys.stdout.write(kept_text(name, guest.begun, ran, width=columns()))
            sys.stdout.flush()
            with app.interrupts:
                kept = Kept(kernel=kernel, release=guest.begun.release, mode=ran, tools=tools)
                gone = keeps.serve(guest, kept, app.interrupts, limit_s)
        except KeyboardInterrupt:
            gone = None
        finally:
            guest.close()
    if gone is not None:
        raise GuestFailed(
            gone, STATUS_FAILED, "what was set in it has gone with it; the same command boots another one"
        )
    app.say(f"the guest {name} has ended, and all that was set in it with it")
    return 0
