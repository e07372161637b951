# SPDX-License-Identifier: Apache-2.0
"""`ktrial confirm`: keep a transaction that would revert after a time limit."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.hosts import again


@click.command(short_help="Keep a transaction that has a time limit.")
@click.argument("transaction", type=int)
@click.pass_obj
def command(app: App, transaction: int) -> None:
    """Keep a transaction of `apply --for` or `apply --confirm` until you revert it or reboot.

    TRANSACTION is the number that `apply` printed; `ktrial status` also shows it.
    """
    app.root_session(f"confirming transaction {transaction}").request("confirm", transaction=transaction)
    app.say(f"transaction {transaction} stays; undo it with `{again(app.host)} revert --only {transaction}`")
