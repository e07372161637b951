# SPDX-License-Identifier: Apache-2.0
"""Watermarks of memory zones as the kernel computes them, and the lead time that they give kswapd.

The computation follows setup_per_zone_wmarks() in mm/page_alloc.c, in whole pages. The kernel divides the reserve
among the zones by size. The distance between two marks is a quarter of a zone's share, or watermark_scale_factor /
10000 of the zone if that is more. Below `low` kswapd wakes and works until `high` is free. Below `min` allocating
threads reclaim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.kit.units import show_bytes
from ktrial.machine.facts import FactBook

SCALE = "vm.watermark_scale_factor"
RESERVE = "vm.min_free_kbytes"
#: Largest vm.watermark_scale_factor.
MOST_SCALE = 3000
#: Zones from which the kernel itself does not allocate; they get little of the reserve.
_ELSEWHERE = frozenset(("HighMem", "Movable"))
_CLUSTER_PAGES, _MOST_PAGES = 32, 128


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """A memory zone and the number of pages that the kernel manages in it."""

    node: int
    name: str
    managed_pages: int


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """The three watermarks of a zone, or their sums over several zones."""

    min_pages: int
    low_pages: int
    high_pages: int

    @property
    def lead_pages(self) -> int:
        """The pages that can be allocated after kswapd wakes and before an allocating thread must wait."""
        return self.low_pages - self.min_pages


class WatermarkColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One pair of settings and the resulting marks: pages for each zone, bytes in total.

    `kept_free_bytes` is what kswapd keeps free once memory has filled up. Ordinary programs never get `reserve_bytes`.
    """

    name: str
    settings: Mapping[str, int]
    zones: tuple[Marks, ...]
    lead_bytes: int
    reserve_bytes: int
    kept_free_bytes: int
    lead_s: float | None = None


class Watermarks(msgspec.Struct, frozen=True, kw_only=True):
    """The watermarks of several settings, side by side.

    `differs` describes each zone whose marks in /proc/zoneinfo differ from the computed marks; `agrees` is true if no
    zone differs, and None for another machine.
    """

    kind: Literal["here", "elsewhere"]
    memory_bytes: int
    page_bytes: int
    zones: tuple[Zone, ...]
    columns: tuple[WatermarkColumn, ...]
    rate_bytes_per_s: float | None = None
    rate_source: str | None = None
    agrees: bool | None = None
    differs: tuple[str, ...] = ()


def zone_marks(zones: Sequence[Zone], reserve_kb: int, scale: int, page_bytes: int) -> tuple[Marks, ...]:
    """Return the marks that the kernel computes from reserve and scale factor, zone by zone."""
    reserve_pages = reserve_kb * 1024 // page_bytes
    own_pages = sum(zone.managed_pages for zone in zones if zone.name not in _ELSEWHERE)
    if own_pages <= 0:
        raise BadInput(
            "cannot compute watermarks: no zone has memory that the kernel can allocate",
            hint="use --memory 96GiB to compute for another machine",
        )
    found = []
    for zone in zones:
        share = reserve_pages * zone.managed_pages // own_pages
        least = share
        if zone.name in _ELSEWHERE:
            least = max(_CLUSTER_PAGES, min(zone.managed_pages // 1024, _MOST_PAGES))
        distance = max(share // 4, zone.managed_pages * scale // 10000)
        found.append(Marks(min_pages=least, low_pages=least + distance, high_pages=least + 2 * distance))
    return tuple(found)


def in_all(marks: Iterable[Marks]) -> Marks:
    listed = list(marks)
    return Marks(
        min_pages=sum(one.min_pages for one in listed),
        low_pages=sum(one.low_pages for one in listed),
        high_pages=sum(one.high_pages for one in listed),
    )


def scale_for(zones: Sequence[Zone], reserve_kb: int, lead_bytes: float, page_bytes: int) -> int | None:
    """Return the smallest watermark_scale_factor with a total lead of `lead_bytes`; None if no factor gives it."""

    def lead(scale: int) -> int:
        return in_all(zone_marks(zones, reserve_kb, scale, page_bytes)).lead_pages * page_bytes

    if lead(MOST_SCALE) < lead_bytes:
        return None
    low, high = 1, MOST_SCALE
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if lead(middle) >= lead_bytes else (middle + 1, high)
    return low


def zones_of(facts: FactBook) -> tuple[Zone, ...]:
    """Return the zones of a machine. Raise BadInput if they are unknown."""
    found = []
    for record in facts.records("memory.zones"):
        pages = record.get("managed_pages")
        if isinstance(pages, int) and pages > 0:
            found.append(Zone(node=int(record.get("node") or 0), name=str(record.get("zone")), managed_pages=pages))
    if not found:
        fact = facts.get("memory.zones")
        why = fact.why_missing if fact is not None else ""
        raise BadInput(
            f"cannot compute watermarks: memory zones are unknown{f' ({why})' if why else ''}",
            hint="use --memory 96GiB to compute for another machine",
        )
    return tuple(found)


def shown_marks(facts: FactBook) -> tuple[Marks | None, ...]:
    """Return the marks in /proc/zoneinfo, in the order of `zones_of`; None for a zone that lacks a mark."""
    found: list[Marks | None] = []
    for record in facts.records("memory.zones"):
        pages = record.get("managed_pages")
        if isinstance(pages, int) and pages > 0:
            three = [record.get(key) for key in ("min_pages", "low_pages", "high_pages")]
            least, low, high = (page if isinstance(page, int) else -1 for page in three)
            whole = min(least, low, high) >= 0
            found.append(Marks(min_pages=least, low_pages=low, high_pages=high) if whole else None)
    return tuple(found)


def usual_zones(memory_bytes: float) -> tuple[Zone, ...]:
    """Return the zones of a single-node PC: 15 MiB for old devices, up to 3 GiB below 4 GiB, and the rest."""
    pages = int(memory_bytes) // 4096
    if pages < 8192:
        raise BadInput(f"expected at least 32 MiB of memory, got {show_bytes(memory_bytes)}", hint="use --memory 32MiB")
    old = 3840
    middle = min(pages - old, 786_432 - old)
    rest = pages - old - middle
    zones = [Zone(node=0, name="DMA", managed_pages=old), Zone(node=0, name="DMA32", managed_pages=middle)]
    return tuple([*zones, Zone(node=0, name="Normal", managed_pages=rest)] if rest else zones)
