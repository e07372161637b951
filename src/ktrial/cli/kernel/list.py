# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel list`: list the kernels installed and built here."""

from __future__ import annotations

import os

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer


@click.command(short_help="List the kernels installed and built here.")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> None:
    """List the installed kernels and those that `ktrial kernel build` made, and mark the running kernel."""
    from ktrial.kernels.build.text import built_table
    from ktrial.kernels.images.text import list_json, list_text

    running = os.uname().release
    kernels = {name: str(path) for name, path in app.kernels.images.installed().items()}
    built = app.kernels.built.all()

    def text(width: int) -> str:
        installed = list_text(kernels, running, width=width)
        return f"{installed}\n{built_table(built, width=width)}\n" if built else installed

    write_answer(as_json, lambda: {**list_json(kernels, running), "built": built}, text)
