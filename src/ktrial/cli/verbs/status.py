# SPDX-License-Identifier: Apache-2.0
"""`ktrial status`: what ktrial changed on this machine."""

from __future__ import annotations

import sys

import click

from ktrial.cli.options import json_option, write_json
from ktrial.cli.wiring import App


@click.command(short_help="List what ktrial changed on this machine.")
@json_option
@click.pass_obj
def command(app: App, as_json: bool) -> None:
    """List the transactions in force, their leases, what is unfinished and why, and damaged journals."""
    from ktrial.report.terminal import columns
    from ktrial.report.transaction import status_text

    answer = app.root_session("reading the journal").request("status")
    if as_json:
        write_json({"schema": "ktrial.status/1", **answer})
    else:
        sys.stdout.write(status_text(answer, width=columns()))
