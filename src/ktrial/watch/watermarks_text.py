# SPDX-License-Identifier: Apache-2.0
"""Watermarks of several settings as text."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.kit.tables import paragraph, table
from ktrial.kit.units import show_bytes, show_seconds
from ktrial.watch.watermark_model import WatermarkColumn, Watermarks


def watermarks_text(found: Watermarks, *, width: int) -> str:
    where = "this machine" if found.kind == "here" else "another PC (the usual zones of x86-64 with one node)"
    lines = [f"{show_bytes(found.memory_bytes)} of memory, {len(found.zones)} zones: {where}", ""]
    timed = found.rate_bytes_per_s is not None
    headers = ["setting", "reserve (min)", "kswapd wakes (low)", "kept free (high)", "lead"]
    headers += ["lead time"] if timed else []
    lines += [table(headers, [_row(column, found, timed=timed) for column in found.columns], width=width), ""]
    if found.rate_bytes_per_s is not None:
        rate = show_bytes(found.rate_bytes_per_s)
        lines += [paragraph(f"Lead time at {rate} a second, {found.rate_source}.", width=width)]
    lines += [
        paragraph(
            "Lead: what programs can allocate after kswapd wakes and before an allocating thread must reclaim memory "
            "itself. Kept free: what kswapd restores once memory has filled up. Zones with a reserve for others "
            "(vm.lowmem_reserve_ratio) have the same lead.",
            width=width,
        ),
        "",
        table(["zone", "setting", "min", "low", "high", "lead"], _zone_rows(found), width=width),
        "",
        f"In pages of {show_bytes(found.page_bytes)}.",
    ]
    if found.agrees:
        lines.append("The row in force agrees with /proc/zoneinfo.")
    lines += [paragraph(difference, width=width) for difference in found.differs]
    return "\n".join([*lines, *_try_line(found)]) + "\n"


def _row(column: WatermarkColumn, found: Watermarks, *, timed: bool) -> list[str]:
    low_bytes = column.reserve_bytes + column.lead_bytes
    cells = [column.name, *(show_bytes(size) for size in (column.reserve_bytes, low_bytes, column.kept_free_bytes))]
    cells.append(f"{show_bytes(column.lead_bytes)} ({column.lead_bytes / found.memory_bytes:.1%})")
    if timed:
        cells.append("-" if column.lead_s is None else show_seconds(column.lead_s))
    return cells


def _zone_rows(found: Watermarks) -> Sequence[list[str]]:
    rows = []
    for place, zone in enumerate(found.zones):
        for number, column in enumerate(found.columns):
            marks = column.zones[place]
            named = f"{zone.node} {zone.name}" if number == 0 else ""
            pages = (marks.min_pages, marks.low_pages, marks.high_pages, marks.lead_pages)
            rows.append([named, column.name, *map(str, pages)])
    return rows


def _try_line(found: Watermarks) -> list[str]:
    first, last = found.columns[0], found.columns[-1]
    changed = [f"{name}={value}" for name, value in last.settings.items() if value != first.settings[name]]
    if found.kind != "here" or not changed:
        return []
    return ["", f"ktrial try {' '.join(changed)} --suite memory-pressure"]
