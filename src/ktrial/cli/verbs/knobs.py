# SPDX-License-Identifier: Apache-2.0
"""`ktrial knobs`: list the knobs of the catalog."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json
from ktrial.kit.errors import BadInput, nearest


@click.command(short_help="List the settings (knobs) that ktrial knows.")
@click.argument("filter_", metavar="[FILTER]", required=False)
@json_option
@click.pass_obj
def command(app: App, filter_: str | None, as_json: bool) -> None:
    """List all knobs (settings that ktrial knows), or those whose name or description mentions FILTER."""
    from ktrial.kit.tables import columns, table

    needle = (filter_ or "").lower()
    chosen = [knob for knob in app.catalog.knobs.values() if needle in f"{knob.id} {knob.what}".lower()]
    if not chosen:
        near = nearest(filter_ or "", app.catalog.knobs)
        raise BadInput(
            f"no knob mentions {filter_!r}",
            hint=f"did you mean {' or '.join(near)}?" if near else "run `ktrial knobs` to list all knobs",
        )
    if as_json:
        import msgspec

        write_json({"schema": "ktrial.knobs/1", "knobs": [msgspec.to_builtins(knob) for knob in chosen]})
        return
    rows = [(knob.id, knob.kind, knob.risk, knob.what) for knob in chosen]
    sys.stdout.write(table(("knob", "kind", "risk", "what it does"), rows, width=columns()))
    sys.stdout.write(
        f"\n\n{len(chosen)} {'knob' if len(chosen) == 1 else 'knobs'}; `ktrial explain KNOB` shows details.\n"
    )
