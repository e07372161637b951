# SPDX-License-Identifier: Apache-2.0
"""`ktrial recover`: finish an interrupted apply or revert."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="Undo what an interrupted command or trial left behind.")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> int:
    """Restore the values that an interrupted command changed, for example after kill -9 or a power cut.

    ktrial also stops the kernel tracing of a killed command. Unless a measurement is running, ktrial runs the undo
    commands of a killed trial. The exit status is 1 if ktrial fails to restore a value.
    """
    from ktrial.cli.shared.arm_commands import recover_commands
    from ktrial.kit.tables import columns
    from ktrial.machine.transactions import RevertReply, decode_reply, is_open
    from ktrial.tuning.plans.transaction_text import revert_text

    undone = recover_commands(app)
    answer = app.root_session("recovering").request("recover")
    done = decode_reply("recover", answer, RevertReply)
    for name in done.traces:
        app.say(f"stopped the tracing of an agent that is gone: {name}")
    if as_json:
        write_json({"schema": "ktrial.reverted/1", **answer})
    elif done.transactions or not (undone or done.traces):
        sys.stdout.write(revert_text(done.transactions, width=columns()))
    return int(is_open(done.transactions))
