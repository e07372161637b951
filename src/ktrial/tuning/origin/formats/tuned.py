# SPDX-License-Identifier: Apache-2.0
"""TuneD profiles (`tuned.conf`): the sysctls, files and kernel arguments that a profile sets.

The reader supports units of type `sysctl`, `sysfs`, `vm`, `disk`, `cpu` and `bootloader`. It substitutes variables of
the same file; functions (`${f:…}`) and other variables are reported as unread. `include` is kept as names: the caller
finds those files, and `reading` reports the line as unread. A value that starts with `>` only raises, one with `<` only
lowers.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from msgspec.structs import replace

from ktrial.tuning.origin.formats import ini, sysctl_d
from ktrial.tuning.origin.formats.command_line import canonical as canonical_boot
from ktrial.tuning.origin.formats.command_line import is_name, split_words
from ktrial.tuning.origin.formats.lines import (
    Assignment,
    FileReading,
    Unread,
    in_order,
    require_something,
    unquoted,
    unread_line,
)

_UNIT_OPTIONS = frozenset(
    ["type", "devices", "devices_udev_regex", "enabled", "replace", "priority", "drop", "uname_regex", "cpuinfo_regex"]
)
_READ_TYPES = frozenset(("sysctl", "sysfs", "vm", "disk", "cpu", "bootloader"))
_TRUE = frozenset(("1", "true", "yes", "y", "on"))
_CPU_PATHS = {
    "governor": "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "energy_perf_bias": "/sys/devices/system/cpu/cpu*/power/energy_perf_bias",
    "energy_performance_preference": "/sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference",
    "min_perf_pct": "/sys/devices/system/cpu/intel_pstate/min_perf_pct",
    "max_perf_pct": "/sys/devices/system/cpu/intel_pstate/max_perf_pct",
    "no_turbo": "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "boost": "/sys/devices/system/cpu/cpufreq/boost",
    "pm_qos_resume_latency_us": "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us",
    "sampling_down_factor": "/sys/devices/system/cpu/cpufreq/ondemand/sampling_down_factor",
}
#: Words of the kernel and of older tools (default, powersave) for values that read back as numbers.
_ENERGY_BIAS = {
    "performance": "0",
    "balance-performance": "4",
    "normal": "6",
    "default": "6",
    "balance-power": "8",
    "power": "15",
    "powersave": "15",
}
_VM_PATHS = {
    "transparent_hugepages": "/sys/kernel/mm/transparent_hugepage/enabled",
    "transparent_hugepage": "/sys/kernel/mm/transparent_hugepage/enabled",
    "transparent_hugepage.defrag": "/sys/kernel/mm/transparent_hugepage/defrag",
}
_VM_SYSCTLS = frozenset(("dirty_bytes", "dirty_ratio", "dirty_background_bytes", "dirty_background_ratio"))
_DISK_PATHS = {
    "elevator": "/sys/block/{device}/queue/scheduler",
    "readahead": "/sys/block/{device}/queue/read_ahead_kb",
    "scheduler_quantum": "/sys/block/{device}/queue/iosched/quantum",
}


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One section and what it sets. With `replace`, a section replaces its namesake in the included profile."""

    name: str
    type: str
    devices: str | None
    replace: bool
    enabled: bool
    assignments: tuple[Assignment, ...] = ()


class TunedProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one tuned.conf."""

    file: str
    summary: str | None
    include: tuple[str, ...]
    include_lines: tuple[Unread, ...]
    variables: tuple[tuple[str, str], ...]
    units: tuple[Unit, ...]
    unread: tuple[Unread, ...]

    def reading(self) -> FileReading:
        found = sorted((item for unit in self.units for item in unit.assignments), key=lambda item: item.line_number)
        return FileReading(
            file=self.file, assignments=tuple(found), unread=in_order([*self.unread, *self.include_lines])
        )


def parse(data: str | bytes, file: str) -> TunedProfile:
    sections, entries, unread = ini.parse(data, file, inline_comments=True)
    main = {entry.key: entry.value for entry in entries if entry.section == "main"}
    variables = _variables(entries)
    units = {
        name: _unit(name, entries, variables) for name in dict.fromkeys(sections) if name not in ("main", "variables")
    }
    assignments: dict[str, list[Assignment]] = {name: [] for name in units}
    for entry in entries:
        unit = units.get(entry.section)
        if unit is None or entry.key in _UNIT_OPTIONS or not unit.enabled:
            continue
        for item in _assign(entry, unit, variables, file):
            if isinstance(item, Unread):
                unread.append(item)
            else:
                assignments[unit.name].append(item)
    require_something(file, len(entries), unread, "a TuneD profile")
    return TunedProfile(
        file=file,
        summary=main.get("summary"),
        include_lines=tuple(
            unread_line(file, entry.line_number, entry.text, "the included profile is not read: import its tuned.conf")
            for entry in entries
            if (entry.section, entry.key) == ("main", "include")
        ),
        include=tuple(name for name in re.split(r"[,;\s]+", main.get("include", "")) if name),
        variables=tuple(variables.items()),
        units=tuple(replace(unit, assignments=tuple(assignments[name])) for name, unit in units.items()),
        unread=in_order(unread),
    )


def _variables(entries: list[ini.Entry]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for entry in entries:
        if entry.section == "variables" and entry.key != "include":
            variables[entry.key] = _substitute(entry.value, variables)
    return variables


def _substitute(text: str, variables: dict[str, str]) -> str:
    return re.sub(r"(?<!\\)\$\{([A-Za-z0-9_.-]+)\}", lambda found: variables.get(found[1], found[0]), text)


def _unit(name: str, entries: list[ini.Entry], variables: dict[str, str]) -> Unit:
    options = {
        entry.key: _substitute(entry.value, variables)
        for entry in entries
        if entry.section == name and entry.key in _UNIT_OPTIONS
    }
    return Unit(
        name=name,
        type=options.get("type", name),
        devices=options.get("devices"),
        replace=options.get("replace", "").lower() in _TRUE,
        enabled=options.get("enabled", "1").lower() in _TRUE,
    )


def _assign(entry: ini.Entry, unit: Unit, variables: dict[str, str], file: str) -> list[Assignment | Unread]:
    def failed(reason: str) -> list[Assignment | Unread]:
        return [unread_line(file, entry.line_number, entry.text, reason)]

    if unit.type not in _READ_TYPES:
        return failed(f"settings of [{unit.name}] (type {unit.type}) are not supported")
    name, value = _substitute(entry.key, variables), _substitute(entry.value, variables)
    unresolved = re.search(r"(?<!\\)\$\{[^}]*\}?", f"{name}={value}")
    if unresolved:
        return failed(f"{unresolved[0]} is unknown")
    if unit.type == "bootloader":
        return _bootloader(entry, name, value, file)
    direction: Literal["raise", "lower"] | None = None
    if value[:1] in ("<", ">"):
        direction = "raise" if value[0] == ">" else "lower"
        value = value[1:].strip()
    target = _target(unit, name, unquoted(value))
    if isinstance(target, str):
        return failed(target)
    kind, target_name, written = target
    if not written:
        return failed("no value after the =")
    choices = tuple(written.split("|")) if unit.type == "cpu" else (written,)
    if name == "energy_perf_bias":
        choices = tuple(dict.fromkeys(_ENERGY_BIAS.get(choice.replace("_", "-"), choice) for choice in choices))
    return [
        Assignment(
            kind=kind,
            name=target_name,
            value=choices[0],
            file=file,
            line_number=entry.line_number,
            text=entry.text,
            alternatives=choices if len(choices) > 1 else (),
            conditions=(f"devices={unit.devices}",) if unit.devices and unit.type != "disk" else (),
            direction=direction,
        )
    ]


def _target(unit: Unit, name: str, value: str) -> tuple[Literal["sysctl", "path"], str, str] | str:
    """Return (kind, name, value) of a setting, or why it cannot be read."""
    if unit.type == "sysctl":
        return "sysctl", sysctl_d.canonical(name), value
    if unit.type == "sysfs":
        return ("path", name, value) if name.startswith(("/sys/", "/proc/")) else f"{name} is not a path below /sys"
    if unit.type == "cpu":
        path = _CPU_PATHS.get(name)
        return ("path", path, value) if path else f"{name} of [cpu] is unknown, or the daemon applies it without a file"
    return _vm(name, value) if unit.type == "vm" else _disk(unit, name, value)


def _vm(name: str, value: str) -> tuple[Literal["sysctl", "path"], str, str] | str:
    """Read a setting of [vm]; a percentage for bytes sets the ratio."""
    if name in _VM_PATHS:
        return "path", _VM_PATHS[name], value
    if name not in _VM_SYSCTLS:
        return f"{name} of [vm] is unknown"
    if value.endswith("%"):
        return "sysctl", "vm." + name.replace("_bytes", "_ratio"), value[:-1].strip()
    return "sysctl", f"vm.{name}", value


def _disk(unit: Unit, name: str, value: str) -> tuple[Literal["sysctl", "path"], str, str] | str:
    """Read a setting of [disk]: read-ahead is in kB, or in sectors of 512 bytes with an `s` after the number."""
    path = _DISK_PATHS.get(name)
    if path is None:
        return f"{name} of [disk] is not supported"
    device = (unit.devices or "*").strip()
    if re.search(r"[\s,!$]", device):
        return f"devices={device} is not a single name or pattern"
    if name == "readahead":
        found = re.fullmatch(r"(\d+)\s*(s?)", value)
        if found is None:
            return f"readahead: expected kB or sectors, got {value!r}"
        value = str(int(found[1]) // 2) if found[2] else found[1]
    return "path", path.replace("{device}", device), value


def _bootloader(entry: ini.Entry, name: str, value: str, file: str) -> list[Assignment | Unread]:
    """Read kernel arguments of a `cmdline…` option: `+` and bare words add, `-` removes."""
    if not name.startswith("cmdline"):
        return [unread_line(file, entry.line_number, entry.text, f"{name} of [bootloader] is not a kernel argument")]
    results: list[Assignment | Unread] = []
    for word in split_words(unquoted(value)):
        if word == "+":
            continue
        if word.startswith("-"):
            reason = f"removes a kernel argument: {word[1:]}"
            results.append(unread_line(file, entry.line_number, entry.text, reason))
            continue
        parameter, equals, argument = word.removeprefix("+").partition("=")
        if not is_name(parameter):
            reason = f"{parameter!r} is not the name of a kernel parameter"
            results.append(unread_line(file, entry.line_number, entry.text, reason))
            continue
        results.append(
            Assignment(
                kind="boot",
                name=canonical_boot(parameter),
                value=unquoted(argument) if equals else None,
                file=file,
                line_number=entry.line_number,
                text=entry.text,
            )
        )
    return results
