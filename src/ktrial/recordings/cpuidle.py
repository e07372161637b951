# SPDX-License-Identifier: Apache-2.0
"""Idle states of the CPUs, from two readings of `/sys/devices/system/cpu/cpu*/cpuidle/state*/{name,time,usage}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ktrial.kit.errors import UnreadableOutput

FILES = tuple(f"/sys/devices/system/cpu/cpu*/cpuidle/state*/{name}" for name in ("name", "time", "usage"))
_PLACE = re.compile(r"/sys/devices/system/cpu/cpu(\d+)/cpuidle/state(\d+)/name")


class IdleState(msgspec.Struct, frozen=True, kw_only=True):
    """An idle state. `share` is the share of CPU time in this state; `entries` counts how often CPUs entered it."""

    name: str
    depth: int
    share: float
    entries: int


def read_cpuidle(before: Mapping[str, str], after: Mapping[str, str], seconds: float) -> tuple[IdleState, ...]:
    """Return the states in order of depth, one state for each name.

    Raise UnreadableOutput if there is no state, or if a counter is invalid.
    """
    microseconds: dict[str, int] = {}
    entries: dict[str, int] = {}
    depths: dict[str, int] = {}
    cpus = set()
    for path, name in after.items():
        match = _PLACE.fullmatch(path)
        if match is None:
            continue
        folder = path.removesuffix("name")
        cpus.add(match[1])
        depths[name] = max(depths.get(name, 0), int(match[2]))
        microseconds[name] = microseconds.get(name, 0) + _growth(f"{folder}time", before, after)
        entries[name] = entries.get(name, 0) + _growth(f"{folder}usage", before, after)
    if not cpus:
        raise UnreadableOutput("cpuidle", None, "", "a list of idle states of the CPUs: it names none")
    whole_us = len(cpus) * seconds * 1e6
    return tuple(
        IdleState(name=name, depth=depths[name], share=microseconds[name] / whole_us, entries=entries[name])
        for name in sorted(depths, key=lambda name: depths[name])
    )


def _growth(path: str, before: Mapping[str, str], after: Mapping[str, str]) -> int:
    first, last = _count(path, before), _count(path, after)
    if last < first:
        raise UnreadableOutput(path, None, f"{first}, then {last}", "a counter that only rises")
    return last - first


def _count(path: str, files: Mapping[str, str]) -> int:
    text = files.get(path)
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 20:
        raise UnreadableOutput(path, None, (text or "nothing")[:40], "a count")
    return int(text)
