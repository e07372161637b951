# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel diff`: in what two built kernels differ."""

from __future__ import annotations

import sys

import click

from ktrial.cli.options import json_option, write_json
from ktrial.cli.wiring import App


@click.command(short_help="Show in what two built kernels differ.")
@click.argument("before")
@click.argument("after")
@json_option
@click.pass_obj
def command(app: App, before: str, after: str, as_json: bool) -> None:
    """Show in what two kernels differ: what they are, and every symbol of their configurations.

    Each is named as for `ktrial kernel inspect`. A symbol that a configuration does not know is shown as -, one that is
    off as n.
    """
    from ktrial.kernels.images import read_kernel
    from ktrial.report.kernel_identity import diff_json, diff_text
    from ktrial.report.terminal import columns

    first, second = read_kernel(app.images, before), read_kernel(app.images, after)
    if as_json:
        write_json(diff_json(first, second))
    else:
        sys.stdout.write(diff_text(first, second, width=columns()))
