# SPDX-License-Identifier: Apache-2.0
"""Reader of the output of the bpftrace tracers of the micro-stutter suite (see `recordings.micro_stutter`).

Each line begins with a time of day: `pid=27901 comm=Main Thread reclaim_us=4173 nr_reclaimed=343`, `KSWAPD_WAKE nid=0
order=0`, `KSWAPD_SLEEP nid=0`, `dev=271581184 sector=8 lat_ms=11 nr_sector=8`, `pid=7 comm=a fence_wait_ms=6`. Names
may contain blanks and `=`. bpftrace adds lines of its own: a banner, warnings, lost events, and its maps at the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from ktrial.kit.formats.tool_output import for_message, numbered, unreadable
from ktrial.recordings.model import Event, Recording, Source

_CLOCK = r"(?P<at>\d\d:\d\d:\d\d) "
_THREAD = r"pid=(?P<pid>\d{1,10}) comm=(?P<thread>.*?) "
_RECLAIM = re.compile(
    _CLOCK + _THREAD + r"reclaim_us=(?P<us>\d{1,12})(?: nr_reclaimed=(?P<amount>\d{1,15}))?", re.ASCII
)
_SLOW_IO = re.compile(
    _CLOCK + r"dev=(?P<device>\d{1,10}|\d{1,4}:\d{1,7}) sector=\d{1,20} "
    r"lat_ms=(?P<ms>\d{1,9}) nr_sector=(?P<amount>\d{1,10})",
    re.ASCII,
)
_FENCE = re.compile(_CLOCK + _THREAD + r"fence_wait_ms=(?P<ms>\d{1,9})", re.ASCII)
_KSWAPD = re.compile(_CLOCK + r"KSWAPD_(?P<what>WAKE|SLEEP) nid=(?P<node>\d{1,6})(?: order=\d{1,3})?", re.ASCII)
_KINDS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {"direct-reclaim": _RECLAIM, "block-io": _SLOW_IO, "dma-fence": _FENCE}
)
#: Marks of a tracer's line; a line with a mark that matches no pattern is damaged.
_MARKS = ("reclaim_us=", "lat_ms=", "fence_wait_ms=", "KSWAPD_")
#: bpftrace 0.24 writes `Attached N probes` afterwards.
_BANNER = re.compile(r"^Attach(?:ing \d+ probes?\.\.\.|ed \d+ probes?)$", re.ASCII)
_MAP = re.compile(r"@(?P<name>\w*)", re.ASCII)
#: bpftrace's own lines by the name under which notes count them; the first match wins.
_OWN: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "banner": _BANNER,
        "Ctrl-C": re.compile(r"^(?:\^C)+$"),
        "warnings": re.compile(r"\b(?:WARNING|ERROR)\b"),
        "maps": re.compile(r"^@\w*(?:\[|:)|^\]: ", re.ASCII),
        "histograms": re.compile(r"^(?:\[[^\]\[()]+[\])]|\(\.\.\., [^)]*\)) +\d+ \|[@ ]*\|$"),
        "stacks": re.compile(r"^\s{4,}\S+\+\d+$", re.ASCII),
    }
)
_LOST = re.compile(r"Lost (\d{1,12}) events", re.ASCII)
_FULL = re.compile(r"Map (?:is )?full|Can't update", re.IGNORECASE)
_SECTOR_BYTES = 512
_MINOR_BITS = 20
_HEAD_LINES = 200
_DAY_S = 86400.0


def is_trace(head: bytes) -> bool:
    """Return whether the first lines contain bpftrace's banner or a line of a tracer."""
    lines = head.decode("utf-8", "replace").split("\n")[:_HEAD_LINES]
    return any(pattern.search(line) for line in lines for pattern in (*_KINDS.values(), _KSWAPD, _BANNER))


class _Reading(msgspec.Struct):
    """The state of reading. Times count from the midnight of the first line's day, in its zone."""

    source: str
    events: list[Event] = []
    awake: dict[str, float] = {}
    kinds: set[str] = set()
    days: int = 0
    last_s: float = -1.0
    lost: int = 0
    full: int = 0
    skipped: dict[str, int] = {}
    maps: dict[str, None] = {}
    other: str | None = None


def read_trace(data: bytes, source: str) -> Recording:
    """Return the events, with times since the midnight before the first line. Drop a cut-off last line.

    Raise UnreadableOutput if another line of a tracer is damaged, or if no line is from a tracer.
    """
    reading = _Reading(source=source)
    ended = data.endswith(b"\n")
    last = data.count(b"\n") + 1
    for line, text in numbered(data, source):
        if not _is_taken(text.strip(), line, reading):
            if line == last and not ended:
                continue  # the tracer was killed while writing
            _pass_over(text, line, reading)
    for began_s in reading.awake.values():
        reading.events.append(Event(kind="kswapd", source=_source("kswapd"), begin_s=began_s))
    if not reading.kinds:
        wanted = "a trace with events: no line reports one, and ktrial cannot tell what was traced"
        raise unreadable(source, None, "", wanted)
    return _recording(reading)


