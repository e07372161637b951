# SPDX-License-Identifier: Apache-2.0
"""`ktrial verify`: whether what was applied still holds."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="Check that what was applied is still in force.")
@click.argument("transaction", type=int, required=False)
@json_option
@click.pass_obj
def command(app: App, transaction: int | None, as_json: bool) -> int:
    """Read back every applied setting. Exit status 3 if one no longer holds."""
    from ktrial.kit.tables import columns
    from ktrial.machine.transactions import VerifyReply, decode_reply
    from ktrial.tuning.plans.transaction_text import verify_text

    root = app.root_session("reading back what was applied")
    answer = root.request("verify", **({} if transaction is None else {"transaction": transaction}))
    verified = decode_reply("verify", answer, VerifyReply).transactions
    if as_json:
        write_json({"schema": "ktrial.verified/1", **answer})
    else:
        sys.stdout.write(verify_text(verified, width=columns()))
    drifted = any(step.outcome != "in-force" for one in verified for step in one.steps)
    return 3 if drifted else 0
