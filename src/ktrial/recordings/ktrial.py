# SPDX-License-Identifier: Apache-2.0
"""Read ktrial's own recordings, `ktrial.recording/1`: a sequence of blocks, readable up to where it is cut off.

Times are relative to the first moment. Missing values never become 0.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import isnan

import msgspec

from ktrial.kit.formats.tool_output import unreadable
from ktrial.machine.sensors import Sensor
from ktrial.recordings.blocks import OwnSource
from ktrial.recordings.ktrial_blocks import MAGIC, BlockLayout, Blocks, Head, head_of, numbers, read_blocks
from ktrial.recordings.latency import Latencies, PowerState, state_left
from ktrial.recordings.model import CrossCheck, Event, Frames, Gap, Recording, Series, SeriesKind, Source
from ktrial.recordings.usage import usages
from ktrial.recordings.watching import OF_PROGRAM, TracedEvent, doubts

#: Cells for a missing value, and for an implausible value of a sensor.
_NOT_THERE = (-(2**63), -(2**63) + 1)
_S = 1e-9
_CLOCKS = {"suspended": "clocks.suspended", "unix": "clocks.unix"}
#: A larger change of a clock between two samples is a step, not drift.
_STEP_S = 0.05
#: Kind of the additional event for a request that woke a drive.
_EXIT = "nvme-exit"
_TRIGGERS = "triggers"
#: Sources without rows of columns.
_WITHOUT_COLUMNS = ("usage", _TRIGGERS)
_KINDS: dict[str, SeriesKind] = {"counter": "counter", "level": "gauge"}


def is_recording(head: bytes) -> bool:
    return head.startswith(MAGIC)


def read_recording(data: bytes, name: str, wanted: Callable[[str], bool] = lambda _: True) -> Recording:
    """Read the `wanted` series of a recording. Raise UnreadableOutput for a bad header or inconsistent data."""
    if not is_recording(data):
        raise unreadable(name, None, repr(data[: len(MAGIC)]), "the beginning of a recording of ktrial")
    blocks = read_blocks(data, name)
    if blocks.head is None:
        raise unreadable(name, None, "", f"a recording: its header is missing ({blocks.cut or 'it is empty'})")
    try:
        return _recording(name, blocks, blocks.head, wanted)
    except (ValueError, OverflowError) as error:
        raise unreadable(name, None, "", f"a consistent recording ({error})") from None


def started_ns(data: bytes, name: str) -> int:
    """Return the monotonic time that is 0 in a recording. Raise UnreadableOutput if its header is unreadable."""
    return head_of(data, name).started_ns


def _recording(name: str, blocks: Blocks, head: Head, wanted: Callable[[str], bool]) -> Recording:
    start_ns = head.started_ns
    series: dict[str, Series] = {}
    last_s = 0.0
    for parts in blocks.rows.values():
        found, end_s = _series(parts, start_ns, wanted)
        series.update(found)
        last_s = max(last_s, end_s)
    states = _states(head)
    events = tuple(sorted(_events(blocks.events, start_ns, states), key=lambda event: event.begin_s))
    end_s = last_s if blocks.tail is None else max(last_s, blocks.tail.wall_ns * _S)
    gaps = _gaps(blocks, start_ns)
    if blocks.tail is None:
        gaps.append(Gap(kind="cut-off", begin_s=end_s, end_s=end_s, why=blocks.cut or "the end was never written"))
    return Recording(
        name=name,
        begin_s=0.0,
        end_s=end_s,
        unix_at_zero_s=(head.unix_at_zero_ns + start_ns) * _S,
        clock_error_s=_clock_error_s(blocks, head),
        ended="whole" if blocks.tail is not None else "cut-off",
        sources=_sources(blocks, head, events, states, _failed(blocks, series)),
        series=series,
        events=events,
        frames=_wake_ups(blocks, head),
        usages=usages(blocks.looks, start_ns),
        latencies=_latencies(blocks, states),
        gaps=tuple(gaps),
        checks=_checks(blocks),
        command=head.command or (),
        groups=head.groups,
        interrupts=None if blocks.tail is None else blocks.tail.interrupts,
        machine=_machine(head),
        notes=_notes(blocks, head),
    )


def _series(
    parts: list[tuple[BlockLayout, bytes]], start_ns: int, wanted: Callable[[str], bool]
) -> tuple[dict[str, Series], float]:
    """Return the series of a group over all its layouts, and its last moment."""
    import numpy as np

    found: dict[str, Series] = {}
    last_s = 0.0
    runs: list[tuple[BlockLayout, list[bytes]]] = []
    for layout, content in parts:
        if runs and runs[-1][0] is layout:
            runs[-1][1].append(content)
        else:
            runs.append((layout, [content]))
    for layout, contents in runs:
        table = np.concatenate([numbers(content) for content in contents], axis=1)
        times_s = array("d", ((table[0] - start_ns) * _S).tobytes())
        last_s = max([last_s, *times_s[-1:]])
        for (name, sensor), row in zip(layout.columns.items(), table[1:], strict=True):
            if wanted(name):
                values = np.where(np.isin(row, _NOT_THERE), np.nan, row / sensor.per_unit)
                one = _one(name, layout.source, sensor, times_s, array("d", values.tobytes()))
                found[name] = one if name not in found else _join_series(found[name], one)
    return found, last_s


def _one(name: str, source: str, sensor: Sensor, times_s: array[float], values: array[float]) -> Series:
    kind = _KINDS[sensor.kind]
    return Series(
        name=name, source=source, unit=sensor.unit, kind=kind, times_s=times_s, values=values, label=sensor.label
    )


def _join_series(before: Series, after: Series) -> Series:
    return msgspec.structs.replace(before, times_s=before.times_s + after.times_s, values=before.values + after.values)


def _states(head: Head) -> dict[str, tuple[PowerState, ...]]:
    """Return the power states that each drive may enter on its own."""
    return {
        device: tuple(state for state in one.power_states or () if not state.operational)
        for device, one in head.nvme.items()
        if one.apst is not False and one.power_states
    }


def _events(told: Iterable[TracedEvent], start_ns: int, states: dict[str, tuple[PowerState, ...]]) -> Iterator[Event]:
    """Yield all events, and an additional one for each request that woke a drive."""
    for one in told:
        event = _event(one, start_ns)
        yield event
        idle_s = None if one.idle_ns is None else one.idle_ns * _S
        left = state_left(event.duration_s or 0.0, idle_s, states.get(one.device or "", ()))
        if left is not None:
            detail = f"state {left.id}, {1e3 * left.exit_s:g} ms to leave it"
            yield msgspec.structs.replace(event, kind=_EXIT, source=f"trace.{_EXIT}", detail=detail)


def _latencies(blocks: Blocks, states: dict[str, tuple[PowerState, ...]]) -> dict[str, Latencies]:
    devices = {} if blocks.tail is None or blocks.tail.trace is None else blocks.tail.trace.devices
    return {
        name: Latencies(
            requests=one.requests,
            bytes=one.bytes,
            flushes=one.flushes,
            histogram=tuple((end_ns * _S, count) for end_ns, count in one.histogram),
            after_idle=tuple((end_ns * _S, count) for end_ns, count in one.after_idle),
            states=states.get(name, ()),
        )
        for name, one in devices.items()
    }


def _event(one: TracedEvent, start_ns: int) -> Event:
    return Event(
        kind=one.kind,
        source=_TRIGGERS if one.kind.startswith("pressure-") else "trace",
        begin_s=(one.begin_ns - start_ns) * _S,
        duration_s=None if one.length_ns is None else one.length_ns * _S,
        cpu=one.cpu,
        pid=one.pid,
        thread=one.thread,
        device=one.device,
        victim=one.victim,
        amount=None if one.amount is None else float(one.amount),
        detail=one.detail,
    )


def _wake_ups(blocks: Blocks, head: Head) -> Frames | None:
    """Return the agent's wake-ups as frames, which last the period plus their lateness; None if there are none."""
    rows = [part for parts in blocks.rows.values() for part in parts if part[0].source == "wakeup"]
    period_ns = head.period_ns.get("wakeup")
    if not rows or period_ns is None:
        return None
    found, _ = _series(rows, head.started_ns, lambda name: name == "wakeup.late")
    late = found.get("wakeup.late")
    if late is None:
        return None
    ends_s = array("d", (due_s + late_s for due_s, late_s in zip(late.times_s, late.values, strict=True)))
    durations_s = array("d", (period_ns * _S + late_s for late_s in late.values))
    return Frames(kind="wake-up", source="wakeup", ends_s=ends_s, durations_s=durations_s)


