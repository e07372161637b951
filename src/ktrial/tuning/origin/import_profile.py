# SPDX-License-Identifier: Apache-2.0
"""Convert other people's settings (scripts, sysctl.d files, rules, pasted lists) into a profile of the catalog."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ktrial.kit.errors import BadInput, UnknownName, nearest
from ktrial.kit.toml_files import parse_toml
from ktrial.tuning.catalog.loader import check_profile
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.exports.model import device_shapes
from ktrial.tuning.knobs.find import known_knob
from ktrial.tuning.knobs.knob import PLACEHOLDERS, Knob
from ktrial.tuning.knobs.profile import Profile, Setting
from ktrial.tuning.knobs.profile_toml import profile_toml, toml_value
from ktrial.tuning.knobs.value import kernel_text
from ktrial.tuning.origin.formats.command_line import same_name
from ktrial.tuning.origin.formats.lines import Assignment, FileReading, ForeignFormatError, Unread
from ktrial.tuning.origin.formats.sniff import Format, Sniffed, read

_PLAIN_BOOT = re.compile(
    r"(?:BOOT_IMAGE|root|rootfstype|rootflags|ro|rw|quiet|splash|initrd|init|resume|resume_offset|console|rd\..*|"
    r"loglevel|systemd\..*|vt\..*|cryptdevice|ostree|fbcon)"
)

_MOST_SPANS = 20
_EXPRESSED = re.compile(
    r"(?:unless )?(?:(?:ACTION|SUBSYSTEM|KERNEL|TEST|ATTR\{queue/rotational\})[=!]=|ENV\{DEVTYPE\}==\"disk\")"
)
"""Conditions of udev rules that a setting's selector and `when` express."""
#: Starts of paths that a user may give instead of a knob's name.
KNOB_PATHS = ("/proc/sys/", "/proc/irq/", "/sys/")
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
_CONDITION = re.compile(r'(?P<key>KERNEL|SUBSYSTEM|ATTR\{queue/rotational\})(?P<operator>==|!=)"(?P<value>[^"]*)"')
_ALIASES = (
    (re.compile(r"^/sys/devices/system/cpu/cpu([^/]*)/cpufreq/"), r"/sys/devices/system/cpu/cpufreq/policy\1/"),
    (re.compile(r"^/sys/devices/(?:.*/)?block/([^/]+)/queue/"), r"/sys/block/\1/queue/"),
    (re.compile(r"^/sys/class/block/([^/]+)/"), r"/sys/block/\1/"),
    (re.compile(r"^/sys/devices/(?:.*/)?nvme/(nvme\d+|nvme\*)/"), r"/sys/class/nvme/\1/"),
)
_ZRAM = {
    "zram-size": "zram:disksize",
    "compression-algorithm": "zram:comp_algorithm",
    "zram-resident-limit": "zram:mem_limit",
}
_ZRAM_SHARE = re.compile(r"ram\s*(?:/\s*(?P<part>\d+(?:\.\d+)?)|\*\s*(?P<factor>\d+(?:\.\d+)?))?")


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A profile and everything that did not become part of it.

    `unread` are lines that no reader understood. `unknown` are settings without a knob in the catalog; their reason
    names similar knobs. `notes` describe decisions, for example on a value given twice or on two settings that exclude
    each other.
    """

    profile: Profile
    toml: str
    sniffed: Sniffed
    unread: tuple[Unread, ...]
    unknown: tuple[Unread, ...]
    notes: tuple[str, ...]


def import_profile(
    data: bytes, file: str, catalog: Catalog, *, name: str | None = None, as_format: Format | None = None
) -> Imported:
    """Convert a foreign text to a profile that the loader accepts. Raise BadInput if it has no usable setting."""
    reading, sniffed = read_settings(data, file, as_format)
    settings: dict[str, tuple[Setting, Assignment]] = {}
    unread = list(reading.unread)
    unknown: list[Unread] = []
    notes: list[str] = []
    for item in reading.assignments:
        for outcome in settings_of(item, catalog):
            if isinstance(outcome, UnknownSetting):
                kept = unknown if outcome.no_such_knob else unread
                kept.append(Unread(file=item.file, line_number=item.line_number, text=item.text, reason=outcome.reason))
                continue
            _add(settings, outcome, item, notes)
    if not settings:
        raise _nothing(file, sniffed, unread, unknown)
    profile = Profile(
        name=name or profile_name(file),
        summary=f"Imported from {show_source(file)} ({sniffed.format}).",
        notes=pair_notes([setting for setting, _ in settings.values()], catalog),
        setting=tuple(setting for setting, _ in settings.values()),
    )
    return Imported(
        profile=profile,
        toml=checked_toml(profile, catalog),
        sniffed=sniffed,
        unread=tuple(unread),
        unknown=tuple(unknown),
        notes=(*notes, *profile.notes, *_passed_over(reading.passed_over)),
    )


def read_settings(data: bytes, file: str, as_format: Format | None = None) -> tuple[FileReading, Sniffed]:
    """Return what a foreign text sets, and its format. Raise BadInput if the text does not have this format."""
    try:
        return read(data, file, as_format)
    except ForeignFormatError as error:
        raise BadInput(error.reason, file=show_source(file), line=error.line_number, hint=error.hint) from None


def _passed_over(lines: Sequence[int]) -> list[str]:
    spans: list[list[int]] = []
    for line in lines:
        if spans and spans[-1][1] == line - 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans[:_MOST_SPANS])
    more = ", …" if len(spans) > _MOST_SPANS else ""
    several = "lines" if len(lines) != 1 else "line"
    return [f"ignored {len(lines)} {several} without a setting: {shown}{more}"] if lines else []


def settings_of(item: Assignment, catalog: Catalog) -> Iterator[Setting | UnknownSetting]:
    """Yield the settings that an assignment stands for, and an UnknownSetting for each that a profile cannot hold.

    Yield nothing for kernel arguments that are not tuning, such as `root=` and `quiet`.
    """
    if item.kind == "boot" and _PLAIN_BOOT.fullmatch(item.name):
        return
    for target in targets(item, catalog.knobs):
        if isinstance(target, UnknownSetting):
            yield target
            continue
        value = _value(item, target)
        if isinstance(value, UnknownSetting):
            yield value
            continue
        yield Setting(knob=target.address, value=value, why=_why(item), when=target.when)


def _value(item: Assignment, target: MeantTarget) -> Any:
    """Return the value in the catalog's types, or an UnknownSetting if the catalog rejects it."""
    knob = target.knob
    if item.alternatives:
        return {"compute": "first-offered", "of": list(item.alternatives)}
    given = target.value
    if isinstance(given, dict):
        return given
    if given is None:
        given = "1" if knob.value.type in ("bool", "feature") else None
    if given is None:
        return UnknownSetting(f"{knob.id} needs a value")
    try:
        text = kernel_text(knob, given)
    except BadInput as error:
        return UnknownSetting(error.message)
    return _typed(knob, text)


