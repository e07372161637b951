# SPDX-License-Identifier: Apache-2.0
"""Reader of the output of `atop -r FILE -P ALL`: lines with a label, six fields on the sample, and its values."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from math import nan

import msgspec

from ktrial.kit.formats.tool_output import number, numbered, unreadable
from ktrial.recordings.model import Recording, Usage
from ktrial.recordings.recording import Column, recording_of, steadied

#: The first bytes of a raw log of atop on little-endian machines.
_RAW = b"\xef\xbe\xed\xfe"
_LINE = re.compile(
    r"(?P<label>[A-Za-z]{3}) (?P<host>\S+) (?P<epoch>\d{9,11}) \S+ \S+ (?P<interval>\d{1,9})(?: (?P<rest>.*))?"
)
_PROCESS = re.compile(r"(?=[^\n]*\Z)(?P<pid>\d{1,10}) \((?P<name>.*)\) (?P<state>\S) (?P<rest>.*)")
_CPU = ("system", "user", "nice", "idle", "iowait", "irq", "softirq", "steal")
_PSI = ("cpu.some", "memory.some", "memory.full", "io.some", "io.full")
#: A recording has at most this many processes, those with the most memory.
_MOST_PROCESSES = 200
#: Position of the PRM field that distinguishes processes from threads.
_IS_PROCESS = 13
_Put = Callable[[str, str, float], None]


class _Moment(msgspec.Struct):
    """One sample: its values by series, memory by process."""

    epoch: float
    interval_s: float
    values: dict[str, float] = msgspec.field(default_factory=dict)
    memory: dict[tuple[int, str], float] = msgspec.field(default_factory=dict)


def is_atop_raw(head: bytes) -> bool:
    """Return whether this is a raw log, which only atop itself can print."""
    return head.startswith(_RAW)


def is_atop(head: bytes) -> bool:
    lines = [line for line in head.decode("utf-8", "replace").split("\n")[:20] if line not in {"RESET", "SEP"}]
    found = [match["label"] for line in lines if (match := _LINE.fullmatch(line)) is not None]
    return bool(found) and found[0] in {*_READERS, "cpu", "CPL", "GPU", "PRG", "PRM"}


def read_atop(data: bytes, source: str = "atop") -> Recording:
    """Return series of CPU, memory, swap, paging, pressure and disks, and the memory of processes.

    Raise UnreadableOutput for other text.
    """
    found = _Samples(source)
    for line, text in numbered(data, source):
        found.take(line, text)
    found.close()
    if len(found.hosts) > 1:
        raise unreadable(source, None, "", f"a recording of one host: it has {len(found.hosts)} hosts")
    return _recording(source, found)


class _Samples:
    """Collects the samples of a log line by line."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._since_boot = False
        self._now: _Moment | None = None
        self.moments: list[_Moment] = []
        self.units: dict[str, str] = {}
        self.hosts: set[str] = set()
        self.notes: list[str] = []

    def take(self, line: int, text: str) -> None:
        if text == "RESET":
            self._since_boot = True
        elif text == "SEP":
            self._end()
        elif text.strip():
            match = _LINE.fullmatch(text)
            if match is None:
                wanted = "a label, host, seconds since 1970, date, time, interval, values"
                raise unreadable(self._source, line, text, wanted)
            self.hosts.add(match["host"])
            if self._now is None:
                self._now = _Moment(float(match["epoch"]), float(match["interval"]))
            _take(match["label"], match["rest"] or "", self._now, self.units, (self._source, line))

    def close(self) -> None:
        if self._now is not None and not self._since_boot:
            self.notes.append("the last sample is incomplete and left out")

    def _end(self) -> None:
        if self._now is not None and not self._since_boot:
            self.moments.append(self._now)
        elif self._now is not None and self.moments:
            self.notes.append(f"atop restarted at {self._now.epoch:.0f}, possibly after a boot")
        self._now, self._since_boot = None, False


def _recording(source: str, found: _Samples) -> Recording:
    moments = found.moments
    epochs = [moment.epoch for moment in moments]
    times_s, gaps = steadied(epochs, source, [moment.interval_s for moment in moments])
    columns = [
        Column(
            name=name,
            unit=unit,
            kind="rate" if unit in {"1/s", "B/s"} else "gauge",
            values=[moment.values.get(name, nan) for moment in moments],
        )
        for name, unit in found.units.items()
    ]
    machine = {"nodename": min(found.hosts, default="")}
    made = recording_of(source, "atop", epochs, times_s, columns, notes=found.notes, machine=machine)
    return msgspec.structs.replace(made, gaps=gaps, usages=_usages(moments, times_s))


