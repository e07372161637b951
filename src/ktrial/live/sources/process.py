# SPDX-License-Identifier: Apache-2.0
"""The kernel's counters of a process, a control group or the whole machine.

`pid:1234?cpu|delay|io|psi=memory`, `cgroup:/system.slice/x.service?cpu|io|psi=memory`, `pressure:memory[?full]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ktrial.kit.outcome import Unit
from ktrial.live.model import LiveMetric
from ktrial.live.sources.polled import CounterSource, CounterValues
from ktrial.live.sources.web import NotRead
from ktrial.live.sources.world import LiveWorld, bad_metric, measured_outcome, split_options
from ktrial.machine.ports import Machine

_GROUPS = "/sys/fs/cgroup"
_RESOURCES = ("cpu", "memory", "io")
_PRESSURE = "/proc/pressure"
_FIELDS = ("cpu", "delay", "io", "psi")
_UNITS: Mapping[str, Unit] = {"cpu": "ratio", "delay": "ratio", "io": "B/s", "psi": "ratio"}
#: Ticks per second in /proc, on every architecture.
_TICKS = 100
#: Positions after the name in /proc/PID/stat: user time, system time, and the start of the process.
_USER, _SYSTEM, _BEGAN = 11, 12, 19
_TOTAL = re.compile(r"^(some|full) [^\n]*\btotal=([0-9]{1,20})$", re.MULTILINE)
_MOST_PID = 1 << 22
_OTHER_USER = "measure the control group of the process, or run ktrial as the user of the process"
_NO_PRESSURE = "boot a kernel with CONFIG_PSI=y, and with the argument psi=1"


def _text(machine: Machine, path: str) -> str:
    """Return the content of a file. Raise NotRead if it cannot be read."""
    return _texts(machine, [path])[path]


def _texts(machine: Machine, paths: list[str]) -> dict[str, str]:
    """Return the contents of the files. Raise NotRead if one of them cannot be read."""
    found = {}
    for path, reading in machine.read(paths).items():
        is_pressure = path.startswith(_PRESSURE)
        if reading is None:
            raise NotRead(
                f"{path} does not exist",
                hint=_NO_PRESSURE if is_pressure else "check that the process or group exists",
            )
        if reading.data is None:
            why = reading.unreadable or reading.invalid or "it has no content"
            raise NotRead(
                why if path in why else f"cannot read {path}: {why}", hint=_NO_PRESSURE if is_pressure else _OTHER_USER
            )
        found[path] = reading.data.decode(errors="replace")
    return found


def _whole(text: str, path: str) -> int:
    if not re.fullmatch(r"[0-9]{1,20}", text):
        raise NotRead(
            f"cannot read {path}: expected a number, got {text[:40]!r}", hint="choose another counter of this process"
        )
    return int(text)


def pressure_counts(text: str, path: str, share: str) -> CounterValues:
    """Return the seconds for which some or all tasks waited. Raise NotRead if the file lacks this number.

    `text` is the content of a pressure file of the kernel.
    """
    for kind, total_us in _TOTAL.findall(text):
        if kind == share:
            return CounterValues({share: int(total_us) / 1e6})
    raise NotRead(f"{path} has no line {share} … total=NUMBER", hint=_NO_PRESSURE)


def stat_counts(text: str, path: str) -> CounterValues:
    """Return a process's CPU seconds from its file `stat`; the epoch is its start time.

    Raise NotRead if the file is malformed.
    """
    # The name may contain anything; only the last parenthesis ends it.
    fields = text.rpartition(")")[2].split()
    if len(fields) <= _BEGAN:
        raise NotRead(
            f"cannot read {path}: it has only {len(fields)} fields after the process's name",
            hint="choose another counter of this process",
        )
    ticks = _whole(fields[_USER], path) + _whole(fields[_SYSTEM], path)
    return CounterValues({"cpu": ticks / _TICKS}, fields[_BEGAN])


def io_counts(text: str, path: str) -> CounterValues:
    """Return the bytes that a process read from and wrote to disks. Raise NotRead if the file lacks these numbers."""
    found = dict(re.findall(r"^(read_bytes|write_bytes): ([0-9]{1,20})$", text, re.MULTILINE))
    if len(found) != 2:
        raise NotRead(
            f"cannot read {path}: it lacks read_bytes or write_bytes",
            hint="boot a kernel with CONFIG_TASK_IO_ACCOUNTING=y",
        )
    return CounterValues({name: float(value) for name, value in found.items()})


def group_io_counts(text: str) -> CounterValues:
    """Return the bytes that a control group read and wrote, by device."""
    values = {}
    for line in text.splitlines():
        device, _, rest = line.partition(" ")
        for name, value in re.findall(r"\b([rw]bytes)=([0-9]{1,20})", rest):
            values[f"{device} {name}"] = float(value)
    return CounterValues(values)


class ProcessCounts:
    """Reads one counter of a process, and checks that it is still the same process."""

    def __init__(self, pid: int, field: str, resource: str) -> None:
        self._folder = f"/proc/{pid}"
        self._pid = pid
        self._field = field
        self._resource = resource
        self._began: str | None = None

    def __call__(self, machine: Machine) -> CounterValues:
        stat = f"{self._folder}/stat"
        counts = stat_counts(_text(machine, stat), stat)
        if self._began is None:
            self._began = counts.epoch
        if counts.epoch != self._began:
            raise NotRead(
                f"process {self._pid} ended, and another process now has its number",
                hint="start again with the number of the new process",
            )
        if self._field == "cpu":
            return counts
        if self._field == "io":
            path = f"{self._folder}/io"
            return io_counts(_text(machine, path), path)
        return self._delays(machine) if self._field == "delay" else self._pressure(machine)

    def _delays(self, machine: Machine) -> CounterValues:
        """Return how long each thread has waited for a CPU. Raise NotRead if the kernel does not count it."""
        pattern = f"{self._folder}/task/*/schedstat"
        values = {}
        for path, reading in machine.read(machine.list([pattern])[pattern]).items():
            if reading is None or reading.data is None:
                continue  # the thread has ended
            words = reading.data.decode(errors="replace").split()
            if len(words) < 2:
                raise NotRead(
                    f"cannot read {path}: expected three numbers", hint="boot a kernel with CONFIG_SCHED_INFO=y"
                )
            values[path] = _whole(words[1], path) / 1e9
        if not values:
            raise NotRead(f"process {self._pid} has no {pattern}", hint="boot a kernel with CONFIG_SCHED_INFO=y")
        return CounterValues(values)

    def _pressure(self, machine: Machine) -> CounterValues:
        path = f"{self._folder}/cgroup"
        group = next((line[3:] for line in _text(machine, path).splitlines() if line.startswith("0::/")), None)
        if group is None or "/.." in group:
            raise NotRead(
                f"process {self._pid} has no control group of version 2 that is visible here",
                hint="measure cpu, io or delay of the process",
            )
        return _group_pressure(machine, group, self._resource)


def _group_pressure(machine: Machine, group: str, resource: str) -> CounterValues:
    path = f"{_GROUPS}{group.rstrip('/')}/{resource}.pressure"
    if group.rstrip("/") == "":
        path = f"{_PRESSURE}/{resource}"
    return pressure_counts(_text(machine, path), path, "some")


def _group_counts(group: str, field: str, resource: str) -> Callable[[Machine], CounterValues]:
    def read(machine: Machine) -> CounterValues:
        if field == "psi":
            return _group_pressure(machine, group, resource)
        if field == "io":
            return group_io_counts(_text(machine, f"{_GROUPS}{group}/io.stat"))
        path = f"{_GROUPS}{group}/cpu.stat"
        used = re.search(r"^usage_usec ([0-9]{1,20})$", _text(machine, path), re.MULTILINE)
        if used is None:
            raise NotRead(f"{path} has no usage_usec", hint="name another control group")
        return CounterValues({"cpu": int(used[1]) / 1e6})

    return read


def _field_of(metric: LiveMetric, known: tuple[str, ...]) -> tuple[str, str, str]:
    """Return the part before `?`, the counter after it, and the counter's resource.

    Raise BadInput for an unknown counter or resource.
    """
    place, options = split_options(metric, known)
    kind = metric.source.partition(":")[0]
    if len(options) != 1:
        raise bad_metric(
            metric,
            f"expected one counter, got {len(options)}",
            f"choose one of {', '.join(known)}, for example  {kind}:{place}?{known[0]}",
        )
    ((field, resource),) = options.items()
    if field == "psi" and resource not in _RESOURCES:
        why = f"expected psi=RESOURCE, got psi={resource}"
        raise bad_metric(metric, why, "write psi=cpu, psi=memory or psi=io")
    if field != "psi" and resource:
        raise bad_metric(metric, f"{field} takes no value", f"write ?{field}")
    return place, field, resource


def _pid_reader(metric: LiveMetric) -> tuple[str, ProcessCounts]:
    place, field, resource = _field_of(metric, _FIELDS)
    if not re.fullmatch(r"[0-9]{1,7}", place) or not 0 < int(place) <= _MOST_PID:
        raise bad_metric(metric, f"{place!r} is not a process id", "for example  pid:1234?cpu")
    return field, ProcessCounts(int(place), field, resource)


def _group_reader(metric: LiveMetric) -> tuple[str, Callable[[Machine], CounterValues]]:
    group, field, resource = _field_of(metric, ("cpu", "io", "psi"))
    parts = group.split("/")[1:]
    if not group.startswith("/") or any(part in {"", ".", ".."} for part in parts) or "*" in group or "\0" in group:
        raise bad_metric(
            metric,
            f"{group!r} is not a control group",
            "write the path below /sys/fs/cgroup, for example  cgroup:/system.slice/x.service?cpu",
        )
    return field, _group_counts(group, field, resource)


def _pressure_reader(metric: LiveMetric) -> tuple[str, Callable[[Machine], CounterValues]]:
    resource, options = split_options(metric, ("some", "full"))
    if len(options) > 1 or any(options.values()):
        raise bad_metric(metric, "expected ?some or ?full, without a value", "for example  pressure:io?full")
    if resource not in _RESOURCES:
        raise bad_metric(
            metric,
            f"the kernel reports no pressure of {resource!r}",
            "write pressure:cpu, pressure:memory or pressure:io",
        )
    share = next(iter(options), "some")
    if (resource, share) == ("cpu", "full"):
        raise bad_metric(metric, "the whole machine never waits for a CPU", "write pressure:cpu")
    path = f"{_PRESSURE}/{resource}"
    return "psi", lambda machine: pressure_counts(_text(machine, path), path, share)


_READERS: Mapping[str, Callable[[LiveMetric], tuple[str, Callable[[Machine], CounterValues]]]] = {
    "pid": _pid_reader,
    "cgroup": _group_reader,
    "pressure": _pressure_reader,
}


def kernel_counter(metric: LiveMetric) -> tuple[Unit, Callable[[Machine], CounterValues]]:
    """Return the unit and the reader of a kernel counter.

    Raise BadInput if the metric names no counter, or if its name implies another unit.
    """
    field, read = _READERS[metric.source.partition(":")[0]](metric)
    measured_outcome(metric, _UNITS[field])
    return _UNITS[field], read


def open_kernel_counter(metric: LiveMetric, world: LiveWorld) -> CounterSource:
    unit, read = kernel_counter(metric)
    return CounterSource(metric, measured_outcome(metric, unit), world, read)