def _typed(knob: Knob, text: str) -> Any:
    if knob.value.type == "int" or (knob.value.type == "ints" and " " not in text):
        return int(text, 0) if re.fullmatch(r"[+-]?(?:0x[0-9a-fA-F]+|\d+)", text) else text
    if knob.value.type == "ints":
        return [int(word) for word in text.split()]
    if knob.value.type == "bool":
        return text == "1"
    if knob.value.type == "feature":
        return not text.startswith("NO_")
    return text


def _why(item: Assignment) -> str:
    """Return the place of the setting in the imported file, and the conditions under which it applied there."""
    parts = [f"{show_source(item.file)}:{item.line_number}"]
    conditions = [text for text in item.conditions if not _EXPRESSED.match(text)]
    if conditions:
        parts.append("there only if " + "; ".join(re.sub(r"^unless ", "not ", text) for text in conditions))
    if item.direction is not None:
        parts.append(f"there only to {item.direction} the value")
    return ", ".join(parts)


def _add(settings: dict[str, tuple[Setting, Assignment]], setting: Setting, item: Assignment, notes: list[str]) -> None:
    """Add a setting; a later one for the same knob replaces it and adds a note."""
    key = setting.knob if setting.when is None else f"{setting.knob} when {setting.when}"
    before = settings.pop(key, None)
    settings[key] = (setting, item)
    if before is None:
        return
    earlier, where = before
    if earlier.value == setting.value:
        notes.append(f"{key} is set twice to the same value: lines {where.line_number} and {item.line_number}")
    else:
        notes.append(
            f"{key} is set twice: {toml_value(earlier.value)} (line {where.line_number}), then"
            f" {toml_value(setting.value)} (line {item.line_number}); the later one is used"
        )


