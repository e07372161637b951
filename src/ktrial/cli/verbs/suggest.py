# SPDX-License-Identifier: Apache-2.0
"""`ktrial suggest`: list settings worth a try on this machine."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.completion import goal_names
from ktrial.cli.options import json_option, write_json


@click.command(short_help="List settings worth a try here, by goal.")
@click.option(
    "--goal",
    "name",
    shell_complete=goal_names,
    metavar="GOAL",
    help="Goal to suggest for: gaming, latency, throughput, battery, quiet, or your own.  [all]",
)
@json_option
@click.pass_obj
def command(app: App, name: str | None, as_json: bool) -> None:
    """List settings worth a try on this machine, for one goal (such as gaming) or for all.

    Each goal names settings and profiles; ktrial leaves out what would change nothing here. For each setting, ktrial
    shows the price, the evidence for and against the setting, and a command that tests it. ktrial applies nothing.
    """
    from ktrial.cli.shared.ledger import kept_ledger
    from ktrial.cli.shared.others import verdicts_elsewhere
    from ktrial.kit.errors import UnknownName
    from ktrial.kit.tables import columns
    from ktrial.studies.suggest import candidates_of, is_of, tried_here
    from ktrial.studies.suggest_text import suggestions_text

    goals = app.goals
    if name is not None and name not in goals:
        raise UnknownName("goal", name, goals, hint=f"use one of: {', '.join(goals)}")
    chosen = list(goals.values()) if name is None else [goals[name]]
    machine = app.best_session("reading all values")
    found = candidates_of(chosen, machine, app.catalog)
    ledger = kept_ledger(app)
    entries = ledger.entries if ledger is not None else ()
    others = verdicts_elsewhere(app, machine)
    rows = [
        (one, tried_here(one, entries), [verdict for verdict in others if is_of(one, verdict.entry)])
        for one in found.candidates
    ]
    if as_json:
        documents = [
            {"candidate": one, "try": one.try_line, "here": entry, "elsewhere": elsewhere}
            for one, entry, elsewhere in rows
        ]
        write_json(
            {
                "schema": "ktrial.suggestions/1",
                "candidates": documents,
                "not_here": found.not_here,
                "inert": found.inert,
            }
        )
    else:
        sys.stdout.write(suggestions_text(rows, app.catalog.sources, found.not_here, found.inert, width=columns()))
