# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel boot`: boot a kernel in a guest and run one program there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, seconds, write_json

if TYPE_CHECKING:
    from ktrial.bench.guest_tools import GuestRun, Mode, Shape
    from ktrial.guests.agreement import BootResult

_MODES = ("kvm", "emulated", "exact")
_MOST_CPUS = 64
_LIMIT = "60s"


@click.command(short_help="Boot a kernel in a guest and run a program there.")
@click.argument("kernel")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM ARGUMENT…]")
@click.option(
    "--tool", "tools", multiple=True, metavar="NAME|PATH", help="Extra program to put into the guest. Repeatable."
)
@click.option("--module", "modules", multiple=True, metavar="NAME", help="Kernel module to load first. Repeatable.")
@click.option("--memory", default="1GiB", show_default=True, metavar="SIZE", help="Memory of the guest.")
@click.option(
    "--cpus", type=click.IntRange(1, _MOST_CPUS), metavar="N", help="Number of CPUs of the guest.  [2; 1 if exact]"
)
@click.option("--append", multiple=True, metavar="ARGUMENTS", help="Kernel arguments to add. Repeatable.")
@click.option("--mode", type=click.Choice(_MODES), help="How to run the guest.  [kvm if it works, otherwise emulated]")
@click.option(
    "--keep",
    metavar="NAME",
    help="Leave the guest running as NAME, for `ktrial --host guest:NAME …` (exact:NAME with --mode exact).",
)
@click.option("--limit", metavar="TIME", help="Time limit of the guest.  [60s; none with --keep]")
@json_option
@click.pass_obj
def command(
    app: App,
    kernel: str,
    program: tuple[str, ...],
    tools: tuple[str, ...],
    modules: tuple[str, ...],
    memory: str,
    cpus: int | None,
    append: tuple[str, ...],
    mode: Mode | None,
    keep: str | None,
    limit: str | None,
    as_json: bool,
) -> int:
    """Boot KERNEL in a virtual machine that contains only PROGRAM, the tools that you name, and their libraries.

    \b
    ktrial kernel boot running
    ktrial kernel boot linux-image-6.12.117+deb12-amd64.deb -- hackbench -l 100
    ktrial kernel boot ./bzImage --mode exact -- cyclictest -l 1000 -q
    ktrial kernel boot running --keep lab           # then: ktrial --host guest:lab COMMAND

    KERNEL is `running`, an installed version, an image, a package (.deb, .rpm, .pkg.tar), or a folder with one
    kernel. The guest has no network. With --mode exact, its clock counts instructions, and ktrial boots it twice to
    check that the outputs are identical. With --keep, the guest boots once and waits for commands until --limit.

    The exit status is PROGRAM's own, or 128 plus the number of the signal that killed PROGRAM. Without --keep, the
    status is 124 after --limit, 125 if the guest failed, and 126 or 127 if the guest cannot start PROGRAM.
    """
    from ktrial.bench.guest_tools import GuestFailed, Job
    from ktrial.cli.shared.kept_guests import check, keep_guest
    from ktrial.guests.agreement import boot_in, settle_s
    from ktrial.guests.boot import BootLimits
    from ktrial.guests.modules import take_modules
    from ktrial.guests.programs import bring_for
    from ktrial.guests.shape import guest_shape
    from ktrial.guests.text import failure_text, guest_json

    shape = guest_shape(memory, cpus, append, mode)
    if keep is not None:
        check(app, keep, program, as_json=as_json)
        return keep_guest(app, kernel, keep, mode, shape, (modules, tools), limit)
    found = app.kernels.images.find(kernel)
    guests = app.kernels.guests_for(found)
    guest_files, started = bring_for(program, tools, guests.architecture)
    loaded = take_modules(modules, found.image_path)
    guest_files.files.update(loaded)
    job = Job(programs=() if started is None else (started,), modules=tuple(loaded), settle_s=settle_s(mode))

    def boot(shape: Shape, limit_s: float, begin_limit_s: float | None = None) -> GuestRun:
        return guests.boot(found, job, guest_files, shape, BootLimits(limit_s, begin_limit_s))

    booted = boot_in(mode, shape, seconds(limit or _LIMIT, "--limit"), boot, guests)
    if as_json:
        write_json(guest_json(booted, found.image_path, started, tuple(guest_files.tools)))
    else:
        _write(app, booted, found.image_path, alone=started is None)
    if booted.run.failure is not None:
        raise GuestFailed(failure_text(booted.run), booted.run.exit_status)
    return booted.run.exit_status


def _write(app: App, booted: BootResult, image: str, *, alone: bool) -> None:
    """Write the program's output unchanged, and report on the guest."""
    from ktrial.bench.guest_tools import EXACT_CLOCK, ODD_BOOT
    from ktrial.guests.text import guest_text
    from ktrial.kit.streams import pass_on
    from ktrial.kit.tables import columns

    run = booted.run
    if booted.no_kvm is not None:
        app.say(f"{booted.no_kvm}; the guest is emulated")
    if booted.odd is not None:
        app.say(f"{ODD_BOOT}: {booted.odd}")
    if booted.twin_sha256 is not None:
        app.say(f"two runs are identical to the last byte: SHA-256 {booted.twin_sha256}")
        app.say(EXACT_CLOCK)
    if alone and run.failure is None:
        sys.stdout.write(guest_text(run, image, width=columns()))
    for refused in run.begun.unloaded if run.begun is not None else ():
        app.say(f"the guest cannot load {refused}")
    pass_on(sys.stdout, run.stdout)
    pass_on(sys.stderr, run.stderr)
