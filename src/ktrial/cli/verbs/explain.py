# SPDX-License-Identifier: Apache-2.0
"""`ktrial explain`: explain a knob's effect, price and evidence."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.completion import knob_names
from ktrial.cli.options import json_option, write_json
from ktrial.kit.errors import BadInput


@click.command(short_help="Explain a knob: effect, price, evidence.")
@click.argument("knob", shell_complete=knob_names, metavar="KNOB|PATH")
@json_option
@click.pass_obj
def command(app: App, knob: str, as_json: bool) -> None:
    """Explain a knob (a setting of the kernel): what it does and costs, its value here, and the evidence.

    \b
    ktrial explain vm.swappiness
    ktrial explain transparent_hugepage
    ktrial explain /sys/block/sda/queue/scheduler
    """
    import msgspec

    from ktrial.cli.shared.ledger import kept_entries
    from ktrial.cli.shared.others import verdicts_elsewhere
    from ktrial.kit.tables import columns
    from ktrial.tuning.knobs.address import parse_address
    from ktrial.tuning.knobs.explain import explain
    from ktrial.tuning.knobs.find import find_knob
    from ktrial.tuning.knobs.knob_text import knob_text

    if knob in app.catalog.profiles:
        raise BadInput(f"{knob} is a profile, not a knob", hint=f"ktrial profiles {knob}")
    knob = _knob_name(app, knob)
    entry = find_knob(knob, app.catalog.knobs)
    answer = explain(app.user_session, entry, app.catalog.kinds, parse_address(knob).selector)
    entries = kept_entries(app, entry.id)
    elsewhere = verdicts_elsewhere(app, app.user_session, lambda one: one.is_about(entry.id))
    if as_json:
        fields = {**msgspec.to_builtins(entry), "here": answer.values, "inert_here": answer.inert, "measured": entries}
        write_json({"schema": "ktrial.knob/1", **fields, "elsewhere": elsewhere})
        return
    sys.stdout.write(
        knob_text(entry, app.catalog.sources, answer.state, answer.facts, answer.default, answer.inert, width=columns())
    )
    if entries:
        from ktrial.studies.ledger.ledger_now import now_of
        from ktrial.studies.ledger.text import measured_lines

        now = now_of(app.user_session, entries, app.catalog.knobs)
        sys.stdout.write("\n".join([*measured_lines(entries, now, width=columns()), ""]))
    if elsewhere:
        from ktrial.studies.ledger.others_text import others_lines

        sys.stdout.write("\n".join([*others_lines(elsewhere, width=columns()), ""]))


def _knob_name(app: App, text: str) -> str:
    """Return the name of the knob that a person means. If the text fits several knobs, report which ones."""
    from ktrial.tuning.knobs.find import knobs_called, known_knob
    from ktrial.tuning.origin.import_profile import spelled_setting

    knobs = app.catalog.knobs
    name = spelled_setting(text.partition("=")[0] if "@" not in text else text, knobs)
    if known_knob(name.partition("@")[0], knobs) is not None:
        return name
    found = [one.id for one in knobs_called(name, knobs)]
    if not found:
        return name
    others = f"; others: {', '.join(found[1:])}" if found[1:] else ""
    app.say(f"{text}: explaining {found[0]}{others}")
    return found[0]
