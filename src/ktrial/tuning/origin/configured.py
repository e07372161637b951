# SPDX-License-Identifier: Apache-2.0
"""Collect what the files of a machine say about knobs: read and parse all of them, without judging.

Sources in the order in which they act: kernel command line, module options, zram-generator, tmpfiles.d, sysctl.d, udev,
TuneD, and ktrial's own transactions. If two sources name one knob, the later one wins.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ktrial.kit.errors import AgentError
from ktrial.machine.ports import Machine
from ktrial.machine.reading import Reading
from ktrial.machine.transactions import Status, status, unsettled
from ktrial.tuning.origin.formats import command_line, modprobe_d, sysctl_d, tmpfiles_d, tuned, udev, zram_generator
from ktrial.tuning.origin.formats.lines import Assignment, FileReading, ForeignFormatError, Unread
from ktrial.tuning.origin.origin import Source

COMMAND_LINE = "/proc/cmdline"
ACTIVE_PROFILE = "/etc/tuned/active_profile"
_TUNED_SETTINGS = "/etc/tuned/tuned-main.conf"
_PLACES = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
VENDOR = ("/usr/lib/", "/lib/")
_TUNED_FOLDERS = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
_MOST_INCLUDES = 20


class ConfiguredValue(msgspec.Struct, frozen=True, kw_only=True):
    """The value that one source sets for a target; `overrode` are earlier values of the same source, oldest first."""

    source: Source
    assignment: Assignment
    overrode: tuple[Assignment, ...] = ()
    rule: udev.UdevRule | None = None


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What all sources on a machine say about knobs.

    `untold` are sentences on what ktrial could not examine. `unsettled` are transactions in ktrial's own journals that
    need a decision. If `tuned_reapplies`, TuneD applies the administrator's files of sysctl.d, and sysctl.conf after
    them, once its profile has set sysctls.
    """

    sysctl: sysctl_d.Merged
    others: tuple[ConfiguredValue, ...]
    unread: tuple[Unread, ...]
    untold: tuple[str, ...]
    unsettled: tuple[str, ...] = ()
    tuned_reapplies: bool = False


class _Files:
    """The files of the machine that may set knobs, listed and read in two requests."""

    def __init__(self, machine: Machine, *, vendor_only: bool) -> None:
        self._vendor_only = vendor_only
        patterns = [f"{place}/{name}" for name in _PATTERNS for place in _PLACES]
        patterns += ["/etc/sysctl.conf", "/etc/systemd/zram-generator.conf", "/usr/lib/systemd/zram-generator.conf"]
        patterns += [f"{folder}/*/tuned.conf" for folder in _TUNED_FOLDERS]
        matches = machine.list([*patterns, COMMAND_LINE, ACTIVE_PROFILE, _TUNED_SETTINGS])
        paths = list(dict.fromkeys(path for found in matches.values() for path in found))
        if vendor_only:
            paths = [path for path in paths if path.startswith(VENDOR)]
        self.readings: Mapping[str, Reading | None] = machine.read(paths)
        self.untold = [
            f"cannot read {path}: {reading.unreadable or reading.invalid}"
            for path, reading in self.readings.items()
            if reading is not None and reading.data is None
        ]

    def text(self, path: str) -> bytes | None:
        reading = self.readings.get(path)
        return None if reading is None else reading.data

    def below(self, folder: str, suffix: str) -> list[tuple[str, bytes]]:
        """Return the files of `folder`, sorted by name; for each name, the file in the first place (/etc, …) counts."""
        chosen: dict[str, tuple[str, bytes]] = {}
        for place in _PLACES:
            for path in sorted(self.readings):
                data = self.text(path)
                if posixpath.dirname(path) == f"{place}/{folder}" and path.endswith(suffix) and data is not None:
                    chosen.setdefault(posixpath.basename(path), (path, data))
        return [chosen[name] for name in sorted(chosen)]


