# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel uarch list`: what a kernel can be compiled for."""

from __future__ import annotations

import sys

import click

from ktrial.cli.options import json_option, write_json
from ktrial.cli.wiring import App


@click.command(short_help="What a kernel can be compiled for, and what is accepted here.")
@click.option("--cc", "names", multiple=True, metavar="PROGRAM", help="Ask this compiler; may be given again.")
@json_option
@click.pass_obj
def command(app: App, names: tuple[str, ...], as_json: bool) -> None:
    """List the targets: -march, Kconfig symbol, the first compilers with it, and which of those here accept it."""
    from ktrial.catalog.targets import load_targets
    from ktrial.report.kernel_targets import targets_json, targets_text
    from ktrial.report.terminal import columns

    targets, compilers, rustc = load_targets(), app.kernels.compilers.find(names), app.kernels.compilers.rustc()
    if as_json:
        write_json(targets_json(targets, compilers, rustc))
    else:
        sys.stdout.write(targets_text(targets, compilers, rustc, width=columns()))
