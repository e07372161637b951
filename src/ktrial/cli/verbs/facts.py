# SPDX-License-Identifier: Apache-2.0
"""`ktrial facts`: what this machine is."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json
from ktrial.kit.errors import UnknownName


@click.command(short_help="Show what this machine is.")
@click.argument("prefix", nargs=-1)
@json_option
@click.pass_obj
def command(app: App, prefix: tuple[str, ...], as_json: bool) -> None:
    """Show facts whose names begin with PREFIX, or all: each has a value, is absent, or could not be determined."""
    from ktrial.kit.tables import columns
    from ktrial.machine.facts_text import facts_json, facts_text

    machine = app.best_session("reading facts")
    facts = machine.facts(prefix)
    for name in prefix:
        if not any(f"{fact}.".startswith(f"{name}.") for fact in facts):
            known = [kind.name for kind in app.catalog.kinds.values() if kind.of is None]
            raise UnknownName("fact", name, known, hint="`ktrial facts` shows all")
    if as_json:
        write_json(facts_json(facts))
    else:
        sys.stdout.write(facts_text(facts, width=columns()))
