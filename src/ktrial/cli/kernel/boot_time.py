# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel boot-time`: measure how long a kernel takes to boot, and which steps are slowest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, seconds, write_answer

if TYPE_CHECKING:
    from ktrial.bench.guest_tools import Mode

_MODES = ("kvm", "emulated", "exact")


@click.command(short_help="Measure how long a kernel takes to boot in a guest.")
@click.argument("kernel")
@click.option("--mode", type=click.Choice(_MODES), default="exact", show_default=True, help="How to run the guest.")
@click.option(
    "-n", "--runs", type=click.IntRange(1, 1000), default=1, show_default=True, metavar="N", help="Number of boots."
)
@click.option("--memory", default="512MiB", show_default=True, metavar="SIZE", help="Memory of the guest.")
@click.option("--append", multiple=True, metavar="ARGUMENTS", help="Kernel arguments to add. Repeatable.")
@click.option(
    "--top",
    type=click.IntRange(0, 10_000),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of slowest steps to show.",
)
@click.option("--limit", default="120s", show_default=True, metavar="TIME", help="Time limit of each boot.")
@json_option
@click.pass_obj
def command(
    app: App,
    kernel: str,
    mode: Mode,
    runs: int,
    memory: str,
    append: tuple[str, ...],
    top: int,
    limit: str,
    as_json: bool,
) -> None:
    """Measure the time until KERNEL starts its first process in a guest, and list the slowest steps.

    Name KERNEL as for `ktrial kernel boot`. Times come from the guest's clock. With --mode exact, this clock
    counts instructions. One more boot, with initcall_debug, measures the steps.
    """
    import msgspec

    from ktrial.bench.guest_tools import GuestPlace
    from ktrial.guests.boot_time import boot_time
    from ktrial.guests.text import boot_time_text
    from ktrial.trial.guests.model import shape_of
    from ktrial.trial.protocol.file import GuestFile

    shape = shape_of(GuestFile(mode=mode, memory=memory))
    words = tuple(word for text in append for word in text.split())
    place = GuestPlace(
        kernel=kernel, shape=msgspec.structs.replace(shape, append=words), limit_s=seconds(limit, "--limit")
    )
    app.say(f"booting the kernel {runs + 1} times, for at most {limit} each")
    found = boot_time(app.kernels.lab, place, runs)
    write_answer(
        as_json,
        lambda: msgspec.structs.replace(found, calls=found.calls[:top]),
        lambda width: boot_time_text(found, top, width=width),
    )
