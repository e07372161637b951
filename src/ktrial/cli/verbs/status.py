# SPDX-License-Identifier: Apache-2.0
"""`ktrial status`: list what ktrial has changed on this machine."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer


@click.command(short_help="List what ktrial changed on this machine.")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> None:
    """List the transactions in force, their time limits, unfinished ones and why, and damaged journals."""
    from ktrial.machine.transactions import Status, decode_reply
    from ktrial.tuning.plans.transaction_text import status_text

    answer = app.root_session("reading the journal").request("status")
    write_answer(
        as_json,
        lambda: {"schema": "ktrial.status/1", **answer},
        lambda width: status_text(decode_reply("status", answer, Status), width=width),
    )
