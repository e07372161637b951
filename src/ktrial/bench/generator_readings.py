# SPDX-License-Identifier: Apache-2.0
"""How busy a load generator was during a run, from files of its kernel before and after the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec

from ktrial.bench.benchmark import RawOutput
from ktrial.bench.record import GeneratorRun

OWN_GROUPS = "/proc/self/cgroup"
_STAT, _SCHEDSTAT, _PRESSURE = "/proc/stat", "/proc/schedstat", "/proc/pressure/cpu"
_SNMP, _DEVICES = "/proc/net/snmp", "/proc/net/dev"
FILES = (_STAT, _SCHEDSTAT, _PRESSURE, _SNMP, _DEVICES)
_GROUPS, _OLD_GROUPS = "/sys/fs/cgroup", "/sys/fs/cgroup/cpu"
_LIMITED = "cpu.stat"
#: Key of the throttled time in a control group's file -> seconds of its unit.
_THROTTLED = {"throttled_usec": 1e-6, "throttled_time": 1e-9}
#: Places in the lines of /proc/stat, /proc/schedstat (of a CPU) and /proc/net/dev (of a device: packets with errors,
#: and those dropped before they were sent; a received packet that nobody wants is counted as dropped too).
_IDLE, _CPU_FIELDS, _RUN_DELAY, _ERRORS = (3, 4), 8, 8, (2, 10, 11)

Number = TypeVar("Number", int, float)
#: Texts of files by path; None for a file that is not there.
Texts = Mapping[str, str | None]


class GeneratorLook(NamedTuple):
    """The content of a generator's files at one moment, which `monotonic_s` gives on the generator's clock."""

    monotonic_s: float
    texts: Texts


def limit_files(groups: str | None) -> tuple[str, ...]:
    """Return the files that show how long CPU limits throttled the control groups; `groups` is /proc/self/cgroup."""
    found: list[str] = []
    for line in (groups or "").splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = _OLD_GROUPS if controllers else _GROUPS
        names = [name for name in place.split("/") if name]
        found += ["/".join([top, *names[:depth], _LIMITED]) for depth in range(len(names) + 1)]
    return tuple(dict.fromkeys(found))


def with_readings(
    found: GeneratorRun, looks: tuple[GeneratorLook, GeneratorLook] | None, raw: RawOutput, threads: int
) -> GeneratorRun:
    """Return `found` with the readings during a run; `threads` is the number of threads that send."""
    program = None
    if raw.wall_ns and raw.user_us is not None and raw.system_us is not None:
        program = (raw.user_us + raw.system_us) * 1e3 / raw.wall_ns / threads
    if looks is None:
        return msgspec.structs.replace(found, program_share=program, busy_share=program)
    before, after = looks
    passed_s = after.monotonic_s - before.monotonic_s
    held_s = _throttled_s(before.texts, after.texts)
    throttled = None if held_s is None else min(1.0, held_s / passed_s / threads)
    machine = _busy(before.texts.get(_STAT), after.texts.get(_STAT))
    waited_s = _grown(_pressure_s(before.texts), _pressure_s(after.texts))
    wanted = None if program is None else min(1.0, program + (throttled or 0.0))
    return msgspec.structs.replace(
        found,
        busy_share=max((one for one in (wanted, machine) if one is not None), default=None),
        program_share=program,
        machine_share=machine,
        throttled_share=throttled,
        waiting_share=None if waited_s is None else min(1.0, waited_s / passed_s),
        run_delay_s=_grown(_run_delay_s(before.texts), _run_delay_s(after.texts)),
        retransmits=_grown(_retransmits(before.texts), _retransmits(after.texts)),
        network_errors=_grown(_network_errors(before.texts), _network_errors(after.texts)),
    )


def generator_notes(found: GeneratorRun) -> tuple[str, ...]:
    """Return a note if the generator's network lost or damaged packets during the run."""
    if not found.network_errors:
        return ()
    return (f"the load generator's network lost or damaged {found.network_errors} packets during the run",)


def _grown(before: Number | None, after: Number | None) -> Number | None:
    return None if before is None or after is None or after < before else after - before


def _busy(before: str | None, after: str | None) -> float | None:
    """Return the share of time in which the CPUs were not idle; None if unknown. Stolen time counts as busy."""
    first, last = _cpu_times(before), _cpu_times(after)
    if first is None or last is None:
        return None
    grown = [late - early for early, late in zip(first, last, strict=True)]
    total = sum(grown)
    return None if total <= 0 else max(0.0, 1 - sum(grown[place] for place in _IDLE) / total)


def _cpu_times(text: str | None) -> list[int] | None:
    words = (text or "").partition("\n")[0].split()
    return [int(word) for word in words[1 : _CPU_FIELDS + 1]] if words[:1] == ["cpu"] else None


def _throttled_s(before: Texts, after: Texts) -> float | None:
    """Return how long the strictest CPU limit throttled the control groups; None if unknown."""
    grown = (
        _grown(_held_s(before.get(path)), _held_s(text)) for path, text in after.items() if path.endswith(_LIMITED)
    )
    return max((one for one in grown if one is not None), default=None)


def _held_s(text: str | None) -> float | None:
    for line in (text or "").splitlines():
        key, _, value = line.partition(" ")
        if key in _THROTTLED:
            return int(value) * _THROTTLED[key]
    return None


def _pressure_s(texts: Texts) -> float | None:
    words = (texts.get(_PRESSURE) or "").partition("\n")[0].split()
    total = next((word.removeprefix("total=") for word in words if word.startswith("total=")), None)
    return None if total is None else int(total) * 1e-6


def _run_delay_s(texts: Texts) -> float | None:
    lines = [line.split() for line in (texts.get(_SCHEDSTAT) or "").splitlines()]
    delays = [int(words[_RUN_DELAY]) for words in lines if words[:1] and words[0].removeprefix("cpu").isdigit()]
    return sum(delays) * 1e-9 if delays else None


def _retransmits(texts: Texts) -> int | None:
    rows = [line.split() for line in (texts.get(_SNMP) or "").splitlines() if line.startswith("Tcp:")]
    if len(rows) != 2:
        return None
    told = dict(zip(rows[0], rows[1], strict=True)).get("RetransSegs")
    return None if told is None else int(told)


def _network_errors(texts: Texts) -> int | None:
    text = texts.get(_DEVICES)
    if text is None:
        return None
    devices = [line.partition(":") for line in text.splitlines() if ":" in line]
    return sum(int(numbers.split()[place]) for name, _, numbers in devices if name.strip() != "lo" for place in _ERRORS)
