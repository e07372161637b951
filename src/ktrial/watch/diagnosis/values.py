# SPDX-License-Identifier: Apache-2.0
"""Computes values for this machine from a recording: limits of control groups, CPUs of interrupts, zram size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, isfinite
from typing import Any

import msgspec
import numpy as np

from ktrial.judge.stats.arrays import Array
from ktrial.kit.errors import BadInput
from ktrial.kit.units import show_bytes, three_digits
from ktrial.machine.ports import Machine
from ktrial.recordings.model import GroupLimits, Recording, Series, rate_of
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.observe import observe
from ktrial.watch.diagnosis.model import Diagnosis

#: Factor on the peak use of a group that reached its limit.
_ROOM = 1.25
#: Quotas are rounded up to whole milliseconds.
_STEP_US = 1000
#: A CPU belongs to the frame thread if the thread was seen there at least this often.
_OWN_CPU = 0.1


class Computed(msgspec.Struct, frozen=True):
    """A setting, and how the recording justifies it. `start_in` is the control group in which a trial must run."""

    address: str
    value: str
    because: str
    start_in: str | None = None


def group_memory(knob: Knob, recording: Recording, machine: Machine) -> Computed:
    """Return a memory limit for a group: a quarter above the limit that it reached, or above its peak use if higher.

    Raise BadInput if the recording lacks the data or the limit no longer exists.
    """
    event = knob.id.rpartition(".")[2]
    prefix, group = _limited(recording, f"memory_events.{event}", knob)
    held = _peak(recording, prefix, group)
    facts = machine.facts(("memory",))
    total, page = facts.value("memory.total"), facts.value("memory.page_bytes")
    if not isinstance(total, int):
        raise BadInput("cannot compute a value (total memory is unknown)")
    page_bytes = page if isinstance(page, int) else 4096
    now = _in_force(knob, group, machine)
    if not now.isdigit():
        raise BadInput(f"{group.path} no longer has a limit to raise (the value is {now})")
    value = int(min(max(held, int(now)) * _ROOM, total)) // page_bytes * page_bytes
    if value <= int(now):
        raise BadInput(f"{group.path} may already use {show_bytes(int(now))}, all of this machine's memory")
    because = f"its peak use, including swap, was {show_bytes(held)}; a quarter is added"
    return Computed(_address(knob, group), str(value), because, _own_group(knob, group, recording, machine))


def group_cpu(knob: Knob, recording: Recording, machine: Machine) -> Computed:
    """Return a higher CPU quota with the same period, enough for the CPU time that throttling denied to the group.

    Raise BadInput if the recording lacks the data or the quota no longer exists.
    """
    prefix, group = _limited(recording, "cpu.nr_throttled", knob)
    usage, held = (recording.series.get(f"{prefix}.cpu.{what}") for what in ("usage", "throttled"))
    if usage is None or held is None:
        raise BadInput(f"the recording lacks the CPU time of {group.path}; record again")
    often = rate_of(recording.series[f"{prefix}.cpu.nr_throttled"])[1]
    at = np.isfinite(often) & (often > 0)
    used_s, held_s = (_grown(series, at) for series in (usage, held))
    words = _in_force(knob, group, machine).split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or used_s <= 0:
        raise BadInput(f"{group.path} no longer has a quota to raise (the value is {' '.join(words)})")
    quota_us, period_us = map(int, words)
    wanted_us = ceil(quota_us * (1 + held_s / used_s) / _STEP_US) * _STEP_US
    cpus = machine.facts(("cpu.threads",)).value("cpu.threads")
    unlimited = isinstance(cpus, int) and wanted_us >= cpus * period_us
    because = (
        f"while throttled, the group used {three_digits(used_s)} s of CPU time and would have used "
        f"{three_digits(held_s)} s more{', all CPUs together' if unlimited else ''}"
    )
    value = f"{'max' if unlimited else wanted_us} {period_us}"
    return Computed(_address(knob, group), value, because, _own_group(knob, group, recording, machine))


def _address(knob: Knob, group: GroupLimits) -> str:
    return f"{knob.id}@{group.path.strip('/')}"


def _own_group(knob: Knob, limited: GroupLimits, recording: Recording, machine: Machine) -> str:
    """Return the program's own group, or the limited group above it if the own group is gone. The limit covers both."""
    own = recording.groups[0]
    try:
        _in_force(knob, own, machine)
    except BadInput:
        return limited.path
    return own.path


