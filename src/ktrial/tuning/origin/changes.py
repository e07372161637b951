# SPDX-License-Identifier: Apache-2.0
"""Watch the values of knobs and note when somebody changes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ktrial.kit.tables import paragraph
from ktrial.machine.ports import Clock
from ktrial.machine.reading import Reading
from ktrial.tuning.origin.origin import Origin

_LOOK_EACH_S = 0.25


class ValueChange(msgspec.Struct, frozen=True):
    """A changed value: when ktrial saw it, the value before and the value now; None if unreadable.

    `after_s` counts from the beginning of the watch.
    """

    address: str
    after_s: float
    before: str | None
    now: str | None


class WatchedValues(NamedTuple):
    """What happened to some values within `for_s` seconds, and the services of a phone that write such values."""

    for_s: float
    changes: Sequence[ValueChange]
    services: Sequence[str]


def watch_values(
    read: Callable[[Sequence[str]], Mapping[str, Reading | None]], origins: Sequence[Origin], clock: Clock, for_s: float
) -> list[ValueChange]:
    """Look at the files of the knobs in `origins` for `for_s` seconds; return the changes in order."""
    addresses = {origin.path: origin.address for origin in origins if origin.path is not None}
    begin_ns = clock.monotonic_ns()
    values, changes = _texts(read(list(addresses))), list[ValueChange]()
    while (passed_s := (clock.monotonic_ns() - begin_ns) / 1e9) < for_s:
        clock.sleep(min(_LOOK_EACH_S, for_s - passed_s))
        seen = _texts(read(list(addresses)))
        after_s = round((clock.monotonic_ns() - begin_ns) / 1e9, 2)
        changes += [
            ValueChange(address, after_s, values.get(path), seen.get(path))
            for path, address in addresses.items()
            if seen.get(path) != values.get(path)
        ]
        values = seen
    return changes


def watched_json(watched: WatchedValues) -> dict[str, Any]:
    return {"watched_s": watched.for_s, "changes": watched.changes, "services": watched.services}


def watched_text(watched: WatchedValues, *, width: int) -> str:
    """Return a paragraph on each knob that changed, and the services that may have done it."""
    begin = f"Watched for {watched.for_s:g} s:"
    lines = [] if watched.changes else [f"{begin} nobody changed a value."]
    for address in dict.fromkeys(change.address for change in watched.changes):
        own = [change for change in watched.changes if change.address == address]
        steps = ", ".join(f"{one.before} → {one.now} after {one.after_s:.1f} s" for one in own)
        lines.append(f"{begin} {address} changed {'once' if len(own) == 1 else f'{len(own)} times'}: {steps}.")
    if watched.changes and watched.services:
        lines.append(f"Services here that write such values: {', '.join(watched.services)}.")
    return "".join(paragraph(line, width=width) + "\n" for line in lines)


def _texts(readings: Mapping[str, Reading | None]) -> dict[str, str | None]:
    return {path: None if reading is None else reading.text for path, reading in readings.items()}
