# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel inspect`: show the properties of a built kernel."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="Show the properties of a built kernel.")
@click.argument("kernel")
@click.option("--config", "with_config", is_flag=True, help="Print only the configuration.")
@json_option
@click.pass_obj
def command(app: App, kernel: str, with_config: bool, as_json: bool) -> None:
    """Show KERNEL's version, compiler, LTO, BTF, HZ, preemption, scheduler and build id.

    KERNEL is `running`, an installed version, an image, a package, or a folder with one kernel. ktrial finds the
    configuration inside the kernel, beside it, in its package or tree, or in /proc. ktrial takes -march and -O from a
    compile command in the build folder.
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
        raise KtrialError(f"{kernel}: no configuration in the kernel or beside it", hint="name the build folder")
    elif with_config:
        sys.stdout.write("".join(f"{name}={value}\n" for name, value in (found.symbols or {}).items()))
    else:
        sys.stdout.write(inspect_text(found, flags, width=columns()))
