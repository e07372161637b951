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
    """List the transactions in force, their time limits, unfinished ones and why, and damaged journals.

    `kept` are those that `ktrial keep` makes last; `applied` ones end with the next boot.
    """
    from ktrial.machine.transactions import Status, decode_reply
    from ktrial.tuning.lasting.kept_files import kept_transactions
    from ktrial.tuning.plans.transaction_text import status_text

    answer = app.root_session("reading the journal").request("status")
    found = decode_reply("status", answer, Status)
    kept = [one.transaction for one in kept_transactions(found)]
    write_answer(
        as_json,
        lambda: {"schema": "ktrial.status/1", **answer, "kept": kept},
        lambda width: status_text(found, width=width),
    )
