# SPDX-License-Identifier: Apache-2.0
"""`ktrial install-recovery`: a unit that recovers early at every boot."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="Recover automatically at every boot.")
@click.option("--remove", is_flag=True, help="Remove both.")
@json_option
@click.pass_obj
def command(app: App, remove: bool, as_json: bool) -> None:
    """Install a root-owned copy of the agent and an early systemd unit, or remove them."""
    purpose = "taking the recovery unit away" if remove else "installing the recovery unit"
    answer = app.root_session(purpose).request("recovery", install=not remove)
    if as_json:
        write_json({"schema": "ktrial.recovery/1", **answer})
        return
    verb = "taken away" if remove else "in place"
    sys.stdout.write("".join(f"{verb}: {path}\n" for path in answer["files"]) or "nothing to take away\n")
