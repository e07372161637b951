# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel diff`: in what two built kernels differ."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, seconds, write_json

_MEMORY_BYTES = 1 << 30


@click.command(short_help="Show in what two built kernels differ.")
@click.argument("before")
@click.argument("after")
@click.option("--boot", "boots", is_flag=True, help="Also boot both in guests and compare their default sysctls.")
@click.option("--limit", default="120s", show_default=True, metavar="TIME", help="Time limit of each guest.")
@json_option
@click.pass_obj
def command(app: App, before: str, after: str, boots: bool, limit: str, as_json: bool) -> None:
    """Show how two kernels differ: what they are, and every symbol of their configurations.

    Name kernels as for `ktrial kernel inspect`. A symbol that a configuration does not have is shown as -, one that
    is off as n.
    """
    from ktrial.kernels.images.images import read_kernel
    from ktrial.kernels.images.text import diff_json, diff_text
    from ktrial.kit.tables import columns
    from ktrial.tuning.origin.formats.sysctl_d import sysctl_differences

    limit_s = seconds(limit, "--limit")
    first, second = read_kernel(app.kernels.images, before), read_kernel(app.kernels.images, after)
    sysctls = sysctl_differences(*(_sysctls(app, word, limit_s) for word in (before, after))) if boots else None
    if as_json:
        write_json(diff_json(first, second, sysctls))
    else:
        sys.stdout.write(diff_text(first, second, sysctls, width=columns()))


def _sysctls(app: App, word: str, limit_s: float) -> dict[str, str]:
    """Return what the sysctls of a kernel are when nobody has touched them."""
    from ktrial.bench.guest_tools import GuestFailed, Job, Shape
    from ktrial.guests.boot import BootLimits
    from ktrial.guests.programs import bring_for
    from ktrial.guests.text import failure_text
    from ktrial.tuning.origin.formats.sysctl_d import read_sysctl_values

    kernel = app.kernels.images.find(word)
    guests = app.kernels.guests_for(kernel)
    brought, program = bring_for(("grep", "-rs", "", "/proc/sys"), (), guests.architecture)
    shape = Shape(mode="emulated", memory_bytes=_MEMORY_BYTES, cpus=2)
    job = Job(programs=(program,) if program is not None else ())
    run = guests.boot(kernel, job, brought, shape, BootLimits(limit_s))
    if run.failure is not None:
        raise GuestFailed(f"{word}: {failure_text(run)}", run.exit_status)
    return read_sysctl_values(run.stdout)