def _is_taken(text: str, line: int, reading: _Reading) -> bool:
    for kind, pattern in _KINDS.items():
        if (match := pattern.fullmatch(text)) is not None:
            reading.events.append(_event(kind, match, _moment(match["at"], line, reading)))
            reading.kinds.add(kind)
            return True
    match = _KSWAPD.fullmatch(text)
    if match is None:
        return False
    moment_s = _moment(match["at"], line, reading)
    reading.kinds.add("kswapd")
    if match["what"] == "WAKE":
        reading.awake.setdefault(match["node"], moment_s)
    elif (began_s := reading.awake.pop(match["node"], None)) is not None:
        source, took_s = _source("kswapd"), moment_s - began_s
        reading.events.append(Event(kind="kswapd", source=source, begin_s=began_s, duration_s=took_s))
    return True


def _event(kind: str, match: re.Match[str], moment_s: float) -> Event:
    # An event ends when its line is printed.
    found = match.groupdict()
    duration_s = int(found["us"]) / 1e6 if "us" in found else int(found["ms"]) / 1e3
    amount = None if found.get("amount") is None else float(found["amount"])
    return Event(
        kind=kind,
        source=_source(kind),
        begin_s=moment_s - duration_s,
        duration_s=duration_s,
        pid=int(found["pid"]) if "pid" in found else None,
        thread=found.get("thread"),
        device=_device(found["device"]) if "device" in found else None,
        amount=amount * _SECTOR_BYTES if kind == "block-io" and amount is not None else amount,
    )


def _device(text: str) -> str:
    """Return `major:minor`, also from the single number into which the kernel packs them."""
    if ":" in text:
        return text
    number = int(text)
    return f"{number >> _MINOR_BITS}:{number & ((1 << _MINOR_BITS) - 1)}"


def _moment(text: str, line: int, reading: _Reading) -> float:
    hour, minute, second = map(int, text.split(":"))
    if hour > 23 or minute > 59 or second > 60:
        raise unreadable(reading.source, line, text, "a time of day")
    moment_s = hour * 3600.0 + minute * 60 + second
    reading.days += reading.last_s - moment_s > _DAY_S / 2
    reading.last_s = moment_s
    return moment_s + reading.days * _DAY_S


def _pass_over(text: str, line: int, reading: _Reading) -> None:
    if any(mark in text for mark in _MARKS):
        wanted = "HH:MM:SS pid=N comm=NAME reclaim_us=N nr_reclaimed=N, or another line of a tracer"
        raise unreadable(reading.source, line, text, wanted)
    lost = _LOST.search(text)
    if lost is not None:
        reading.lost += int(lost[1])
    elif _FULL.search(text):
        reading.full += 1
    elif text.strip():
        _skip(text.rstrip(), line, reading)


def _skip(text: str, line: int, reading: _Reading) -> None:
    """Count a line by its kind; remember names of maps, and quote the first unknown line."""
    kind = next((name for name, pattern in _OWN.items() if pattern.search(text)), "other")
    reading.skipped[kind] = reading.skipped.get(kind, 0) + 1
    if kind == "maps" and (name := _MAP.match(text)) is not None:
        reading.maps[name[0]] = None
    if kind == "other" and reading.other is None:
        reading.other = f"line {line}: {for_message(text)!r}"


def _skipped(reading: _Reading) -> str:
    more = {"maps": ", ".join(reading.maps), "other": f"first on {reading.other}"}
    parts = [
        f"{kind} {count}" + (f" ({more[kind]})" if kind in more else "")
        for kind, count in sorted(reading.skipped.items(), key=lambda item: [*_OWN, "other"].index(item[0]))
    ]
    total = sum(reading.skipped.values())
    return f"skipped {total} line{'s' if total > 1 else ''} without events: {', '.join(parts)}"


def _recording(reading: _Reading) -> Recording:
    events = sorted(reading.events, key=lambda event: event.begin_s)
    notes = ["tracers print whole seconds: times are accurate to within 1 s"]
    if reading.full:
        times = "once" if reading.full == 1 else f"{reading.full} times"
        notes.append(f"{reading.source}: events are missing, because a map of bpftrace was full {times}")
    if reading.lost:
        notes.append(f"{reading.source}: bpftrace lost {reading.lost} events")
    if reading.skipped:
        notes.append(f"{reading.source}: {_skipped(reading)}")
    sources = tuple(
        Source(
            name=_source(kind),
            state="active",
            seen=sum(event.kind == kind for event in events),
            lost=reading.lost if place == 0 else 0,
        )
        for place, kind in enumerate(sorted(reading.kinds))
    )
    return Recording(
        name=reading.source,
        begin_s=events[0].begin_s if events else max(0.0, reading.last_s),
        end_s=max((event.begin_s + (event.duration_s or 0.0) for event in events), default=max(0.0, reading.last_s)),
        clock_error_s=1.0,
        sources=sources,
        events=tuple(events),
        notes=tuple(notes),
    )


def _source(kind: str) -> str:
    return f"trace.{kind}"
