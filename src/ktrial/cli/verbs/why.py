# SPDX-License-Identifier: Apache-2.0
"""`ktrial why`: show who set a knob."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.completion import knob_names
from ktrial.cli.options import json_option, seconds, write_answer


@click.command(short_help="Show who set a sysctl or another knob.")
@click.argument("knobs", shell_complete=knob_names, nargs=-1, required=True, metavar="KNOB|PATH…")
@click.option(
    "--watch", "watch_for", metavar="TIME", help="Read the values four times a second for TIME, and show the changes."
)
@json_option
@click.pass_obj
def command(app: App, knobs: tuple[str, ...], watch_for: str | None, as_json: bool) -> None:
    """Show who set a knob: a line of a file (and the lines that it overrides), a daemon, ktrial, or nobody.

    KNOB may be any sysctl, and PATH any file below /proc/sys or /sys, even one that `ktrial knobs` does not list.

    `ktrial doctor` lists the knobs that differ from a default that ktrial knows.

    No file shows that a service writes a value repeatedly. --watch 1m shows these changes.
    """
    from ktrial.cli.shared.origins import origins_of, watch_origins
    from ktrial.tuning.origin.changes import watched_json, watched_text
    from ktrial.tuning.origin.why_text import origins_json, origins_text

    for_s = None if watch_for is None else seconds(watch_for, "--watch")
    found, untold = origins_of(app, knobs)
    watched = None if for_s is None else watch_origins(app, found, for_s)
    write_answer(
        as_json,
        lambda: origins_json(found, untold) | ({} if watched is None else watched_json(watched)),
        lambda width: (
            origins_text(found, untold, width=width)
            + ("" if watched is None else "\n" + watched_text(watched, width=width))
        ),
    )