def _limited(recording: Recording, counter: str, knob: Knob) -> tuple[str, GroupLimits]:
    """Return the program's group that reached its limit most often, as the prefix of its series and its limits."""
    grown: dict[str, float] = {}
    for name, series in recording.series.items():
        if name.startswith("cgroup.") and name.endswith(f".{counter}"):
            values = [value for value in series.values if isfinite(value)]
            grown[name.removesuffix(f".{counter}")] = values[-1] - values[0] if values else 0.0
    prefix = max(grown, key=lambda one: grown[one], default=None)
    if prefix is None or grown[prefix] <= 0:
        raise BadInput("no control group of the program reached its limit")
    path = recording.series[f"{prefix}.{counter}"].label
    if path is not None and not path.startswith("/"):
        raise BadInput(f"the reached limit belongs to {path}, a cgroup of version 1; set the limit by hand")
    group = next((one for one in recording.groups if one.path == path), None)
    if group is None:
        raise BadInput(f"the recording lacks the limits of {path or 'the control group'}; record again")
    return prefix, group


def _peak(recording: Recording, prefix: str, group: GroupLimits) -> int:
    """Return a group's peak use of memory and swap together."""
    memory, swap = (recording.series.get(f"{prefix}.{what}") for what in ("memory", "swap"))
    held = np.asarray(() if memory is None else memory.values, dtype=float)
    if swap is not None and len(swap.values) == len(held):
        held = held + np.nan_to_num(np.asarray(swap.values))
    if not np.isfinite(held).any():
        raise BadInput(f"the recording lacks the memory use of {group.path}; record again")
    return int(np.nanmax(held))


def _in_force(knob: Knob, group: GroupLimits, machine: Machine) -> str:
    label = group.path.strip("/")
    for instance in observe(machine, [knob], [label])[knob.id].instances:
        if instance.label == label and instance.reading.text is not None:
            return instance.reading.text
    raise BadInput(f"the control group {label} no longer exists; diagnose while its program runs")


def _grown(series: Series, at: Any) -> float:
    """Return the total growth of a counter up to the selected samples."""
    steps = np.diff(np.asarray(series.values), prepend=np.nan)
    return float(np.nansum(steps[at])) if len(steps) == len(at) else 0.0


def irq_away(knob: Knob, recording: Recording, machine: Machine, diagnosis: Diagnosis) -> Computed:
    """Return an affinity that moves the busiest interrupt during stutters off the CPUs of the frame thread.

    Raise BadInput if the interrupt cannot be moved, if that would not help, or if the recording lacks the data.
    """
    line, label = _busiest(recording, diagnosis.late)
    called = f"interrupt {line} ({label})" if label else f"interrupt {line}"
    if not line.isdigit():
        raise BadInput(f"{called}, the busiest during stutters, cannot move because every CPU has one of its own")
    own = _cpus_of_frames(recording)
    served = None if recording.interrupts is None else recording.interrupts.get(line)
    if served is not None:
        on = int(max(served.cpus, key=lambda cpu: served.cpus[cpu]))
        if own.get(on, 0.0) < _OWN_CPU:
            raise BadInput(
                f"{called} was handled by CPU {on}, where the frame thread does not run; moving it would not help"
            )
    state = observe(machine, [knob])[knob.id]
    here = next((one for one in state.instances if one.label == f"irq{line}"), None)
    if here is None or here.reading.text is None:
        raise BadInput(f"{called} does not exist on this machine")
    if not here.reading.writable:
        raise BadInput(f"{called} cannot move because the kernel manages it")
    online = machine.facts(("cpu.online",)).value("cpu.online")
    cpus = set(online) if isinstance(online, list | tuple) else set()
    if len(cpus) < 2:
        raise BadInput(f"{called} cannot move because no other CPU could handle it")
    mask = int(here.reading.text.replace(",", ""), 16)
    allowed = {cpu for cpu in cpus if mask >> cpu & 1}
    usual = {cpu for cpu, share in own.items() if share >= _OWN_CPU}
    top = max(own, key=lambda cpu: own[cpu])
    rest = next(left for left in (allowed - usual, cpus - usual, allowed - {top}, cpus - {top}) if left)
    because = f"{called} was the busiest during stutters, and the frame thread ran on CPU {top} ({own[top]:.0%})"
    return Computed(f"{knob.id}@irq{line}", _mask_text(rest), because)


