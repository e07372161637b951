# SPDX-License-Identifier: Apache-2.0
"""`ktrial why`: who set a knob."""

from __future__ import annotations

import sys

import click

from ktrial.cli.options import json_option, write_json
from ktrial.cli.wiring import App


@click.command(short_help="Say who set a knob.")
@click.argument("knobs", nargs=-1, required=True, metavar="KNOB…")
@json_option
@click.pass_obj
def command(app: App, knobs: tuple[str, ...], as_json: bool) -> None:
    """Say who set a knob: the file and line that won and what it overrode, a daemon, ktrial itself, or nobody."""
    from ktrial.domain.address import parse_address, selects
    from ktrial.domain.plan import find_knob
    from ktrial.report.provenance import origins_json, origins_text
    from ktrial.report.terminal import columns
    from ktrial.services.claims import gather
    from ktrial.services.provenance import origins

    wanted = [(parse_address(name), find_knob(name, app.catalog.knobs)) for name in knobs]
    machine = app.best_session("looking for who set a knob")
    claims = gather(machine)
    found = []
    for address, knob in wanted:
        for origin in origins(machine, app.catalog, [knob], claims):
            label = origin.address.partition("@")[2]
            if address.selector is None or selects(address.selector, label, None):
                found.append(origin)
    if as_json:
        write_json(origins_json(found, claims.untold))
    else:
        sys.stdout.write(origins_text(found, claims.untold, width=columns()))
