# SPDX-License-Identifier: Apache-2.0
"""Translate a value into what it means on this machine, such as bytes, watermarks or milliseconds."""

from __future__ import annotations

import math
from collections.abc import Callable

from ktrial.kit.units import show_bytes, show_seconds
from ktrial.machine.facts import FactBook


def meaning(name: str | None, text: str, facts: FactBook) -> str | None:
    """Return what the value `text` means here; None if there is nothing to add. `name` is the `meaning` of a knob."""
    if name is None:
        return None
    try:
        number = int(text, 0)
    except ValueError:
        number = None
    if name == "cpu-mask":
        return _cpu_mask(text, facts)
    return None if number is None else MEANINGS[name](number, facts)


def _percent_of_available(number: int, facts: FactBook) -> str | None:
    available = facts.value("memory.available")
    if not isinstance(available, int):
        return None
    return f"{show_bytes(available * number / 100)} of the {show_bytes(available)} available now"


def _managed_bytes(facts: FactBook) -> int | None:
    page_bytes = facts.value("memory.page_bytes")
    pages = sum(int(zone.get("managed_pages") or 0) for zone in facts.records("memory.zones"))
    return pages * page_bytes if isinstance(page_bytes, int) and pages else None


def _watermark_distance(number: int, facts: FactBook) -> str | None:
    managed = _managed_bytes(facts)
    if managed is None:
        return None
    return (
        f"kswapd wakes {show_bytes(managed * number / 10000)} above the minimum, and at least a quarter of the minimum"
    )


def _watermark_minimum(number: int, facts: FactBook) -> str | None:
    managed = _managed_bytes(facts)
    share = f", {number * 1024 / managed:.2%} of memory" if managed else ""
    return f"{show_bytes(number * 1024)} kept free{share}"


def _pages(number: int, facts: FactBook) -> str | None:
    page_bytes = facts.value("memory.page_bytes")
    return show_bytes(number * page_bytes) if isinstance(page_bytes, int) else None


def _swap_cluster(number: int, facts: FactBook) -> str | None:
    page_bytes = facts.value("memory.page_bytes")
    if not 0 <= number < 32:
        return None
    pages = 1 << number
    size = f" ({show_bytes(pages * page_bytes)})" if isinstance(page_bytes, int) else ""
    return f"{pages} page{'s' if pages > 1 else ''}{size} per read from swap"


def _slice(number: int, facts: FactBook) -> str | None:
    return f"a task runs {show_seconds(number * 1e-9)} before an equal one may take its CPU"


def _cpu_mask(text: str, facts: FactBook) -> str | None:
    try:
        mask = int(text.replace(",", ""), 16)
    except ValueError:
        return None
    cpus = [str(number) for number in range(mask.bit_length()) if mask >> number & 1]
    if not cpus:
        return "no CPU"
    threads = facts.value("cpu.threads")
    beyond = f" ({threads} are online here)" if isinstance(threads, int) and mask.bit_length() > threads else ""
    return f"CPU{'s'[: len(cpus) > 1]} {', '.join(cpus)}{beyond}"


def _seconds(factor: float) -> Callable[[int, FactBook], str | None]:
    return lambda number, facts: show_seconds(number * factor) if number >= 0 and math.isfinite(number) else None


def _size(factor: int) -> Callable[[int, FactBook], str | None]:
    return lambda number, facts: show_bytes(number * factor)


MEANINGS: dict[str, Callable[[int, FactBook], str | None]] = {
    "percent-of-available": _percent_of_available,
    "bytes": _size(1),
    "kilobytes": _size(1024),
    "pages": _pages,
    "watermark-distance": _watermark_distance,
    "watermark-minimum": _watermark_minimum,
    "nanoseconds": _seconds(1e-9),
    "microseconds": _seconds(1e-6),
    "milliseconds": _seconds(1e-3),
    "centiseconds": _seconds(1e-2),
    "seconds": _seconds(1),
    "sectors-kib": _size(1024),
    "swap-cluster": _swap_cluster,
    "queue-depth": lambda number, facts: f"up to {number} requests wait in each hardware queue",
    "slice": _slice,
    "cpu-mask": lambda number, facts: None,
    "percent": lambda number, facts: f"{number} %",
}
