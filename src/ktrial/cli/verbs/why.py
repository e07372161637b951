# SPDX-License-Identifier: Apache-2.0
"""`ktrial why`: show who set a knob."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.completion import knob_names
from ktrial.cli.options import json_option, write_answer


@click.command(short_help="Show who set a sysctl or another knob.")
@click.argument("knobs", shell_complete=knob_names, nargs=-1, required=True, metavar="KNOB|PATH…")
@json_option
@click.pass_obj
def command(app: App, knobs: tuple[str, ...], as_json: bool) -> None:
    """Show who set a knob: a file and line (and what it overrides), a daemon, ktrial itself, or nobody.

    KNOB may be any sysctl, and PATH any such file below /proc/sys or /sys, even if the catalog lacks it.

    `ktrial doctor` lists every knob that differs from the kernel's default.
    """
    from ktrial.cli.shared.origins import origins_of
    from ktrial.tuning.origin.why_text import origins_json, origins_text

    found, untold = origins_of(app, knobs)
    write_answer(
        as_json,
        lambda: origins_json(found, untold),
        lambda width: origins_text(found, untold, width=width),
    )
