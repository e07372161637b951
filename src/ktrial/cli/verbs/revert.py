# SPDX-License-Identifier: Apache-2.0
"""`ktrial revert`: put back what was there."""

from __future__ import annotations

import sys
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json
from ktrial.kit.errors import BadInput


@click.command(short_help="Put back what was there before.")
@click.option("--to", "to", type=int, metavar="N", help="Undo every transaction newer than N.")
@click.option("--all", "all_", is_flag=True, help="Undo every transaction.")
@click.option(
    "--only", type=int, metavar="N", help="Undo only transaction N; refused if a newer one has the same knob."
)
@click.option("--force", is_flag=True, help="Also restore values that another program has changed since.")
@json_option
@click.pass_obj
def command(app: App, to: int | None, all_: bool, only: int | None, force: bool, as_json: bool) -> int:
    """Undo the newest transaction, those newer than N, or all.

    ktrial leaves a value alone that another program changed since, and then ends with status 1. `ktrial status`
    lists such values until they are restored; --force restores them too.
    """
    from ktrial.kit.tables import columns
    from ktrial.machine.transactions import RevertReply, decode_reply, is_open, left_alone, status
    from ktrial.tuning.plans.transaction_text import has_left_some, revert_text

    if [to is not None, all_, only is not None].count(True) > 1:
        raise BadInput("--to, --all and --only exclude each other")
    select: Any = {"to": to} if to is not None else {"only": only} if only is not None else "all" if all_ else "newest"
    session = app.root_session("reverting")
    answer = session.request("revert", select=select, force=force)
    done = decode_reply("revert", answer, RevertReply).transactions
    if as_json:
        write_json({"schema": "ktrial.reverted/1", **answer})
    else:
        sys.stdout.write(revert_text(done, width=columns()))
    left = [] if done else [left_alone(one) for one in status(session).transactions if one.left_alone]
    for sentence in left:
        app.say(sentence)
    return int(is_open(done) or has_left_some(done) or bool(left))
