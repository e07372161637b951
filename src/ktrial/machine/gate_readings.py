# SPDX-License-Identifier: Apache-2.0
"""Readings for gates, the conditions that must hold before a run. They come from samples and facts.

None means that a reading failed, ABSENT that this machine does not have the thing to read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import msgspec

from ktrial.machine.facts import FactBook
from ktrial.machine.gates import ABSENT, Reading
from ktrial.machine.kernel_log import KernelLogDelta
from ktrial.machine.run_conditions import CLOCKS, TEMPERATURES
from ktrial.machine.sensors import Samples, Summary

#: Readings that only phones have, and the facts that hold them.
PHONE_READINGS = {
    "screen": "phone.screen",
    "battery_saver": "phone.low_power",
    "skin_c": "phone.skin_temperature",
    "thermal_status": "phone.thermal_status",
}
#: Facts that samples do not contain.
FACTS = ("battery.level", "cpufreq.governor", "filesystems", "power.source", *PHONE_READINGS.values())
#: The first order that the kernel considers costly to allocate (above PAGE_ALLOC_COSTLY_ORDER, which is 3).
HIGH_ORDER = 4
_BLOCKS = "fragmentation.free_blocks_order_"
#: Fields of /proc/stat that add up to a CPU's time; the first two include guest time.
_CPU_TIMES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


class Thermometers(msgspec.Struct, frozen=True, kw_only=True):
    """The temperature sensors that had a value in the first sample of a session, and the hottest of them."""

    known: frozenset[str]
    hottest: str | None

    @classmethod
    def of(cls, samples: Samples) -> Thermometers:
        shown = _temperatures(samples)
        return cls(known=frozenset(shown), hottest=max(shown, key=lambda name: shown[name], default=None))


def readings_at(
    samples: Samples | None,
    facts: FactBook,
    folder: str,
    thermometers: Thermometers | None = None,
    others: Reading = ABSENT,
) -> dict[str, Reading]:
    """Return the readings of one moment, from the last sample and the facts.

    `folder` holds the runs. `others` is the share of CPU time that other programs used while ktrial waited.
    """
    return {
        **({} if samples is None else _sampled(samples, thermometers)),
        "power_source": _fact(facts, "power.source"),
        "battery_percent": _fact(facts, "battery.level"),
        "governor": _fact(facts, "cpufreq.governor"),
        "disk_full": _fullness(facts, folder),
        "others_share": others,
        **{name: _fact(facts, fact) for name, fact in PHONE_READINGS.items() if fact in facts},
    }


def readings_during(
    samples: Samples | None, columns: Mapping[str, Summary], log: KernelLogDelta | None, slept_s: float | None
) -> dict[str, Reading]:
    return {
        "steal_share": _steal(columns),
        "throttled_share": None if samples is None else _throttled(samples),
        "kernel_warnings": _warnings(log),
        "slept_s": slept_s,
        "frequency_hz": _frequency(samples, columns),
        **{f"pressure_{what}_share": _pressure(samples, columns, what) for what in ("cpu", "memory", "io")},
    }


def _sampled(samples: Samples, thermometers: Thermometers | None) -> dict[str, Reading]:
    return {
        "temperature_c": _temperature(samples, thermometers),
        "load": _last(samples, "load.1min"),
        "uptime_s": _last(samples, "uptime.since_boot"),
        "free_high_order_pages": _free_pages(samples),
        "swap_used_bytes": _swap(samples),
        "zram_fill": _zram(samples),
    }


def _temperature(samples: Samples, thermometers: Thermometers | None) -> Reading:
    """Return the highest temperature; None if the sensor that was hottest at first has no value now."""
    if "temperature" in samples.absent:
        return ABSENT
    shown = _temperatures(samples)
    if thermometers is not None:
        if thermometers.hottest is not None and thermometers.hottest not in shown:
            return None
        shown = {name: value for name, value in shown.items() if name in thermometers.known}
    return max(shown.values(), default=None)


def _temperatures(samples: Samples) -> dict[str, float]:
    names = (name for name in samples.columns if name.startswith(TEMPERATURES))
    return {name: value for name in names if (value := _last(samples, name)) is not None}


def _free_pages(samples: Samples) -> float | None:
    orders = {int(name.removeprefix(_BLOCKS)): name for name in samples.columns if name.startswith(_BLOCKS)}
    high = {order: _last(samples, name) for order, name in orders.items() if order >= HIGH_ORDER}
    pages = [blocks * 2**order for order, blocks in high.items() if blocks is not None]
    return sum(pages) if pages and len(pages) == len(high) else None


def _swap(samples: Samples) -> Reading:
    total, free = _last(samples, "memory.SwapTotal"), _last(samples, "memory.SwapFree")
    if total == 0:
        return ABSENT
    return total - free if total is not None and free is not None and free <= total else None


def _zram(samples: Samples) -> Reading:
    """Return how full the fullest zram device is; a device of size 0 is not in use."""
    if "zram" in samples.absent:
        return ABSENT
    sized = (name for name in samples.columns if name.startswith("zram.") and name.endswith(".disk"))
    devices = [name.removesuffix(".disk") for name in sized]
    sizes = {device: _last(samples, f"{device}.disk") for device in devices}
    fills = []
    for device, size in sizes.items():
        data = _last(samples, f"{device}.data")
        if size is None or (size and data is None):
            return None
        if size and data is not None:
            fills.append(data / size)
    return max(fills) if fills else ABSENT if devices else None


def others_share(before: Samples | None, after: Samples | None) -> Reading:
    """Return the share of CPU time used between two samples while ktrial waits, without steal time."""
    if before is None or after is None:
        return None
    grown: dict[str, float] = {}
    for field in _CPU_TIMES:
        began, ended = _last(before, f"cpu.{field}"), _last(after, f"cpu.{field}")
        if began is None or ended is None or ended < began:
            return None
        grown[field] = ended - began
    whole = sum(grown.values())
    used = whole - grown["idle"] - grown["iowait"] - grown["steal"]
    return used / whole if whole > 0 else None


def _steal(columns: Mapping[str, Summary]) -> float | None:
    grown = {field: columns[f"cpu.{field}"].difference for field in _CPU_TIMES if f"cpu.{field}" in columns}
    known = [value for value in grown.values() if value is not None]
    stolen = grown.get("steal")
    if stolen is None or len(known) < len(grown) or sum(known) <= 0:
        return None
    return stolen / sum(known)


def _frequency(samples: Samples | None, columns: Mapping[str, Summary]) -> Reading:
    if samples is not None and "frequency" in samples.absent:
        return ABSENT
    means = [summary.mean for name, summary in columns.items() if name.startswith(CLOCKS)]
    known = [mean for mean in means if mean is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(means) else None


def _pressure(samples: Samples | None, columns: Mapping[str, Summary], what: str) -> Reading:
    if samples is not None and "pressure" in samples.absent:
        return ABSENT
    column = columns.get(f"pressure.{what}.some")
    return None if column is None else column.mean


def _throttled(samples: Samples) -> Reading:
    """Return the share of sampling intervals in which a CPU slowed down because of heat."""
    if "throttle" in samples.absent:
        return ABSENT
    columns = [values for name, values in samples.columns.items() if name.startswith("throttle.")]
    intervals = []
    for before, after in pairwise(zip(*columns, strict=True)):
        rises = [new > old for old, new in zip(before, after, strict=True) if old is not None and new is not None]
        if rises:
            intervals.append(any(rises))
    return sum(intervals) / len(intervals) if intervals else None


def _warnings(log: KernelLogDelta | None) -> float | None:
    if log is None or (log.could_not_tell is not None and not log.lines):
        return None
    return float(len(log.lines))


def _fact(facts: FactBook, name: str) -> Reading:
    fact = facts.get(name)
    if fact is None or fact.unknown is not None:
        return None
    if fact.absent is not None:
        return ABSENT
    if isinstance(fact.value, bool):
        return "on" if fact.value else "off"
    return fact.value if isinstance(fact.value, str) else float(fact.value)


def _fullness(facts: FactBook, folder: str) -> Reading:
    """Return how full the disk of a folder is; ABSENT for a file system without a disk."""
    fact = facts.get("filesystems")
    if fact is None or not fact.known:
        return ABSENT if fact is not None and fact.absent is not None else None
    mounts = {str(one.get("mount")): one for one in facts.records("filesystems")}
    above = [mount for mount in mounts if f"{folder}/".startswith(mount.rstrip("/") + "/")]
    if not above:
        return ABSENT
    found = mounts[max(above, key=len)]
    size, used = found.get("size_bytes"), found.get("used_bytes")
    return used / size if isinstance(size, int) and isinstance(used, int) and size > 0 else None


def _last(samples: Samples, name: str) -> float | None:
    values = samples.columns.get(name)
    if not values or values[-1] is None:
        return None
    return values[-1] / samples.units[name].per_unit
