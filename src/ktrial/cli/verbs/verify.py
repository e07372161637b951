# SPDX-License-Identifier: Apache-2.0
"""`ktrial verify`: check that applied settings are still in force."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer


@click.command(short_help="Check that settings of `apply` are still in force.")
@click.argument("transaction", type=int, required=False)
@json_option
@click.pass_obj
def command(app: App, transaction: int | None, as_json: bool) -> int:
    """Read back all applied settings, or those of one transaction. The exit status is 3 if one has changed."""
    from ktrial.machine.transactions import VerifyReply, decode_reply
    from ktrial.tuning.plans.transaction_text import verify_text

    root = app.root_session("reading back what was applied")
    answer = root.request("verify", **({} if transaction is None else {"transaction": transaction}))
    verified = decode_reply("verify", answer, VerifyReply).transactions
    write_answer(
        as_json, lambda: {"schema": "ktrial.verified/1", **answer}, lambda width: verify_text(verified, width=width)
    )
    drifted = any(step.outcome != "in-force" for one in verified for step in one.steps)
    return 3 if drifted else 0
