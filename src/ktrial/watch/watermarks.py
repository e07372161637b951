# SPDX-License-Identifier: Apache-2.0
"""Watermarks of a machine under its current settings and under others, side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ktrial.kit.errors import BadInput, Refused, UnknownName
from ktrial.kit.units import show_bytes, show_seconds
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.ports import Clock, Machine
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.address import is_assignment, parse_assignment
from ktrial.tuning.knobs.computed import computed_value, default_value
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.profile import flatten
from ktrial.tuning.knobs.value import kernel_text
from ktrial.watch.watermark_model import (
    MOST_SCALE,
    RESERVE,
    SCALE,
    Marks,
    WatermarkColumn,
    Watermarks,
    Zone,
    in_all,
    scale_for,
    shown_marks,
    usual_zones,
    zone_marks,
    zones_of,
)

_PATHS: Mapping[str, str] = {
    RESERVE: "/proc/sys/vm/min_free_kbytes",
    SCALE: "/proc/sys/vm/watermark_scale_factor",
}
_VMSTAT = "/proc/vmstat"
_LOOK_S = 0.1
_OTHER_RULES = "memory was added or removed since they were set, or this kernel computes them differently"
#: Counters of allocated pages, such as pgalloc_normal. Pages that reclaim has freed still count as demand.
_TAKEN = re.compile(rb"^pgalloc_\w+ (\d+)$", re.MULTILINE)
_RECLAIMED = re.compile(rb"^pgsteal_(?:kswapd|direct|khugepaged) (\d+)$", re.MULTILINE)
_FREED = re.compile(rb"^pgfree (\d+)$", re.MULTILINE)


class WatermarkLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that determines the watermarks of a machine: its memory and two settings."""

    kind: Literal["here", "elsewhere"]
    zones: tuple[Zone, ...]
    page_bytes: int
    settings: Mapping[str, int]
    facts: FactBook
    shown: tuple[Marks | None, ...] = ()


class Lead(msgspec.Struct, frozen=True):
    """A requested lead: bytes, or seconds at the allocation rate."""

    text: str
    amount_bytes: float | None = None
    seconds: float | None = None


def layout_here(machine: Machine) -> WatermarkLayout:
    facts = machine.facts(("memory", "thp"))
    read = machine.read(tuple(_PATHS.values()))
    settings = {}
    for name, path in _PATHS.items():
        reading = read.get(path)
        text = reading.data.decode("ascii", "replace").strip() if reading is not None and reading.data else ""
        if not text.isdigit():
            why = reading.unreadable if reading is not None else None
            if reading is None and name == SCALE:
                why = "kernels before 4.6 lack this setting"
            raise Refused(
                f"cannot read {path}{f': {why}' if why else ''}",
                hint="use --memory 96GiB to compute the watermarks of a PC with that much memory",
            )
        settings[name] = int(text)
    page_bytes = facts.value("memory.page_bytes")
    return WatermarkLayout(
        kind="here",
        zones=zones_of(facts),
        page_bytes=page_bytes if isinstance(page_bytes, int) else 4096,
        settings=settings,
        facts=facts,
        shown=shown_marks(facts),
    )


def layout_elsewhere(memory_bytes: float, catalog: Catalog) -> WatermarkLayout:
    """Return the layout of a PC with this much memory and the kernel's default settings."""
    zones = usual_zones(memory_bytes)
    records = [{"node": zone.node, "zone": zone.name, "managed_pages": zone.managed_pages} for zone in zones]
    known = {
        "memory.zones": records,
        "memory.page_bytes": 4096,
        "memory.total": int(memory_bytes),
        "thp.enabled": "always",
    }
    facts = FactBook({name: Fact(value=value) for name, value in known.items()})
    settings = {name: int(default_value(catalog.knobs[name], facts)[0]) for name in _PATHS}
    return WatermarkLayout(kind="elsewhere", zones=zones, page_bytes=4096, settings=settings, facts=facts)