_PATTERNS = (
    "sysctl.d/*.conf",
    "udev/rules.d/*.rules",
    "tmpfiles.d/*.conf",
    "modprobe.d/*.conf",
    "systemd/zram-generator.conf.d/*.conf",
)


def gather(machine: Machine, *, vendor_only: bool = False) -> Claims:
    """Return what the machine's files say about knobs; with `vendor_only`, only the distribution's own files."""
    files = _Files(machine, vendor_only=vendor_only)
    unread: list[Unread] = []
    claims: list[ConfiguredValue] = []
    for reader in (_command_line, _modprobe, _zram, _tmpfiles, _udev, _tuned):
        claims += reader(files, unread)
    untold = list(files.untold)
    told = Status()
    if not vendor_only:
        told, why_not = _status(machine)
        claims += _transactions(told)
        untold += [why_not] if why_not else []
    merged = _sysctl(files)
    return Claims(
        sysctl=merged,
        others=tuple(claims),
        unread=(*merged.unread, *unread),
        untold=tuple(untold),
        unsettled=tuple(unsettled(told)),
        tuned_reapplies=_tuned_reapplies(files, claims),
    )


def _sysctl(files: _Files) -> sysctl_d.Merged:
    paths = [path for path in files.readings if "/sysctl.d/" in path or path == sysctl_d.SYSCTL_CONF]
    return sysctl_d.merge([(path, files.text(path) or b"") for path in _distinct(paths)])


def _distinct(paths: Sequence[str]) -> list[str]:
    """Drop the files of /lib if /lib is the same folder as /usr/lib."""
    return [path for path in paths if not (path.startswith("/lib/") and f"/usr{path}" in paths)]


def _command_line(files: _Files, unread: list[Unread]) -> list[ConfiguredValue]:
    data = files.text(COMMAND_LINE)
    found = _parsed(lambda text, path: command_line.parse(text, path).assignments, data, COMMAND_LINE, unread)
    return _last_of_each("command-line", found)


def _modprobe(files: _Files, unread: list[Unread]) -> list[ConfiguredValue]:
    return _last_of_each("modprobe.d", _all(files, "modprobe.d", ".conf", modprobe_d.parse, unread, b"options"))


def _tmpfiles(files: _Files, unread: list[Unread]) -> list[ConfiguredValue]:
    found = _all(files, "tmpfiles.d", ".conf", tmpfiles_d.parse, unread, b"/sys/")
    # systemd-tmpfiles takes the first line for a path, and reports the others.
    return _last_of_each("tmpfiles.d", reversed(found))


def _zram(files: _Files, unread: list[Unread]) -> list[ConfiguredValue]:
    found: list[Assignment] = []
    for path in ("/usr/lib/systemd/zram-generator.conf", "/etc/systemd/zram-generator.conf"):
        found += _parsed(
            lambda text, name: zram_generator.parse(text, name).assignments, files.text(path), path, unread
        )
    found += _all(files, "systemd/zram-generator.conf.d", ".conf", zram_generator.parse, unread, b"zram")
    return _last_of_each("zram-generator", found)


def _udev(files: _Files, unread: list[Unread]) -> list[ConfiguredValue]:
    claims: list[ConfiguredValue] = []
    for path, data in files.below("udev/rules.d", ".rules"):
        if not re.search(rb"(?:ATTR|SYSCTL)\{[^}]*\}\s*(?:=|:=|\+=)\s*\"", data):
            continue
        try:
            parsed = udev.parse(data, path)
        except ForeignFormatError:
            unread.append(Unread(file=path, line_number=1, text="", reason="no line could be read as udev rules"))
            continue
        claims += [
            ConfiguredValue(source="udev", assignment=item, rule=rule)
            for rule in parsed.rules
            for item in rule.assignments
        ]
    return claims