def pair_notes(settings: Iterable[Setting], catalog: Catalog) -> tuple[str, ...]:
    """Return a note for each pair of settings that the kernel does not allow together."""
    values = {setting.knob: setting.value for setting in settings}
    notes = []
    for name, value in values.items():
        knob = catalog.knobs.get(name)
        for other in knob.couples if knob else ():
            mutual = other in values and name in catalog.knobs[other].couples
            if mutual and name < other and value != 0 and values[other] != 0:
                notes.append(f"{name} and {other} exclude each other: the kernel clears one when the other is written")
    return tuple(notes)


def _nothing(file: str, sniffed: Sniffed, unread: list[Unread], unknown: list[Unread]) -> BadInput:
    first = next(iter([*unknown, *unread]), None)
    reason = f"no setting in this text is a known knob (read as {sniffed.format}: {sniffed.reason})"
    if first is not None:
        reason += f"; first unclear line: {first.reason}"
    return BadInput(
        reason,
        file=show_source(file),
        line=None if first is None else first.line_number,
        hint="run `ktrial knobs` to list the known knobs" if unknown else "name the right format with --format",
    )


def show_source(file: str) -> str:
    """Return `standard input` for `-`, otherwise the name unchanged."""
    return "standard input" if file == "-" else file


def profile_name(file: str) -> str:
    """Return a profile name made from a file name: lower case letters, digits and `-`."""
    stem = re.sub(r"\.(?:conf|rules|sh|md|txt|html?)$", "", file.rsplit("/", 1)[-1])
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "imported"


def checked_toml(profile: Profile, catalog: Catalog) -> str:
    """Return the profile as TOML that the loader has accepted."""
    text = profile_toml(profile)
    loaded = parse_toml(text, f"{profile.name}.toml", Profile)
    check_profile(loaded, msgspec.structs.replace(catalog, profiles={**catalog.profiles, loaded.name: loaded}))
    return text


def spelled_setting(word: str, knobs: Mapping[str, Knob]) -> str:
    """Return `/proc/sys/vm/swappiness=10` as `vm.swappiness=10`, and other words as they are; the value is optional.

    Raise UnknownName for a file below /proc/sys or /sys that belongs to no knob.
    """
    path, equals, value = word.partition("=")
    if not path.startswith(KNOB_PATHS):
        return word
    found = knob_at_path(path.strip(), value.strip(), knobs)
    if found is None:
        name = path.removeprefix("/proc/sys/").replace("/", ".") if path.startswith("/proc/sys/") else path
        raise UnknownName("knob", name, knobs, hint="run `ktrial knobs` to list all knobs")
    if found.knob.value.type == "feature" and value.strip():
        value = "off" if value.strip().startswith("NO_") else "on"
    return f"{found.address}{equals}{value}"


class MeantTarget(msgspec.Struct, frozen=True):
    """A knob, the instances to set, their value, and a condition on the machine. No selector means all instances."""

    knob: Knob
    selector: str | None
    value: Any
    when: str | None = None

    @property
    def address(self) -> str:
        """Return the knob's name, with its selector if it has instances."""
        if not self.knob.placeholders:
            return self.knob.id
        return f"{self.knob.id}@{self.selector or '*'}"


class UnknownSetting(msgspec.Struct, frozen=True):
    """Why an assignment sets no knob: the catalog lacks it (`no_such_knob`), or a profile cannot hold the value."""

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
    """Return the target of an assignment that names a sysctl, file or parameter; None if no knob has this name."""
    if item.kind == "sysctl":
        knob = known_knob(item.name, knobs)
        if knob is not None:
            return MeantTarget(knob, None, item.value)
        path = "/proc/sys/" + item.name.translate(str.maketrans("./", "/."))
        return knob_at_path(path, item.value, knobs)
    if item.kind == "path":
        return knob_at_path(item.name, item.value, knobs)
    for prefix in ("boot:", "module:") if item.kind == "boot" else ("module:",):
        for knob in knobs.values():
            if knob.id.startswith(prefix) and same_name(knob.short_name, item.name):
                bare = "on" if "on" in knob.value.choices else True
                return MeantTarget(knob, None, bare if item.value is None and knob.kind == "boot" else item.value)
    module, dot, parameter = item.name.partition(".")
    if module == "sysctl":
        return knob_at_path("/proc/sys/" + parameter.replace(".", "/"), item.value, knobs)
    return knob_at_path(f"/sys/module/{module}/parameters/{parameter}", item.value, knobs) if dot else None


