# SPDX-License-Identifier: Apache-2.0
"""`ktrial ledger`: list everything that was tried on this machine."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.completion import knob_names
from ktrial.cli.options import json_option, write_json
from ktrial.kit.errors import Contradiction


@click.command(short_help="List everything that was tried here.")
@click.argument("knob", required=False, shell_complete=knob_names, metavar="[KNOB]")
@click.option("--markdown", is_flag=True, help="Write Markdown to stdout.")
@json_option
@click.pass_obj
def command(app: App, knob: str | None, markdown: bool, as_json: bool) -> None:
    """List every setting that was tried here, or the trials of one knob: verdict, date, and whether it is in force.

    A later trial of the same settings supersedes or refutes an earlier one; both stay in the list.
    """
    from ktrial.cli.shared.ledger import ledger_of
    from ktrial.kit.tables import columns
    from ktrial.studies.ledger.ledger_now import now_of
    from ktrial.studies.ledger.model import changed_since, of_knob, standing
    from ktrial.studies.ledger.text import ledger_markdown, ledger_text

    if markdown and as_json:
        raise Contradiction("cannot combine --markdown with --json", hint="leave out one of them")
    entries = ledger_of(app).entries
    if knob is not None:
        entries = of_knob(entries, knob)
    now = now_of(app.user_session, entries, app.catalog.knobs)
    if as_json:
        documents = [
            {"entry": one, "standing": standing(one, now), "changed_since": changed_since(one, now)} for one in entries
        ]
        write_json({"schema": "ktrial.ledger-now/1", "now": now, "entries": documents})
    elif markdown:
        sys.stdout.write(ledger_markdown(entries, now))
    else:
        sys.stdout.write(ledger_text(entries, now, width=columns()))