def compare(
    layout: WatermarkLayout,
    words: Sequence[str],
    catalog: Catalog,
    *,
    lead: Lead | None = None,
    rate: tuple[float, str] | None = None,
) -> Watermarks:
    """Return columns for the current settings, for `words`, and for the requested lead.

    A word is a profile, KNOB=VALUE[,VALUE…], or several settings joined by `+`. `rate` is how many bytes per second
    programs allocate, and where that number comes from.
    """
    per_s = None if rate is None else rate[0]
    wanted = [("in force" if layout.kind == "here" else "default", layout.settings)]
    for word in words:
        wanted += _columns(word, layout, catalog)
    if lead is not None:
        wanted.append(_for_lead(layout, lead, per_s))
    columns = tuple(_column(name, settings, layout, per_s) for name, settings in wanted)
    differs = _differences(layout, columns[0]) if layout.kind == "here" else ()
    return Watermarks(
        kind=layout.kind,
        memory_bytes=sum(zone.managed_pages for zone in layout.zones) * layout.page_bytes,
        page_bytes=layout.page_bytes,
        zones=layout.zones,
        columns=columns,
        rate_bytes_per_s=per_s,
        rate_source=None if rate is None else rate[1],
        agrees=None if layout.kind == "elsewhere" else not differs,
        differs=differs,
    )


def peak_rate(machine: Machine, clock: Clock, duration_s: float, page_bytes: int) -> float:
    """Return the peak rate in bytes per second at which memory in use grew, measured ten times a second."""
    before = _demand_pages(machine, clock)
    begin_ns, peak, looks = before[0], 0.0, 0
    while clock.monotonic_ns() - begin_ns < duration_s * 1e9 or not looks:
        clock.sleep(_LOOK_S)
        after = _demand_pages(machine, clock)
        passed_s = (after[0] - before[0]) / 1e9
        peak = max(peak, (after[1] - before[1]) * page_bytes / passed_s)
        before, looks = after, looks + 1
    return peak


def _demand_pages(machine: Machine, clock: Clock) -> tuple[int, int]:
    reading = machine.read((_VMSTAT,))[_VMSTAT]
    data = reading.data if reading is not None and reading.data is not None else b""
    taken, reclaimed, freed = (pattern.findall(data) for pattern in (_TAKEN, _RECLAIMED, _FREED))
    if not (taken and reclaimed and freed):
        raise Refused(
            f"cannot measure a rate: {_VMSTAT} does not count allocated and freed pages",
            hint="use --rate instead of --measure, for example  --rate 2GiB",
        )
    return clock.monotonic_ns(), sum(map(int, taken)) + sum(map(int, reclaimed)) - sum(map(int, freed))


def _columns(word: str, layout: WatermarkLayout, catalog: Catalog) -> list[tuple[str, Mapping[str, int]]]:
    """Return the columns for a word: a profile, KNOB=VALUE[,VALUE…], or several settings joined by +."""
    if not is_assignment(word):
        return [(word, _of_profile(word, layout, catalog))]
    parts = [parse_assignment(part) for part in word.split("+")]
    several = [value for _, value in parts if "," in value]
    if several and len(parts) > 1:
        raise BadInput(
            f"{word}: cannot combine several values with several settings",
            hint="write each combination as a separate argument",
        )
    found: list[tuple[str, Mapping[str, int]]] = []
    for chosen in several[0].split(",") if several else [""]:
        settings = dict(layout.settings)
        for address, value in parts:
            knob = find_knob(address.knob, catalog.knobs)
            _check_known(knob.id)
            settings[knob.id] = int(kernel_text(knob, chosen.strip() or value))
        found.append((_name(settings, layout), settings))
    return found


def _check_known(knob: str) -> None:
    if knob not in _PATHS:
        raise BadInput(f"{knob} does not set the watermarks", hint=f"use {RESERVE} or {SCALE}")


def _name(settings: Mapping[str, int], layout: WatermarkLayout) -> str:
    changed = [
        f"{name.partition('.')[2]}={value}" for name, value in settings.items() if value != layout.settings[name]
    ]
    return " ".join(changed) or "as in force"


