# SPDX-License-Identifier: Apache-2.0
"""Finds out who set knobs on a machine, for `ktrial why` and `ktrial ui`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.tuning.knobs.address import selects
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.knob import INSTANCE_FACTS
from ktrial.tuning.origin.changes import WatchedValues, watch_values
from ktrial.tuning.origin.configured import gather
from ktrial.tuning.origin.uncatalogued import knob_or_file
from ktrial.tuning.origin.why import FACTS, origins

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.cli.app import App
    from ktrial.tuning.origin.origin import Origin

_WATCH = "watching for changes of a value"


def origins_of(app: App, knobs: Sequence[str]) -> tuple[list[Origin], Sequence[str]]:
    """Return who set each of these knobs, and which sources could not be read.

    Raise BadInput for an invalid or missing file, UnknownName for an unknown knob or instance.
    """
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
                raise BadInput(
                    f"{name}: no such file on this machine", hint="check the path, or use a name from `ktrial knobs`"
                )
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
                hint=f"use one of: {', '.join(filter(None, labels.values()))}"
                if any(labels.values())
                else f"choose another knob: this machine has no instance of {knob.id}",
            )
        found += meant
    return found, claims.untold


def watch_origins(app: App, found: Sequence[Origin], for_s: float) -> WatchedValues:
    """Watch these values for `for_s` seconds, and return every change."""
    reader = app.user_session if any(one.knob not in app.catalog.knobs for one in found) else app.best_session(_WATCH)
    changes = watch_values(reader.read, found, app.clock, for_s)
    return WatchedValues(for_s, changes, reader.facts(("phone.services",)).value("phone.services") or ())
