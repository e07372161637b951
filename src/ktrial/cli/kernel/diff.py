# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel diff`: show how two built kernels differ."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, seconds, write_answer

_MEMORY_BYTES = 1 << 30


@click.command(short_help="Show how two built kernels differ.")
@click.argument("before")
@click.argument("after")
@click.option(
    "--boot", "boots", is_flag=True, help="Also boot both kernels in guests and compare their default sysctls."
)
@click.option(
    "--limit", default="120s", show_default=True, metavar="TIME", help="With --boot: time limit of each guest."
)
@json_option
@click.pass_obj
def command(app: App, before: str, after: str, boots: bool, limit: str, as_json: bool) -> None:
    """Show how two kernels differ: version, compiler, other properties, and the symbols of their configurations.

    Name kernels as for `ktrial kernel inspect`. Among the symbols, - means that a configuration lacks the symbol,
    and n that the symbol is off.
    """
    from ktrial.kernels.images.images import read_kernel
    from ktrial.kernels.images.text import diff_json, diff_text
    from ktrial.tuning.origin.formats.sysctl_d import sysctl_differences

    limit_s = seconds(limit, "--limit")
    first, second = read_kernel(app.kernels.images, before), read_kernel(app.kernels.images, after)
    sysctls = sysctl_differences(*(_sysctls(app, word, limit_s) for word in (before, after))) if boots else None
    write_answer(
        as_json, lambda: diff_json(first, second, sysctls), lambda width: diff_text(first, second, sysctls, width=width)
    )


def _sysctls(app: App, word: str, limit_s: float) -> dict[str, str]:
    from ktrial.bench.guest_tools import GuestFailed, Job, Shape
    from ktrial.guests.boot import BootLimits
    from ktrial.guests.programs import bring_for
    from ktrial.guests.text import failure_text
    from ktrial.tuning.origin.formats.sysctl_d import read_sysctl_values

    kernel = app.kernels.images.find(word)
    guests = app.kernels.guests_for(kernel)
    guest_files, program = bring_for(("grep", "-rs", "", "/proc/sys"), (), guests.architecture)
    shape = Shape(mode="emulated", memory_bytes=_MEMORY_BYTES, cpus=2)
    job = Job(programs=(program,) if program is not None else ())
    run = guests.boot(kernel, job, guest_files, shape, BootLimits(limit_s))
    if run.failure is not None:
        raise GuestFailed(f"{word}: {failure_text(run)}", run.exit_status)
    return read_sysctl_values(run.stdout)