def _tuned(files: _Files, unread: list[Unread]) -> list[ConfiguredValue]:
    """Return what the active profile and all profiles that it includes set, parents first."""
    active = files.text(ACTIVE_PROFILE)
    if active is None:
        return []
    units: dict[str, list[Assignment]] = {}
    done: set[str] = set()

    def add(name: str) -> None:
        if name in done or len(done) >= _MOST_INCLUDES:
            return
        done.add(name)
        for folder in _TUNED_FOLDERS:
            path = f"{folder}/{name}/tuned.conf"
            data = files.text(path)
            if data is None:
                continue
            try:
                profile = tuned.parse(data, path)
            except ForeignFormatError:
                unread.append(
                    Unread(file=path, line_number=1, text="", reason="no line could be read as a TuneD profile")
                )
                return
            for parent in profile.include:
                add(parent)
            for unit in profile.units:
                before = [] if unit.replace else units.get(unit.name, [])
                units[unit.name] = [*before, *unit.assignments]
            unread.extend(profile.unread)
            return
        unread.append(
            Unread(file=ACTIVE_PROFILE, line_number=1, text=name, reason="no such TuneD profile is installed")
        )

    for name in active.decode(errors="replace").split():
        add(name)
    return _last_of_each("tuned", (item for assignments in units.values() for item in assignments))


def _tuned_reapplies(files: _Files, claims: Iterable[ConfiguredValue]) -> bool:
    """Return whether TuneD sets sysctls and then applies sysctl.d again, as it does by default."""
    if not any(one.source == "tuned" and one.assignment.kind == "sysctl" for one in claims):
        return False
    text = (files.text(_TUNED_SETTINGS) or b"").decode(errors="replace")
    values = re.findall(r"^\s*reapply_sysctl\s*=\s*(\w+)", text, re.MULTILINE)
    return not values or values[-1].lower() in {"1", "yes", "true", "on"}


def _status(machine: Machine) -> tuple[Status, str | None]:
    try:
        return status(machine), None
    except AgentError as error:
        why = error.message if machine.is_root else "only root can read its journal: use `sudo ./ktrial …`"
        return Status(), f"what ktrial itself changed: {why}"


def _transactions(told: Status) -> list[ConfiguredValue]:
    found: list[Assignment] = []
    for one in told.transactions:
        if not one.this_boot or one.state != "applied":
            continue
        text = f"transaction {one.transaction}: {one.title or ''}"
        for step in one.steps:
            if isinstance(step.new, str):
                value = step.new.strip()
                found.append(
                    Assignment(
                        kind="path", name=step.path, value=value, file="ktrial", line_number=one.transaction, text=text
                    )
                )
    return _last_of_each("ktrial", found)


Parse = Callable[[bytes, str], Iterable[Assignment]]


def _parsed(parse: Parse, data: bytes | None, path: str, unread: list[Unread]) -> list[Assignment]:
    if data is None:
        return []
    try:
        return list(parse(data, path))
    except ForeignFormatError as error:
        unread.append(Unread(file=path, line_number=error.line_number or 1, text="", reason=error.reason))
        return []


def _all(
    files: _Files,
    folder: str,
    suffix: str,
    parse: Callable[[bytes, str], FileReading],
    unread: list[Unread],
    telling: bytes,
) -> list[Assignment]:
    """Return the assignments in a folder's files, skipping files without the bytes `telling`."""
    found: list[Assignment] = []
    for path, data in files.below(folder, suffix):
        if telling in data:
            found += _parsed(lambda text, name: parse(text, name).assignments, data, path, unread)
    return found


def _last_of_each(source: Source, assignments: Iterable[Assignment]) -> list[ConfiguredValue]:
    """Return one claim for each target: its last assignment, and those that it overrode."""
    by_target: dict[tuple[str, str, str | None], list[Assignment]] = {}
    for item in assignments:
        by_target.setdefault((item.kind, item.name, item.instance), []).append(item)
    return [
        ConfiguredValue(source=source, assignment=items[-1], overrode=tuple(items[:-1])) for items in by_target.values()
    ]