def _mask_text(cpus: set[int]) -> str:
    """Format a CPU mask like the kernel, in groups of 32 CPUs."""
    digits = f"{sum(1 << cpu for cpu in cpus):x}"
    if len(digits) <= 8:
        return digits
    digits = digits.zfill(-(-len(digits) // 8) * 8)
    return ",".join(digits[at : at + 8] for at in range(0, len(digits), 8))


def _cpus_of_frames(recording: Recording) -> Mapping[int, float]:
    """Return the share of samples in which the frame thread was on each CPU."""
    thread = recording.machine.get("frame_thread", recording.machine.get("process"))
    series = recording.series.get(f"threads.{thread}.cpu")
    seen = [int(value) for value in series.values if isfinite(value)] if series is not None else []
    if not seen:
        raise BadInput(
            "the recording lacks the CPUs of the frame thread; record the program again with `ktrial watch -- PROGRAM`"
        )
    return {cpu: seen.count(cpu) / len(seen) for cpu in set(seen)}


def _busiest(recording: Recording, late: Sequence[tuple[float, float]]) -> tuple[str, str | None]:
    """Return the interrupt whose handler took longest during stutters, or the one whose rate rose most."""
    spans = [(begin_s, begin_s + took_s) for begin_s, took_s in late]
    took_s: dict[str, float] = {}
    for event in recording.events:
        if event.kind == "irq" and event.amount is not None:
            end_s = event.begin_s + (event.duration_s or 0.0)
            if any(event.begin_s <= last and end_s >= first for first, last in spans):
                line = str(int(event.amount))
                took_s[line] = took_s.get(line, 0.0) + (event.duration_s or 0.0)
    if took_s:
        line = max(took_s, key=lambda one: took_s[one])
        series = recording.series.get(f"interrupts.{line}")
        return line, None if series is None else series.label
    above = {
        name: _more_often(series, spans) for name, series in recording.series.items() if name.startswith("interrupts.")
    }
    name = max(above, key=lambda one: above[one], default=None)
    if name is None or above[name] <= 0:
        raise BadInput("no interrupt was more frequent during stutters than at other times")
    return name.removeprefix("interrupts."), recording.series[name].label


def _more_often(series: Series, spans: Sequence[tuple[float, float]]) -> float:
    """Return how much higher the rate per second was during stutters than at other times."""
    times_s, rates = rate_of(series)
    known = np.isfinite(rates)
    inside = _overlapping(times_s, spans) & known
    outside = known & ~inside
    if not inside.any():
        return 0.0
    return float(rates[inside].mean() - (rates[outside].mean() if outside.any() else 0.0))


def _overlapping(times_s: Array, spans: Sequence[tuple[float, float]]) -> Any:
    """Return for each sample whether the time since the previous one overlaps a stutter."""
    before_s = np.concatenate([times_s[:1], times_s[:-1]])
    hit = np.zeros(len(times_s), dtype=bool)
    for first, last in spans:
        hit |= (before_s <= last) & (times_s >= first)
    return hit


def zram_half(knob: Knob, machine: Machine) -> Computed:
    """Return a zram device of half the memory. Raise BadInput if a device exists, or the total memory is unknown."""
    facts = machine.facts(("memory.total", "zram.devices"))
    total = facts.value("memory.total")
    if facts.records("zram.devices"):
        raise BadInput("this machine already has a zram device")
    if not isinstance(total, int):
        raise BadInput("cannot compute a value (total memory is unknown)")
    return Computed(knob.id, str(total // 2 >> 20 << 20), "half of this machine's memory")
