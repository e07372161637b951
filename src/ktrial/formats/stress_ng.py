# SPDX-License-Identifier: Apache-2.0
"""The file that stress-ng writes for `--yaml`: a fixed, flat layout, read line by line.

Bogo operations are comparable only within one version of stress-ng: what one operation does changes between releases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.formats.tool_output import Quantity, numbered, quantity, unreadable, whole

_PAIR = re.compile(r"\s+(- )?([A-Za-z0-9][^:]*):(?: (.*))?")
_REQUIRED = {
    "bogo-ops-per-second-real-time": "1/s",
    "bogo-ops-per-second-usr-sys-time": "1/s",
    "wall-clock-time": "s",
    "user-time": "s",
    "system-time": "s",
}
_KNOWN = {*_REQUIRED, "stressor", "bogo-ops", "cpu-usage-per-instance", "max-rss"}


class Stressor(msgspec.Struct, frozen=True, kw_only=True):
    """One stressor's metrics over all its instances. `extra` holds what only this stressor prints, as printed."""

    name: str
    bogo_ops: int
    rate: Quantity
    cpu_rate: Quantity
    wall: Quantity
    user: Quantity
    system: Quantity
    extra: Mapping[str, str]


class StressNgRun(msgspec.Struct, frozen=True, kw_only=True):
    """All stressors of a run, and the version of stress-ng that belongs to the meaning of its numbers."""

    version: str
    stressors: tuple[Stressor, ...]


def read_stress_ng(data: bytes, source: str = "out.yaml") -> StressNgRun:
    """Read the YAML file; it must be whole (it ends with `...`) and hold at least one stressor."""
    section = ""
    system: dict[str, str] = {}
    entries: list[tuple[int, dict[str, str]]] = []
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
        raise unreadable(source, None, "the whole file", "whole: its end mark '...' is missing")
    if "stress-ng-version" not in system or not entries:
        raise unreadable(source, None, "the whole file", "stress-ng's: it has no version or no metrics")
    stressors = tuple(_stressor(pairs, source, line) for line, pairs in entries)
    return StressNgRun(version=system["stress-ng-version"], stressors=stressors)


def _read_pair(
    text: str,
    section: str,
    system: dict[str, str],
    entries: list[tuple[int, dict[str, str]]],
    source: str,
    line: int,
) -> None:
    match = _PAIR.fullmatch(text)
    if section not in {"system-info", "metrics"}:
        return
    if match is None:
        raise unreadable(source, line, text, "a 'key: value' line")
    begins, key, value = match[1], match[2], match[3] or ""
    if section == "metrics" and begins:
        entries.append((line, {}))
    if section == "metrics" and not entries:
        raise unreadable(source, line, text, "the begin of a list entry ('- stressor: …')")
    pairs = entries[-1][1] if section == "metrics" else system
    if key in pairs:
        raise unreadable(source, line, key, "a key that stands once in its entry")
    pairs[key] = value.strip().strip("'\"")


def _stressor(pairs: Mapping[str, str], source: str, line: int) -> Stressor:
    missing = sorted(({"stressor", "bogo-ops"} | set(_REQUIRED)) - set(pairs))
    if missing:
        raise unreadable(source, line, pairs.get("stressor", "?"), f"a whole entry: {', '.join(missing)} is missing")
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
    )
