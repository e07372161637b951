# SPDX-License-Identifier: Apache-2.0
"""`ktrial runs`: list the stored sessions."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="List what was measured or imported.")
@click.option("--label", metavar="NAME", help="Show only sessions with this label.")
@click.option("--suite", metavar="NAME", help="Show only sessions of this suite.")
@json_option
@click.pass_obj
def command(app: App, label: str | None, suite: str | None, as_json: bool) -> int:
    """List the stored sessions (all runs of one measurement or import), the newest first."""
    from ktrial.kit.tables import columns
    from ktrial.results.text import sessions_text

    chosen = [
        one
        for one in app.store.sessions()
        if (label is None or one.label == label) and (suite is None or one.suite == suite)
    ]
    if as_json:
        write_json({"schema": "ktrial.sessions/1", "store": app.store.shown, "sessions": chosen})
    elif chosen:
        sys.stdout.write(sessions_text(chosen, width=columns()))
    else:
        which = f" with label {label}" if label else ""
        which += f" of suite {suite}" if suite else ""
        app.say(f"{app.store.shown} has no session{which}" if which else f"{app.store.shown} is empty")
    return 0