def _gaps(blocks: Blocks, start_ns: int) -> list[Gap]:
    rows = [part for parts in blocks.rows.values() for part in parts if part[0].source == "clocks"]
    if not rows:
        return []
    found, _ = _series(rows, start_ns, lambda name: name in _CLOCKS.values())
    slept, unix = (found.get(name) for name in _CLOCKS.values())
    gaps = []
    if slept is None or unix is None:
        return []
    for at in range(1, len(slept.values)):
        begin_s, end_s = slept.times_s[at - 1], slept.times_s[at]
        suspended_s = slept.values[at] - slept.values[at - 1]
        stepped_s = unix.values[at] - unix.values[at - 1] - suspended_s
        if suspended_s > _STEP_S:
            why = f"the machine was suspended for {suspended_s:.1f} s"
            gaps.append(Gap(kind="suspend", begin_s=begin_s, end_s=end_s, why=why))
        if abs(stepped_s) > _STEP_S:
            why = f"the wall clock stepped by {stepped_s:+.2f} s"
            gaps.append(Gap(kind="clock-step", begin_s=begin_s, end_s=end_s, why=why))
    return gaps


def _failed(blocks: Blocks, series: dict[str, Series]) -> dict[str, str]:
    """Return the sources that had failed by the end, and why."""
    reports = {} if blocks.tail is None else blocks.tail.sources
    last: dict[str, list[float]] = {}
    for one in series.values():
        last.setdefault(one.source, []).extend(one.values[-1:])
    failed = {}
    for name, values in last.items():
        report = {} if name in OF_PROGRAM else reports.get(name, {})
        gone = [f"{path}: {one['why']}" for path, one in (report.get("gone") or {}).items()]
        if all(isnan(value) for value in values) and (gone or report.get("failures")):
            failed[name] = "; ".join(gone) or f"{report['failures']} reads failed"
    return failed


