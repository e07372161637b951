# SPDX-License-Identifier: Apache-2.0
"""`ktrial revert`: restore the values from before a transaction."""

from __future__ import annotations

from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer
from ktrial.kit.errors import BadInput


@click.command(short_help="Undo the last change (`apply`, `keep`), or all changes.")
@click.option("--to", "to", type=int, metavar="N", help="Undo every transaction newer than N.")
@click.option("--all", "all_", is_flag=True, help="Undo every transaction.")
@click.option("--only", type=int, metavar="N", help="Undo only transaction N; values of newer transactions stay.")
@click.option("--force", is_flag=True, help="Also restore values that another program has changed since.")
@json_option
@click.pass_obj
def command(app: App, to: int | None, all_: bool, only: int | None, force: bool, as_json: bool) -> int:
    """Undo the newest transaction (what one `ktrial apply` or `ktrial keep` changed), or several.

    \b
    ktrial revert
    ktrial revert --all
    ktrial revert --to 3

    If another program has changed a value since, ktrial leaves the value alone and the exit status is 1. `ktrial
    status` lists these values until you restore them, for example with --force. After a crash, run `ktrial recover`
    first.
    """
    from ktrial.machine.transactions import RevertReply, decode_reply, is_open, left_alone, status
    from ktrial.tuning.plans.transaction_text import has_left_some, revert_text

    if [to is not None, all_, only is not None].count(True) > 1:
        raise BadInput("cannot combine --to, --all and --only", hint="use only one of these options")
    select: Any = {"to": to} if to is not None else {"only": only} if only is not None else "all" if all_ else "newest"
    session = app.root_session("reverting")
    answer = session.request("revert", select=select, force=force)
    done = decode_reply("revert", answer, RevertReply).transactions
    write_answer(
        as_json, lambda: {"schema": "ktrial.reverted/1", **answer}, lambda width: revert_text(done, width=width)
    )
    left = [] if done else [left_alone(one) for one in status(session).transactions if one.left_alone]
    for sentence in left:
        app.say(sentence)
    return int(is_open(done) or has_left_some(done) or bool(left))
