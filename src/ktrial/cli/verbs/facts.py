# SPDX-License-Identifier: Apache-2.0
"""`ktrial facts`: show facts about this machine's hardware and kernel."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer
from ktrial.kit.errors import UnknownName


@click.command(short_help="Show facts about this machine.")
@click.argument("prefix", nargs=-1, metavar="[NAME…]")
@json_option
@click.pass_obj
def command(app: App, prefix: tuple[str, ...], as_json: bool) -> None:
    """Show facts about this machine: all, groups such as cpu, or single facts such as cpu.model.

    A fact has a value, is absent, or is unknown because ktrial cannot read it.
    """
    from ktrial.machine.facts_text import facts_json, facts_text

    machine = app.best_session("reading facts")
    facts = machine.facts(prefix)
    for name in prefix:
        if not any(f"{fact}.".startswith(f"{name}.") for fact in facts):
            known = [kind.name for kind in app.catalog.kinds.values() if kind.of is None]
            raise UnknownName("fact", name, known, hint="run `ktrial facts` to list all facts")
    write_answer(as_json, lambda: facts_json(facts), lambda width: facts_text(facts, width=width))