def _sources(
    blocks: Blocks,
    head: Head,
    events: tuple[Event, ...],
    states: dict[str, tuple[PowerState, ...]],
    failed: dict[str, str],
) -> tuple[Source, ...]:
    periods = head.period_ns
    ended = {} if blocks.tail is None else blocks.tail.sources
    trace = None if blocks.tail is None else blocks.tail.trace
    found = [Source(name=name, state="absent", why=why) for name, why in head.absent.items()]
    found += [_own_source(own, blocks) for own in blocks.own.values()]
    for layout in blocks.layouts.values():
        if layout.source in blocks.own:
            continue
        report = ended.get(layout.source, {})
        seconds = 0.0 if blocks.tail is None else blocks.tail.wall_ns * _S
        taken = report.get("taken")
        found.append(
            Source(
                name=layout.source,
                state="failed" if layout.source in failed else "active",
                why=failed.get(layout.source),
                wanted_hz=1e9 / periods[layout.source] if periods.get(layout.source) else None,
                achieved_hz=taken / seconds if taken is not None and seconds else None,
                late_s=report["late_ns"] * _S if "late_ns" in report else None,
                cost_cpu_s=report["cpu_ns"] * _S if "cpu_ns" in report else None,
                seen=trace.read if trace is not None and layout.source == "trace" else taken,
                lost=trace.lost if trace is not None and layout.source == "trace" else 0,
            )
        )
    named = {source.name for source in found}
    kinds = Counter(event.source for event in events)
    if states:
        kinds.setdefault(f"trace.{_EXIT}", 0)
    for name in (*kinds, *(name for name in _WITHOUT_COLUMNS if name in periods and name not in kinds)):
        if name not in named:
            report = ended.get(name, {})
            cost_s = report["cpu_ns"] * _S if "cpu_ns" in report else None
            found.append(
                Source(name=name, state="active", seen=kinds.get(name, report.get("taken")), cost_cpu_s=cost_s)
            )
    return tuple(found)


def _own_source(own: OwnSource, blocks: Blocks) -> Source:
    seconds = 0.0 if blocks.tail is None else blocks.tail.wall_ns * _S
    why = own.why or "reason unknown" if own.state != "active" else None
    return Source(
        name=own.source,
        state=own.state,
        why=why,
        wanted_hz=1e9 / own.period_ns if own.period_ns else None,
        achieved_hz=own.taken / seconds if own.taken and seconds else None,
        late_s=own.late_ns * _S,
        cost_cpu_s=own.cpu_ns * _S,
        seen=own.taken,
    )


def _checks(blocks: Blocks) -> tuple[CrossCheck, ...]:
    if blocks.tail is None or blocks.tail.trace is None:
        return ()
    checks = blocks.tail.trace.checks
    return tuple(CrossCheck(what=one.what, seen=one.seen, counted=one.counted, agree=one.agree) for one in checks)


def _notes(blocks: Blocks, head: Head) -> tuple[str, ...]:
    notes = [] if blocks.cut is None else [blocks.cut]
    if blocks.tail is not None:
        notes += [finding.sentence for finding in doubts(blocks.tail, head.absent)]
    return tuple(notes)


def _clock_error_s(blocks: Blocks, head: Head) -> float:
    traced = 0 if blocks.tail is None or blocks.tail.trace is None else blocks.tail.trace.clock_error_ns
    return max(traced, head.clock_error_ns) * _S


def _machine(head: Head) -> dict[str, str | int | float]:
    known = {
        name: getattr(head, name) for name in ("kernel", "architecture", "cpus", "boot_id", "process", "frame_thread")
    }
    return {name: value for name, value in known.items() if value is not None}