def _usages(moments: Sequence[_Moment], times_s: Sequence[float]) -> tuple[Usage, ...]:
    """Return the memory over time of the processes that used the most; 0 while a process does not exist."""
    largest: dict[tuple[int, str], float] = {}
    for moment in moments:
        for process, size in moment.memory.items():
            largest[process] = max(size, largest.get(process, 0.0))
    kept = sorted(largest, key=lambda process: -largest[process])[:_MOST_PROCESSES]
    base = times_s[0] if times_s else 0.0
    shared = array("d", (time_s - base for time_s in times_s))
    return tuple(
        Usage(
            name=name,
            pid=pid,
            times_s=shared,
            memory_bytes=array("d", (moment.memory.get((pid, name), 0.0) for moment in moments)),
        )
        for pid, name in kept
    )


def _take(label: str, rest: str, now: _Moment, units: dict[str, str], where: tuple[str, int]) -> None:
    def put(name: str, unit: str, value: float) -> None:
        units.setdefault(name, unit)
        now.values[name] = value

    if label == "PRM":
        _process(rest, now, where)
    elif label in _READERS:
        _READERS[label](rest.split(" "), max(now.interval_s, 1.0), put, where)


def _numbers(words: Sequence[str], least: int, what: str, where: tuple[str, int]) -> list[float]:
    source, line = where
    if len(words) < least:
        raise unreadable(source, line, " ".join(words), f"{least} or more values at the end of a line of {what}")
    return [number(word, source, line, f"a value of {what}") for word in words[:least]]


def _cpu(words: Sequence[str], interval_s: float, put: _Put, where: tuple[str, int]) -> None:
    ticks = _numbers(words, 2 + len(_CPU), "CPU", where)[2:]
    total = sum(ticks)
    if total > 0:
        shares = {name: value / total for name, value in zip(_CPU, ticks, strict=True)}
        for name in ("user", "system", "iowait", "steal", "idle"):
            put(f"cpu.{name}", "ratio", shares[name])


def _memory(words: Sequence[str], interval_s: float, put: _Put, where: tuple[str, int]) -> None:
    page, _, free, cached, buffers, _, dirty = _numbers(words, 7, "MEM", where)
    for name, pages in (("free", free), ("cached", cached), ("buffers", buffers), ("dirty", dirty)):
        put(f"memory.{name}", "B", pages * page)


def _swap(words: Sequence[str], interval_s: float, put: _Put, where: tuple[str, int]) -> None:
    page, size, free = _numbers(words, 3, "SWP", where)
    put("swap.used", "B", (size - free) * page)


def _paging(words: Sequence[str], interval_s: float, put: _Put, where: tuple[str, int]) -> None:
    _, scans, stalls, _, swapped_in, swapped_out = _numbers(words, 6, "PAG", where)
    for name, count in (
        ("pgscan", scans),
        ("allocstall", stalls),
        ("pswpin", swapped_in),
        ("pswpout", swapped_out),
    ):
        put(f"vmstat.{name}", "1/s", count / interval_s)


def _pressure(words: Sequence[str], interval_s: float, put: _Put, where: tuple[str, int]) -> None:
    # After the flag "y" each resource has its 10, 60 and 300 s means in percent, and its microseconds of this interval.
    if not words or words[0] != "y":
        return
    values = _numbers(words[1:], 4 * len(_PSI), "PSI", where)
    for name, waited_us in zip(_PSI, values[3::4], strict=True):
        put(f"pressure.{name}", "ratio", min(1.0, waited_us / 1e6 / interval_s))


def _disk(words: Sequence[str], interval_s: float, put: _Put, where: tuple[str, int]) -> None:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", words[0])
    busy_ms, reads, _, writes, written = _numbers(words[1:], 5, "DSK", where)
    put(f"disks.{name}.busy", "ratio", min(1.0, busy_ms / 1e3 / interval_s))
    put(f"disks.{name}.reads", "1/s", reads / interval_s)
    put(f"disks.{name}.writes", "1/s", writes / interval_s)
    put(f"disks.{name}.written", "B/s", written * 512 / interval_s)


def _process(rest: str, now: _Moment, where: tuple[str, int]) -> None:
    # Names may contain blanks and brackets. Threads share the memory of their process and are skipped.
    match = _PROCESS.fullmatch(rest)
    if match is None:
        raise unreadable(where[0], where[1], rest, "'PID (name) state' and values at the end of a line of PRM")
    words = match["rest"].split(" ")
    if words[_IS_PROCESS : _IS_PROCESS + 1] == ["n"]:
        return
    resident_kib = _numbers(words, 3, "PRM", where)[2]
    now.memory[int(match["pid"]), match["name"]] = resident_kib * 1024


_READERS: Mapping[str, Callable[[Sequence[str], float, _Put, tuple[str, int]], None]] = {
    "CPU": _cpu,
    "MEM": _memory,
    "SWP": _swap,
    "PAG": _paging,
    "PSI": _pressure,
    "DSK": _disk,
}
