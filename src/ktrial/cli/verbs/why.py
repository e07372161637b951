# SPDX-License-Identifier: Apache-2.0
"""`ktrial why`: show who set a knob."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.completion import knob_names
from ktrial.cli.options import json_option, write_answer

if TYPE_CHECKING:
    from ktrial.tuning.origin.origin import Origin


@click.command(short_help="Show who set a sysctl or another knob.")
@click.argument("knobs", shell_complete=knob_names, nargs=-1, required=True, metavar="KNOB|PATH…")
@json_option
@click.pass_obj
def command(app: App, knobs: tuple[str, ...], as_json: bool) -> None:
    """Show who set a knob: a file and line (and what it overrides), a daemon, ktrial itself, or nobody.

    KNOB may be any sysctl, and PATH any such file below /proc/sys or /sys, even if the catalog lacks it.

    `ktrial doctor` lists every knob that differs from the kernel's default.
    """
    from ktrial.kit.errors import BadInput, UnknownName
    from ktrial.tuning.knobs.address import selects
    from ktrial.tuning.knobs.find import find_knob
    from ktrial.tuning.knobs.knob import INSTANCE_FACTS
    from ktrial.tuning.origin.configured import gather
    from ktrial.tuning.origin.uncatalogued import knob_or_file
    from ktrial.tuning.origin.why import FACTS, origins
    from ktrial.tuning.origin.why_text import origins_json, origins_text

    selected = [knob_or_file(name, app.catalog.knobs) for name in knobs]
    machine = app.best_session("looking for who set a knob")
    claims = gather(machine)
    facts = machine.facts(FACTS)
    found: list[Origin] = []
    for (address, knob), name in zip(selected, knobs, strict=True):
        selector = address.selector
        is_known = knob.id in app.catalog.knobs
        reader = machine if is_known else app.user_session  # root's agent reads no files that the catalog lacks
        here = origins(reader, app.catalog, [knob], claims, facts, [selector])
        if not is_known and here[0].verdict == "absent":
            if name.startswith("/"):
                raise BadInput(f"{name}: no such file on this machine", hint="`ktrial knobs` lists the known names")
            find_knob(name, app.catalog.knobs)
        source = INSTANCE_FACTS.get(knob.placeholders[0], "") if knob.placeholders else ""
        labels = {origin: origin.address.partition("@")[2] for origin in here}
        meant = [
            origin
            for origin, label in labels.items()
            if selector is None
            or selects(selector, label, facts.record(source, label.partition("/")[0]), nested=knob.nested)
        ]
        if not meant and selector is not None:
            raise UnknownName(
                f"instance of {knob.id}",
                selector,
                labels.values(),
                hint=f"use one of: {', '.join(filter(None, labels.values()))}" if any(labels.values()) else None,
            )
        found += meant
    write_answer(
        as_json,
        lambda: origins_json(found, claims.untold),
        lambda width: origins_text(found, claims.untold, width=width),
    )
