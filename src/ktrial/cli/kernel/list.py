# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel list`: the kernels installed and built here."""

from __future__ import annotations

import os
import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="List the kernels installed and built here.")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> None:
    """List the kernels installed here, which one runs, and those that `kernel build` made."""
    from ktrial.kernels.build.text import built_table
    from ktrial.kernels.images.text import list_json, list_text
    from ktrial.kit.tables import columns

    running = os.uname().release
    kernels = {name: str(path) for name, path in app.kernels.images.installed().items()}
    built = app.kernels.built.all()
    if as_json:
        write_json({**list_json(kernels, running), "built": built})
    else:
        sys.stdout.write(list_text(kernels, running, width=columns()))
        if built:
            sys.stdout.write(f"\n{built_table(built, width=columns())}\n")
