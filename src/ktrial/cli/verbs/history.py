# SPDX-License-Identifier: Apache-2.0
"""`ktrial history`: an outcome over the sessions of the store."""

from __future__ import annotations

import sys
from typing import Any

import click

from ktrial.cli.options import json_option, write_json
from ktrial.cli.wiring import App


@click.command(short_help="Show an outcome over time, and where its level changed.")
@click.argument("outcome", metavar="OUTCOME")
@click.option("--label", metavar="NAME", help="Only sessions with this label.")
@click.option("--by", type=click.Choice(["session", "kernel"]), default="session", help="What makes one value.")
@json_option
@click.pass_obj
def command(app: App, outcome: str, label: str | None, by: Any, as_json: bool) -> int:
    """Show the median of OUTCOME in each session, the oldest first, and where its level changed for good.

    \b
    ktrial history wakeup.p99 --label nightly
    ktrial history p99 --by kernel

    Each change comes with its effect, and with what is known to differ between the sessions beside it.
    """
    from ktrial.report.history import history_text
    from ktrial.report.terminal import columns
    from ktrial.services.history import history

    found = history(outcome, app.store, label=label, by=by)
    if as_json:
        write_json(found)
    else:
        sys.stdout.write(history_text(found, width=columns()))
    return 0
