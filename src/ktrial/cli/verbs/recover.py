# SPDX-License-Identifier: Apache-2.0
"""`ktrial recover`: finish what an interrupted apply or revert began."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="Finish what an interrupted apply or revert began.")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> int:
    """Restore the values that an interrupted command changed: after kill -9, a power cut or a lost agent.

    It also undoes arm commands that a killed trial left behind.
    """
    from ktrial.cli.shared.arm_commands import recover_commands
    from ktrial.kit.tables import columns
    from ktrial.machine.transactions import RevertReply, decode_reply, is_open
    from ktrial.tuning.plans.transaction_text import revert_text

    undone = recover_commands(app)
    answer = app.root_session("recovering").request("recover")
    done = decode_reply("recover", answer, RevertReply)
    for name in done.traces:
        app.say(f"ended the tracing of an agent that is gone: {name}")
    if as_json:
        write_json({"schema": "ktrial.reverted/1", **answer})
    elif done.transactions or not (undone or done.traces):
        sys.stdout.write(revert_text(done.transactions, width=columns()))
    return int(is_open(done.transactions))
