# SPDX-License-Identifier: Apache-2.0
"""Locate knobs on a machine and read their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ktrial.kit.mounts import MOUNTS, mount_options, read_only_mount
from ktrial.machine.reading import InstanceState, KnobState, Reading
from ktrial.tuning.knobs.address import group_pattern
from ktrial.tuning.knobs.knob import Knob, instance_of, place_pattern

if TYPE_CHECKING:
    from ktrial.machine.ports import Machine

_DEBUGFS = "/sys/kernel/debug/"
_NEW_ZRAM = "/sys/class/zram-control/hot_add"


def with_couples(knobs: Iterable[Knob], known: Mapping[str, Knob]) -> list[Knob]:
    """Return these knobs, and the knobs that the kernel changes along with them, each knob once."""
    found: dict[str, Knob] = {}
    for knob in knobs:
        found[knob.id] = knob
        for name in knob.couples:
            found.setdefault(name, known[name])
    return list(found.values())


def observe(machine: Machine, knobs: Iterable[Knob], meant: Iterable[str | None] = ()) -> dict[str, KnobState]:
    """Return the instances and readings of each knob, with one `list` and one `read` request for all.

    Nested control groups, of which there may be thousands, are read only if a selector in `meant` names them.
    """
    knobs = list(knobs)
    nested = any(knob.nested for knob in knobs)
    groups = [found for one in meant if nested and one is not None and (found := group_pattern(one)) is not None]
    patterns = {knob.id: _patterns(knob, groups) for knob in knobs}
    asked = dict.fromkeys(pattern for places in patterns.values() for one in places.values() for pattern in one)
    matches = machine.list([*asked, _NEW_ZRAM, f"{_DEBUGFS}*"])
    chosen = {knob.id: _first_present(patterns[knob.id], matches) for knob in knobs}
    wanted: list[str] = [MOUNTS]
    for knob in knobs:
        for label, path in chosen[knob.id]:
            wanted.append(path)
            beside = (_beside(place, knob, label) for place in (knob.offers, knob.effective, knob.requires_choice))
            wanted += [other for other in beside if other]
    readings = machine.read(wanted)
    return {knob.id: _state(knob, chosen[knob.id], readings, matches, is_root=machine.is_root) for knob in knobs}


def _patterns(knob: Knob, groups: Iterable[str]) -> dict[str, list[str]]:
    """Return the patterns to list for each place of the knob."""
    own = [None, *groups] if knob.nested else [None]
    return {place: [place_pattern(place, group) for group in own] for place in knob.files}


def _first_present(
    patterns: Mapping[str, Iterable[str]], matches: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, str]]:
    for place, own in patterns.items():
        paths = dict.fromkeys(path for pattern in own for path in matches.get(pattern, ()))
        found = [(instance_of(place, path), path) for path in paths]
        instances = [(label, path) for label, path in found if label is not None]
        if instances:
            return instances
    return []


def _beside(place: str | None, knob: Knob, label: str) -> str | None:
    if place is None:
        return None
    text = place
    parts = [label] if len(knob.placeholders) == 1 else label.split("/")
    for name, part in zip(knob.placeholders, parts, strict=False):
        component = part.removeprefix("irq") if name == "irq" else part
        text = text.replace(f"{{{name}}}", component)
    return text


def _state(
    knob: Knob,
    found: list[tuple[str, str]],
    readings: Mapping[str, Reading | None],
    matches: Mapping[str, tuple[str, ...]],
    *,
    is_root: bool,
) -> KnobState:
    instances = []
    mounted_as = readings.get(MOUNTS)
    options = mount_options((mounted_as.text or "") if mounted_as is not None else "")
    for label, path in found:
        reading = readings.get(path)
        if reading is None:
            continue
        if reading.unreadable is not None and is_root:
            reading = Reading(invalid=f"not even root can read it: {reading.unreadable}", locked=True)
        siblings = {}
        for name, place in (("offered", knob.offers), ("choice", knob.requires_choice)):
            beside = _beside(place, knob, label)
            listed = readings.get(beside) if beside else None
            if listed is not None and listed.text is not None:
                siblings[name] = listed.text
        effective = _beside(knob.effective, knob, label)
        if effective is not None and readings.get(effective) is None:
            effective = None
        instances.append(InstanceState(label, path, reading, effective, siblings, read_only_mount(path, options)))
    mounted = bool(matches.get(f"{_DEBUGFS}*"))
    blocked = _blocked(knob, is_root=is_root, mounted=mounted) if not instances else None
    possible = knob.kind == "zram" and bool(matches.get(_NEW_ZRAM))
    return KnobState(knob.id, tuple(instances), blocked, possible)


def _blocked(knob: Knob, *, is_root: bool, mounted: bool) -> str | None:
    """Return why a place that the kernel may have is invisible; None if nothing hides it."""
    if not any(place.startswith(_DEBUGFS) for place in knob.files):
        return None
    if not is_root:
        return "only root can see debugfs; `sudo ./ktrial …` shows whether the knob exists"
    if not mounted:
        return "debugfs is not mounted; `mount -t debugfs none /sys/kernel/debug` shows whether the knob exists"
    return None
