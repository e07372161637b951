# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel inspect`: what a built kernel is."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="Show what a built kernel is.")
@click.argument("kernel")
@click.option("--config", "with_config", is_flag=True, help="Write only its configuration.")
@json_option
@click.pass_obj
def command(app: App, kernel: str, with_config: bool, as_json: bool) -> None:
    """Show what KERNEL is: version, compiler, LTO, BTF, HZ, preemption, scheduler, build id.

    KERNEL is `running`, an installed version, an image, a package, or a folder with one kernel. ktrial reads
    everything from the kernel itself and from its configuration: inside it, beside it, in its package or tree, or
    in /proc. It reads -march and -O in the build folder, from the command that compiled an object.
    """
    from ktrial.kernels.build.run_build import flags_of_image
    from ktrial.kernels.images.images import read_kernel
    from ktrial.kernels.images.text import inspect_json, inspect_text
    from ktrial.kit.errors import KtrialError
    from ktrial.kit.tables import columns

    found = read_kernel(app.kernels.images, kernel)
    flags = flags_of_image(found.place)
    if as_json:
        write_json(inspect_json(found, flags, with_config=with_config))
    elif with_config and found.symbols is None:
        raise KtrialError(f"{kernel}: its configuration is neither in it nor beside it")
    elif with_config:
        sys.stdout.write("".join(f"{name}={value}\n" for name, value in (found.symbols or {}).items()))
    else:
        sys.stdout.write(inspect_text(found, flags, width=columns()))
