# SPDX-License-Identifier: Apache-2.0
"""Find the knob that a foreign assignment means: by sysctl name, file, udev attribute, or parameter."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ktrial.kit.errors import BadInput, nearest
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.knob import PLACEHOLDERS, Knob
from ktrial.tuning.origin.formats.command_line import same_name
from ktrial.tuning.origin.formats.lines import Assignment

_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
_CONDITION = re.compile(r'(?P<key>KERNEL|SUBSYSTEM|ATTR\{queue/rotational\})(?P<operator>==|!=)"(?P<value>[^"]*)"')
_ALIASES = (
    (re.compile(r"^/sys/devices/system/cpu/cpu([^/]*)/cpufreq/"), r"/sys/devices/system/cpu/cpufreq/policy\1/"),
    (re.compile(r"^/sys/devices/(?:.*/)?block/([^/]+)/queue/"), r"/sys/block/\1/queue/"),
    (re.compile(r"^/sys/class/block/([^/]+)/"), r"/sys/block/\1/"),
    (re.compile(r"^/sys/devices/(?:.*/)?nvme/(nvme\d+|nvme\*)/"), r"/sys/class/nvme/\1/"),
)
_ZRAM = {"zram-size": "zram:disksize", "compression-algorithm": "zram:comp_algorithm"}
_ZRAM_SHARE = re.compile(r"ram\s*(?:/\s*(?P<part>\d+(?:\.\d+)?)|\*\s*(?P<factor>\d+(?:\.\d+)?))?")


class MeantTarget(msgspec.Struct, frozen=True):
    """A knob, the instances to set (None: all), their value, and a condition on the machine."""

    knob: Knob
    selector: str | None
    value: Any
    when: str | None = None

    @property
    def address(self) -> str:
        """The knob, with its selector if it has instances."""
        if not self.knob.placeholders:
            return self.knob.id
        return f"{self.knob.id}@{self.selector or '*'}"


class UnknownSetting(msgspec.Struct, frozen=True):
    """Why an assignment has no target: the catalog lacks the knob (`no_such_knob`), or a profile cannot express it."""

    reason: str
    no_such_knob: bool = False


def targets(item: Assignment, knobs: Mapping[str, Knob]) -> Iterator[MeantTarget | UnknownSetting]:
    """Yield the knobs that an assignment means, or one `UnknownSetting`."""
    if item.kind == "attribute":
        found = list(_attribute(item, knobs))
    elif item.kind == "zram":
        found = [_zram(item, knobs)]
    else:
        target = _by_own_name(item, knobs)
        found = [] if target is None else [target]
    yield from found or [_no_such(item, knobs)]


def _by_own_name(item: Assignment, knobs: Mapping[str, Knob]) -> MeantTarget | None:
    """Find the target of an assignment that names a sysctl, file or parameter."""
    if item.kind == "sysctl":
        try:
            return MeantTarget(find_knob(item.name, knobs), None, item.value)
        except BadInput:
            path = "/proc/sys/" + item.name.translate(str.maketrans("./", "/."))
            return _by_path(path, item.value, knobs)
    if item.kind == "path":
        return _by_path(item.name, item.value, knobs)
    for prefix in ("boot:", "module:") if item.kind == "boot" else ("module:",):
        for knob in knobs.values():
            if knob.id.startswith(prefix) and same_name(knob.short_name, item.name):
                return MeantTarget(knob, None, True if item.value is None and knob.kind == "boot" else item.value)
    module, dot, parameter = item.name.partition(".")
    if module == "sysctl":
        return _by_path("/proc/sys/" + parameter.replace(".", "/"), item.value, knobs)
    return _by_path(f"/sys/module/{module}/parameters/{parameter}", item.value, knobs) if dot else None


def _by_path(path: str, value: str | None, knobs: Mapping[str, Knob]) -> MeantTarget | None:
    """Find a knob by the file that is written. If knobs share a file (scheduler features), the value decides."""
    for pattern, spelling in _ALIASES:
        path = pattern.sub(spelling, path)
    for knob in knobs.values():
        for place in knob.files:
            selector = _selector(place, path)
            if selector is None:
                continue
            if knob.value.type != "feature":
                return MeantTarget(knob, selector or None, value)
            if (value or "").removeprefix("NO_") == knob.short_name:
                return MeantTarget(knob, None, value)
    return None


def _selector(place: str, path: str) -> str | None:
    """Return the instances that a path (with globs) means: "" for all or none, None if it is another file."""
    names = _PLACEHOLDER.findall(place)
    taken = _PLACEHOLDER.split(place)
    shapes = [f"({PLACEHOLDERS[part][0]}|[^/]+)" if at % 2 else re.escape(part) for at, part in enumerate(taken)]
    found = re.fullmatch("".join(shapes), path)
    if found is None:
        return None
    labels = []
    for name, text in zip(names, found.groups(), strict=True):
        component, prefix = PLACEHOLDERS[name]
        is_glob = re.search(r"[*?\[]", text) is not None
        if not is_glob and not re.fullmatch(component, text):
            return None
        labels.append("*" if text in ("*", f"{name}*") else prefix + text)
    return "" if all(label == "*" for label in labels) else "/".join(labels)


def _attribute(item: Assignment, knobs: Mapping[str, Knob]) -> Iterator[MeantTarget | UnknownSetting]:
    """Yield the targets of an attribute that a udev rule sets on the devices that it matches."""
    conditions = [found for text in item.conditions if (found := _CONDITION.fullmatch(text)) is not None]
    subsystem = next((c["value"] for c in conditions if c["key"] == "SUBSYSTEM" and c["operator"] == "=="), None)
    knob = _knob_of_attribute(item.name, subsystem, knobs)
    if knob is None:
        return
    when = None
    kernels = "*"
    for condition in conditions:
        if condition["key"].startswith("ATTR"):
            rotational = (condition["value"] == "1") == (condition["operator"] == "==")
            when = f"device.rotational == {str(rotational).lower()}"
        elif condition["key"] == "KERNEL" and condition["operator"] == "!=":
            yield UnknownSetting(f"a profile cannot express: all but {condition['value']}")
            return
        elif condition["key"] == "KERNEL":
            kernels = condition["value"]
    for kernel in kernels.split("|"):
        yield MeantTarget(knob, None if kernel == "*" else kernel, item.value, when)


def _knob_of_attribute(attribute: str, subsystem: str | None, knobs: Mapping[str, Knob]) -> Knob | None:
    for knob in knobs.values():
        for place in knob.files:
            folder, _, tail = place.partition("}/")
            if tail == attribute and (subsystem is None or subsystem in folder.split("/")):
                return knob
    return None


def _zram(item: Assignment, knobs: Mapping[str, Knob]) -> MeantTarget | UnknownSetting:
    """Find the target of a key of zram-generator. Sizes may be a share of memory; other expressions are rejected."""
    knob = knobs.get(_ZRAM.get(item.name, ""))
    if knob is None or item.value is None:
        return UnknownSetting(f"{item.name} of zram-generator has no knob in the catalog", no_such_knob=True)
    if knob.id == "zram:comp_algorithm":
        return MeantTarget(knob, item.instance, item.value.split()[0])
    if re.fullmatch(r"\d+", item.value):
        return MeantTarget(knob, item.instance, int(item.value) << 20)
    share = _ZRAM_SHARE.fullmatch(item.value.strip())
    if share is None or (share["part"] and float(share["part"]) == 0):
        return UnknownSetting(f"a profile cannot express the size {item.value!r}: only a share of ram, or MB")
    percent = 100 / float(share["part"]) if share["part"] else 100 * float(share["factor"] or 1)
    whole = int(percent) if percent == int(percent) else percent
    return MeantTarget(knob, item.instance, {"compute": "share", "of": "memory.total", "percent": whole})


def _no_such(item: Assignment, knobs: Mapping[str, Knob]) -> UnknownSetting:
    """Return the error for an unknown knob, with similar names."""
    name = item.name
    if item.kind == "path" and name.startswith("/proc/sys/"):
        name = name.removeprefix("/proc/sys/").replace("/", ".")
    near = nearest(name, knobs)
    if item.kind in ("path", "attribute") and not near:
        last = name.rpartition("/")[2]
        near = tuple(knob for knob in knobs if fnmatch.fnmatchcase(knob, f"*:{last}"))[:3]
    advice = f"; did you mean {' or '.join(near)}?" if near else ""
    return UnknownSetting(f"unknown knob {name}{advice}", no_such_knob=True)
