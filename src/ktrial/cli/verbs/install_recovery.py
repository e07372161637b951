# SPDX-License-Identifier: Apache-2.0
"""`ktrial install-recovery`: install a systemd unit that recovers early at every boot."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="Install a unit that undoes interrupted changes at boot.")
@click.option("--remove", is_flag=True, help="Remove the unit and the copy of the agent.")
@json_option
@click.pass_obj
def command(app: App, remove: bool, as_json: bool) -> None:
    """Install a systemd unit that undoes interrupted changes early at every boot.

    The unit runs a copy of the agent, ktrial's helper program. ktrial installs this copy too; root owns it. The unit
    restores values and files. `ktrial recover` also undoes the commands of a trial that was killed.
    """
    purpose = "removing the recovery unit" if remove else "installing the recovery unit"
    answer = app.root_session(purpose).request("recovery", install=not remove)
    if as_json:
        write_json({"schema": "ktrial.recovery/1", **answer})
        return
    verb = "removed" if remove else "installed"
    sys.stdout.write("".join(f"{verb}: {path}\n" for path in answer["files"]) or "nothing to remove\n")