def _of_profile(name: str, layout: WatermarkLayout, catalog: Catalog) -> Mapping[str, int]:
    if name not in catalog.profiles:
        raise UnknownName(
            "profile",
            name,
            catalog.profiles,
            hint="name a profile that `ktrial profiles` lists, or write a setting as KNOB=VALUE",
        )
    own = {one.knob: one for one in flatten(name, catalog.profiles) if one.knob in _PATHS}
    if not own:
        raise BadInput(
            f"the profile {name} does not set the watermarks", hint=f"write {RESERVE}=VALUE or {SCALE}=VALUE instead"
        )
    values = {knob: _value(one.value, knob, layout, catalog) for knob, one in own.items()}
    return {**layout.settings, **values}


def _value(value: Any, name: str, layout: WatermarkLayout, catalog: Catalog) -> int:
    knob = catalog.knobs[name]
    if isinstance(value, dict):
        value, why = computed_value(knob, value, str(layout.settings[name]), layout.facts, None)
        if value is None:
            raise Refused(f"{name}: {why}", hint=f"write the value instead of the profile: {name}=VALUE")
    return int(kernel_text(knob, value))


def _for_lead(layout: WatermarkLayout, lead: Lead, per_s: float | None) -> tuple[str, Mapping[str, int]]:
    if lead.seconds is not None and per_s is None:
        raise BadInput(
            f"--lead {lead.text}: a lead in seconds needs an allocation rate", hint="add --rate 2GiB or --measure 30s"
        )
    wanted = lead.amount_bytes if lead.amount_bytes is not None else (lead.seconds or 0.0) * (per_s or 0.0)
    scale = scale_for(layout.zones, layout.settings[RESERVE], wanted, layout.page_bytes)
    if scale is None:
        most = in_all(zone_marks(layout.zones, layout.settings[RESERVE], MOST_SCALE, layout.page_bytes)).lead_pages
        most_text = show_bytes(most * layout.page_bytes)
        if lead.seconds is not None and per_s:
            most_text = f"{show_seconds(most * layout.page_bytes / per_s)} at this rate"
        raise Refused(
            f"--lead {lead.text}: no value of {SCALE} gives this lead here",
            hint=f"use a --lead up to {most_text}, which the largest value, {MOST_SCALE}, gives",
        )
    settings = {**layout.settings, SCALE: scale}
    return f"{_name(settings, layout)} for a lead of {lead.text}", settings


def _column(name: str, settings: Mapping[str, int], layout: WatermarkLayout, per_s: float | None) -> WatermarkColumn:
    marks = zone_marks(layout.zones, settings[RESERVE], settings[SCALE], layout.page_bytes)
    whole = in_all(marks)
    lead_bytes = whole.lead_pages * layout.page_bytes
    return WatermarkColumn(
        name=name,
        settings=settings,
        zones=marks,
        lead_bytes=lead_bytes,
        reserve_bytes=whole.min_pages * layout.page_bytes,
        kept_free_bytes=whole.high_pages * layout.page_bytes,
        lead_s=lead_bytes / per_s if per_s else None,
    )


def _differences(layout: WatermarkLayout, column: WatermarkColumn) -> tuple[str, ...]:
    found = []
    for zone, computed, shown in zip(layout.zones, column.zones, layout.shown, strict=True):
        place = f"node {zone.node} {zone.name}"
        if shown is None:
            found.append(f"{place}: /proc/zoneinfo lacks one of the three marks")
        elif shown != computed:
            three = [
                after - before
                for before, after in zip(msgspec.structs.astuple(computed), msgspec.structs.astuple(shown), strict=True)
            ]
            boosted = three[0] == three[1] == three[2] > 0
            why = "temporarily raised by vm.watermark_boost_factor" if boosted else _OTHER_RULES
            found.append(f"{place}: /proc/zoneinfo is off by {three[0]}, {three[1]}, {three[2]} pages: {why}")
    return tuple(found)