def knob_at_path(path: str, value: str | None, knobs: Mapping[str, Knob]) -> MeantTarget | None:
    """Return the knob that `path`, a file or pattern, belongs to; None if there is none.

    `value` decides between scheduler features, which share a file.
    """
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
    """Return the selector of the instances with this path (globs allowed): "" for all or none, None if no match."""
    if not path.startswith(place.partition("{")[0]):
        return None
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
    conditions = [parts for text in item.conditions if (parts := _CONDITION.fullmatch(text)) is not None]
    subsystem = next((c["value"] for c in conditions if c["key"] == "SUBSYSTEM" and c["operator"] == "=="), None)
    found = _knob_of_attribute(item.name, subsystem, knobs)
    if found is None:
        return
    knob, labels = found
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
        names = ["*", kernel] if subsystem == "queues" else [kernel, *labels]
        yield MeantTarget(knob, _selector_of(knob, names), item.value, when)


def _selector_of(knob: Knob, parts: Sequence[str]) -> str | None:
    """Return the selector for the devices and the parts of attributes that a rule names; None for all."""
    names = [f"{name}*" for name in knob.placeholders]
    labels = ["*" if part in ("*", name) else part for part, name in zip(parts, names, strict=False)]
    if "policy" in knob.placeholders:
        labels = ["*" if label == "cpu*" else label.replace("cpu", "policy", 1) for label in labels]
    return None if all(label == "*" for label in labels) else "/".join(labels)


def _knob_of_attribute(
    attribute: str, subsystem: str | None, knobs: Mapping[str, Knob]
) -> tuple[Knob, tuple[str, ...]] | None:
    """Return the knob of a file below a device, and the parts of the attribute that stand for further placeholders."""
    for knob in knobs.values():
        for place in knob.files:
            folder, _, tail = place.partition("}/")
            if tail == attribute and (subsystem is None or subsystem in folder.split("/")):
                return knob, ()
    for knob in knobs.values():
        for place in knob.files:
            for own, tail in device_shapes(place):
                found = re.fullmatch(_PLACEHOLDER.sub("([^/]+)", tail.replace(".", r"\.")), attribute)
                if found is not None and subsystem in (None, own):
                    return knob, found.groups()
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
    if in_bytes := re.fullmatch(r"(\d{1,19})\s*/\s*1048576", item.value.strip()):
        return MeantTarget(knob, item.instance, int(in_bytes[1]))
    share = _ZRAM_SHARE.fullmatch(item.value.strip())
    if share is None or (share["part"] and float(share["part"]) == 0):
        return UnknownSetting(f"a profile cannot express the size {item.value!r}: only a share of ram, or MB")
    percent = 100 / float(share["part"]) if share["part"] else 100 * float(share["factor"] or 1)
    whole = int(percent) if percent == int(percent) else percent
    return MeantTarget(knob, item.instance, {"compute": "share", "of": "memory.total", "percent": whole})


def _no_such(item: Assignment, knobs: Mapping[str, Knob]) -> UnknownSetting:
    name = item.name
    if item.kind == "path" and name.startswith("/proc/sys/"):
        name = name.removeprefix("/proc/sys/").replace("/", ".")
    near = _similar(item, name, knobs)
    advice = f"; did you mean {' or '.join(near)}?" if near else ""
    return UnknownSetting(f"unknown knob {name}{advice}", no_such_knob=True)


def _similar(item: Assignment, name: str, knobs: Mapping[str, Knob]) -> tuple[str, ...]:
    """Return similar names of knobs; for a sysctl only names of its own area, if it has any."""
    if item.kind == "boot":
        return tuple(f"boot:{one}" for one in nearest(name, [k.short_name for k in knobs.values() if k.kind == "boot"]))
    if name.startswith("/") or item.kind == "attribute":
        last = name.rpartition("/")[2]
        return tuple(knob for knob in knobs if fnmatch.fnmatchcase(knob, f"*:{last}"))[:3]
    area = f"{name.partition('.')[0]}."
    return nearest(name, [knob for knob in knobs if knob.startswith(area)] or knobs)
