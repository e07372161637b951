# SPDX-License-Identifier: Apache-2.0
"""`ktrial verify`: check that applied settings are still in force, here or in the log of a phone."""

from __future__ import annotations

from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer
from ktrial.kit.errors import BadInput

_LOG_LIMIT_BYTES = 4 << 20


@click.command(short_help="Check that applied settings are still in force.")
@click.argument("what", required=False, metavar="[TRANSACTION|LOG]")
@json_option
@click.pass_obj
def command(app: App, what: str | None, as_json: bool) -> int:
    """Read back all applied settings, or those of one transaction. The exit status is 3 if a setting has changed.

    \b
    ktrial verify
    ktrial verify 3
    ktrial verify module.log      # copied from a phone: /data/adb/ktrial/MODULE/log

    LOG is the log of a module for phones (`ktrial export --to magisk`). With LOG, ktrial shows which settings took
    effect; the exit status is 3 if a setting is not in force since the last boot.
    """
    from ktrial.machine.transactions import VerifyReply, decode_reply
    from ktrial.tuning.plans.transaction_text import verify_text

    if what is not None and not what.isdecimal():
        return _of_phone(Path(what), as_json=as_json)
    root = app.root_session("reading back what was applied")
    answer = root.request("verify", **({} if what is None else {"transaction": int(what)}))
    verified = decode_reply("verify", answer, VerifyReply).transactions
    write_answer(
        as_json, lambda: {"schema": "ktrial.verified/1", **answer}, lambda width: verify_text(verified, width=width)
    )
    drifted = any(step.outcome != "in-force" for one in verified for step in one.steps)
    return 3 if drifted else 0


def _of_phone(path: Path, *, as_json: bool) -> int:
    from ktrial.kit.files import read_file
    from ktrial.tuning.exports.phone.log import log_text, parse_log

    if not path.exists():
        raise BadInput(
            f"{path}: neither a transaction nor a file",
            hint="use a transaction of `ktrial status`, or check the path of the log",
        )
    boots = parse_log(read_file(path, _LOG_LIMIT_BYTES).decode("utf-8", "replace"), str(path))
    write_answer(
        as_json,
        lambda: {"schema": "ktrial.module-log/1", "boots": boots},
        lambda width: log_text(boots, width=width),
    )
    return 0 if boots[-1].in_force else 3
