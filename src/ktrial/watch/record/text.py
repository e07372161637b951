# SPDX-License-Identifier: Apache-2.0
"""Shows a watch as plain lines: one for each stretch of time, and a summary at the end."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence

from ktrial.kit.finding import Finding
from ktrial.kit.tables import clean, paragraph
from ktrial.kit.units import show_bytes
from ktrial.recordings.watching import COMPACTION_SCAN, MachineView, TracedEvent, WatchEnded

HEADER = f"{'time':>9}  {'cpu':>6} {'memory':>7} {'io':>6}  {'available':>10}  {'events':>7}  {'lost':>5}  {'cost':>6}"
#: Maximum number of the longest events in the line of a stretch.
_MOST_EVENTS = 3
#: Minimum duration of an event that is listed during a watch.
_NAMED_NS = 5_000_000
_US_PER_S = 1e6
_PRESSURES = ("pressure.cpu.some", "pressure.memory.some", "pressure.io.some")


def stretch(before: MachineView | None, now: MachineView, events: Sequence[TracedEvent]) -> str:
    """Return a line on the time between two reports (pressure, memory, events, cost), and the worst events."""
    shares = [_share(before, now, name) for name in _PRESSURES]
    available = now.columns.get("memory.MemAvailable")
    cells = (
        f"{(now.at_ns - now.started_ns) / 1e9:>7.0f} s",
        f"{shares[0]:>6} {shares[1]:>7} {shares[2]:>6}",
        f"{'-' if available is None else show_bytes(available):>10}",
        f"{len(events):>7}",
        f"{'-' if now.lost is None else now.lost:>5}",
        f"{now.cost:>6.2%}",
    )
    lines = ["  ".join(cells)]
    named = sorted((one for one in events if (one.length_ns or 0) >= _NAMED_NS), key=lambda one: -(one.length_ns or 0))
    lines += [f"           {event_text(one, now.started_ns)}" for one in named[:_MOST_EVENTS]]
    return "\n".join(lines) + "\n"


def _share(before: MachineView | None, now: MachineView, name: str) -> str:
    if before is None or name not in now.columns or name not in before.columns:
        return "-"
    waited_s = (now.columns[name] - before.columns[name]) / _US_PER_S
    return f"{waited_s / max(1e-9, (now.at_ns - before.at_ns) / 1e9):.1%}"


def event_text(event: TracedEvent, started_ns: int) -> str:
    when = f"{(event.begin_ns - started_ns) / 1e9:.3f} s"
    length = "" if event.length_ns is None else f" {event.length_ns / 1e6:.1f} ms"
    who = f" of {event.thread or 'a thread that has ended'} ({event.pid})" if event.pid else ""
    where = f" on {event.device}" if event.device else ""
    victim = ", the frame thread" if event.victim else ", of the program" if event.watched else ""
    return clean(f"{when}: {event.kind}{length}{where}{who}{victim}")


def summary(ended: WatchEnded, file: str, findings: Sequence[Finding], head_cpu_s: float | None, width: int) -> str:
    """Return the duration, cost and size of a watch, its events by kind, and its findings.

    `head_cpu_s` is None if the head did not run on the watched machine. The last line is the command that evaluates
    the recording.
    """
    wall_s = ended.wall_ns / 1e9
    beside = "" if head_cpu_s is None else f", ktrial itself {head_cpu_s / max(1e-9, wall_s):.2%}"
    lines = [
        f"watched for {wall_s:.1f} s; {file}: {show_bytes(ended.bytes)}, {show_bytes(ended.bytes_per_hour)} an hour",
        f"the agent took {ended.cost:.2%} of one CPU{beside}",
    ]
    if ended.trace is not None:
        told = {kind: count for kind, count in ended.trace.counts.items() if count.count}
        if told:
            lines.append(f"\n{'event':<18}{'times':>10}{'together':>14}{'longest':>14}")
        for kind, count in sorted(told.items(), key=lambda item: -item[1].time_ns):
            together = f"{count.time_ns / 1e9:.3f} s" if count.time_ns else "-"
            longest = f"{count.longest_ns / 1e6:.2f} ms" if count.time_ns else "-"
            lines.append(f"{kind:<18}{count.count:>10}{together:>14}{longest:>14}")
        agree = [check for check in ended.trace.checks if check.agree and check.what != COMPACTION_SCAN]
        if agree:
            same = ", ".join(f"{check.what} {check.shown} of {check.told}" for check in agree)
            lines += ["", paragraph(f"in agreement with kernel counters: {same}", width=width)]
    for finding in findings:
        mark = "**!** " if finding.level != "note" else "note: "
        lines.append(paragraph(f"{mark}{finding.sentence}", width=width))
    lines += ["", f"next: {shlex.join(('ktrial', 'diagnose', posixpath.dirname(file) or '.'))}"]
    return "\n".join(lines) + "\n"
