# SPDX-License-Identifier: Apache-2.0
"""`ktrial confirm`: keep what was applied for a limited time."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.app_guest import again


@click.command(short_help="Keep a transaction that would revert by itself.")
@click.argument("transaction", type=int)
@click.pass_obj
def command(app: App, transaction: int) -> None:
    """Turn the lease of transaction N into `keep`: it stays until reverted or reboot."""
    app.root_session(f"confirming transaction {transaction}").request("confirm", transaction=transaction)
    app.say(f"transaction {transaction} is kept; `{again(app.host)} revert` undoes it")
