# SPDX-License-Identifier: Apache-2.0
"""The YAML file of stress-ng: a list in a fixed layout, parsed line by line.

Since 0.22 an entry also lists its instances with their times. Compare bogo operations only within one version of
stress-ng: their meaning changes between releases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.kit.formats.tool_output import Quantity, numbered, quantity, unreadable, whole

_PAIR = re.compile(r"(\s+)(- )?([A-Za-z0-9][^:]*):(?: (.*))?")
_REQUIRED = {
    "bogo-ops-per-second-real-time": "1/s",
    "bogo-ops-per-second-usr-sys-time": "1/s",
    "wall-clock-time": "s",
    "user-time": "s",
    "system-time": "s",
}
_KNOWN = {*_REQUIRED, "stressor", "bogo-ops", "cpu-usage-per-instance", "max-rss", "instances"}


class Stressor(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of one stressor over all its instances; `extra` are metrics that only this stressor prints.

    `instances` holds the wall time of each instance: 0 if it was killed. It is empty if this version prints none.
    """

    name: str
    bogo_ops: int
    rate: Quantity
    cpu_rate: Quantity
    wall: Quantity
    user: Quantity
    system: Quantity
    extra: Mapping[str, str]
    instances: tuple[Quantity, ...] = ()


class _Entry(msgspec.Struct, kw_only=True):
    """An incomplete list entry; its keys begin at `column`."""

    line: int
    column: int
    pairs: dict[str, str]
    instances: list[Quantity]


class StressNgRun(msgspec.Struct, frozen=True, kw_only=True):
    """All stressors of a run; results of different versions of stress-ng are not comparable."""

    version: str
    stressors: tuple[Stressor, ...]


def read_stress_ng(data: bytes, source: str = "out.yaml") -> StressNgRun:
    """Parse the YAML file. Raise UnreadableOutput if it has no stressor or does not end with `...`."""
    section = ""
    system: dict[str, str] = {}
    entries: list[_Entry] = []
    ended = False
    for line, text in numbered(data, source):
        if text.strip() == "..." or (ended and text.strip()):
            if ended:
                raise unreadable(source, line, text, "the end of the document")
            ended = True
        elif text and not text[0].isspace() and text.endswith(":"):
            section = text[:-1]
        elif text.strip() and text.strip() != "---":
            _read_pair(text, section, system, entries, source, line)
    if not ended:
        raise unreadable(source, None, "", "complete output of stress-ng: its end mark '...' is missing")
    if "stress-ng-version" not in system or not entries:
        raise unreadable(source, None, "", "output of stress-ng: it has no version or no metrics")
    stressors = tuple(_stressor(entry, source) for entry in entries)
    return StressNgRun(version=system["stress-ng-version"], stressors=stressors)


def _read_pair(text: str, section: str, system: dict[str, str], entries: list[_Entry], source: str, line: int) -> None:
    if section not in {"system-info", "metrics"}:
        return
    match = _PAIR.fullmatch(text)
    if match is None:
        raise unreadable(source, line, text, "a 'key: value' line")
    key, value = match[3], match[4] or ""
    pairs = system
    if section == "metrics":
        column = len(match[1]) + len(match[2] or "")
        if entries and column > entries[0].column:
            if key == "wall-clock-time":
                entries[-1].instances.append(quantity(value, "s", source, line, "the time of an instance"))
            return
        if match[2]:
            entries.append(_Entry(line=line, column=column, pairs={}, instances=[]))
        if not entries or column < entries[0].column:
            raise unreadable(source, line, text, "a part of a list entry ('- stressor: …')")
        pairs = entries[-1].pairs
    if key in pairs:
        raise unreadable(source, line, key, "the only such key of its entry")
    pairs[key] = value.strip().strip("'\"")


def _stressor(entry: _Entry, source: str) -> Stressor:
    pairs, line = entry.pairs, entry.line
    missing = sorted(({"stressor", "bogo-ops"} | set(_REQUIRED)) - set(pairs))
    if missing:
        raise unreadable(source, line, pairs.get("stressor", "?"), f"a complete entry: it lacks {', '.join(missing)}")
    found = {key: quantity(pairs[key], unit, source, line, key) for key, unit in _REQUIRED.items()}
    return Stressor(
        name=pairs["stressor"],
        bogo_ops=whole(pairs["bogo-ops"], source, line, "bogo-ops"),
        rate=found["bogo-ops-per-second-real-time"],
        cpu_rate=found["bogo-ops-per-second-usr-sys-time"],
        wall=found["wall-clock-time"],
        user=found["user-time"],
        system=found["system-time"],
        extra={key: value for key, value in pairs.items() if key not in _KNOWN},
        instances=tuple(entry.instances),
    )
