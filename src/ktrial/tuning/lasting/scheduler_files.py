# SPDX-License-Identifier: Apache-2.0
"""The sched_ext scheduler that a service starts at boot: the file that configures it, with ktrial's lines.

`scx_loader` and `scx.service` read such files. ktrial puts its lines at the top and sets other lines with the same
keys aside as comments; the agent writes the same text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ktrial.kit.errors import Refused
from ktrial.machine.ports import Machine
from ktrial.tuning.exports.model import Omission
from ktrial.tuning.lasting.live_words import LiveWord
from ktrial.tuning.lasting.model import PLACES, SHARED_FORMS, FileChange, Form, KeptFile, LastingEntry, Rival

#: The address of the kept scheduler.
SCHEDULER = "sched_ext:scheduler"
LOADER_UNIT, SERVICE_UNIT = "scx_loader.service", "scx.service"
HEADER = "# ktrial keeps this file: `ktrial drift` checks it, `ktrial keep --undo` removes it.\n"
_BEGIN = "# ktrial keeps these lines: `ktrial drift` checks them, `ktrial keep --undo` removes them.\n"
_END = "# end of the lines that ktrial keeps\n"
_ASIDE = "# set aside by ktrial: "
#: The modes of scx_loader by their names in a protocol, as its configuration spells them.
MODES: Mapping[str, str] = {
    "auto": "Auto",
    "gaming": "Gaming",
    "powersave": "PowerSave",
    "lowlatency": "LowLatency",
    "server": "Server",
}
_NAME = re.compile(r"scx_[a-z0-9_]{1,64}")
#: Options that the agent accepts: none that names a file.
_FLAG = re.compile(r"[A-Za-z0-9_.,:+=-]+")
_UNIT_FOLDERS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
#: Folders in which systemd looks for a program without a folder.
_PROGRAM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
_TARGETS = ("graphical", "multi-user")
#: What scx_loader reads if there is no file in /etc.
_VENDOR = ("/usr/share/scx_loader/config.toml", "/usr/share/scx_loader.toml")
_STATE, _OPS = "/sys/kernel/sched_ext/state", "/sys/kernel/sched_ext/root/ops"
_LINE = re.compile(r'^(default_sched|default_mode|SCX_SCHEDULER|SCX_FLAGS) ?= ?"?([^"\n]*)"?$', re.MULTILINE)
#: Settings that only the kernel's own scheduler reads.
_OF_OWN_SCHEDULER = ("sched:", "feature:", "kernel.sched_")


class MeasuredScheduler(NamedTuple):
    """The scheduler of a trial's arm: program and options, and its mode if scx_loader started it.

    `ops` is the name that sched_ext shows, if it differs from the program's. `reason` is the verdict
    of the trial, for the file that starts the scheduler at boot.
    """

    run: tuple[str, ...]
    mode: str | None
    ops: str | None
    reason: str


class BootSchedulers(NamedTuple):
    """What starts schedulers on a machine: existing units, enabled units, and the texts of files by path."""

    units: Collection[str]
    enabled: Collection[str]
    texts: Mapping[str, str]


def look_for_starters(machine: Machine) -> BootSchedulers:
    """Read what starts schedulers at boot here. Raise Refused if a file cannot be read."""
    names = (LOADER_UNIT, SERVICE_UNIT)
    units = {name: [f"{folder}/{name}" for folder in _UNIT_FOLDERS] for name in names}
    wants = {name: [f"{_UNIT_FOLDERS[0]}/{target}.target.wants/{name}" for target in _TARGETS] for name in names}
    found = machine.list([path for paths in (*units.values(), *wants.values()) for path in paths])
    readings = machine.read([*(PLACES[form] for form in SHARED_FORMS), *_VENDOR])
    for path, one in readings.items():
        if one is not None and one.data is None:
            why = one.unreadable or one.invalid
            raise Refused(f"cannot read {path}: {why}", hint=f"make {path} readable, or remove it")
    return BootSchedulers(
        units=[name for name in names if any(found[path] for path in units[name])],
        enabled=[name for name in names if any(found[path] for path in wants[name])],
        texts={
            path: one.data.decode(errors="replace")
            for path, one in readings.items()
            if one is not None and one.data is not None
        },
    )


def place_scheduler(measured: MeasuredScheduler, here: BootSchedulers) -> LastingEntry | Omission:
    """Return the entry that starts the scheduler at boot as the trial measured it, or why no entry can."""
    name, flags = measured.run[0].rpartition("/")[2], " ".join(measured.run[1:])
    if measured.mode:
        form: Form = "scx-loader-folder" if PLACES["scx-loader-folder"] in here.texts else "scx-loader"
        holds = {"scheduler": name, "mode": MODES[measured.mode]}
    else:
        form, holds = "scx-service", {"scheduler": name, **({"flags": flags} if flags else {})}
    why = _why_unfit(name, measured) or _why_not_here(measured, form, here) or _why_not_in_file(form, here)
    entry = _entry(form, holds, measured.reason)
    return entry if why is None else Omission(SCHEDULER, why[0], entry.values[SCHEDULER], why[1])


def _why_unfit(name: str, measured: MeasuredScheduler) -> tuple[str, str | None] | None:
    """Return why no service can start the scheduler, with a hint; None if one can."""
    if not _NAME.fullmatch(name):
        return "services start only programs with names such as scx_lavd", None
    if measured.ops is not None and not measured.ops.startswith(name.removeprefix("scx_")):
        return f"sched_ext shows {name} as {measured.ops}, so `ktrial drift` could not recognise {name}", None
    if odd := next((word for word in measured.run[1:] if not _FLAG.fullmatch(word)), None):
        return f"ktrial cannot write the option {odd!r} into {PLACES['scx-service']}", "add this option yourself"
    return None


def _why_not_here(measured: MeasuredScheduler, form: Form, here: BootSchedulers) -> tuple[str, str] | None:
    """Return why no service here starts the scheduler as the trial did, with a hint; None if one does."""
    unit, other = (LOADER_UNIT, SERVICE_UNIT) if measured.mode else (SERVICE_UNIT, LOADER_UNIT)
    if unit not in here.units:
        how = "through scx_loader" if measured.mode else "without a service"
        again = f"repeat the trial with scx_loader {'stopped' if measured.mode else 'running'}"
        return (
            f"the trial started the scheduler {how}, and {unit} is not here",
            again if other in here.units else f"install {unit}",
        )
    folder = measured.run[0].rpartition("/")[0]
    if form == "scx-service" and folder and folder not in _PROGRAM_FOLDERS:
        return f"{unit} finds no programs in {folder}", f"install the scheduler in {_PROGRAM_FOLDERS[1]}"
    return None


def _why_not_in_file(form: Form, here: BootSchedulers) -> tuple[str, str] | None:
    """Return why ktrial cannot write its lines into the service's file, with a hint; None if it can."""
    place = PLACES[form]
    if here.texts.get(place) == "":
        return f"{place} is empty", f"sudo rm {place}"
    for line in (restored(here.texts.get(place, "")) or "").splitlines():
        value = line.partition("=")[2].strip()
        is_odd = any(value.count(quote) % 2 == 1 for quote in "\"'") and "#" not in value
        if _has_our_key(line, form) and (value.endswith("\\") or is_odd or '"""' in value):
            return f"ktrial cannot edit a value of several lines in {place}: {line!r}", "write this value on one line"
    vendor = next((path for path in _VENDOR if path in here.texts), None)
    if form == "scx-service" or place in here.texts or vendor is None:
        return None
    lines = [line.strip() for line in here.texts[vendor].splitlines()]
    if all(not line or line.startswith("#") or _LINE.match(line) for line in lines):
        return None
    return (
        f"scx_loader reads {vendor} only while there is no file in /etc, and its options would be lost",
        f"sudo install -D -m 644 {vendor} {PLACES['scx-loader-folder']}",
    )


def _entry(form: Form, holds: Mapping[str, Any], reason: str = "") -> LastingEntry:
    value = " ".join(text for text in (holds["scheduler"], holds.get("mode"), holds.get("flags")) if text)
    return LastingEntry(form=form, holds=holds, values={SCHEDULER: value}, reasons={SCHEDULER: reason})


def scheduler_changes(
    entry: LastingEntry, notes: Sequence[str], here: BootSchedulers, kept: Mapping[Form, KeptFile]
) -> Iterator[FileChange]:
    """Yield the files that change if ktrial keeps this scheduler, in place of the scheduler kept before, if any."""
    before = here.texts.get(PLACES[entry.form])
    after = edited(before or "", entry.form, lines_of(entry), notes)
    if after != before:
        yield FileChange(entry.form, before, after, (entry,))
    for form, file in kept.items():
        if form in SHARED_FORMS and form != entry.form:
            yield FileChange(form, file.text, restored(file.text), ())
    yield from _wants_changes(SERVICE_UNIT if entry.form == "scx-service" else LOADER_UNIT, here, kept)


def _wants_changes(unit: str, here: BootSchedulers, kept: Mapping[Form, KeptFile]) -> Iterator[FileChange]:
    """Yield the change of the drop-in that starts the service; none is needed if somebody has enabled the service."""
    before = kept["scx-wants"].text if "scx-wants" in kept else None
    after = None if unit in here.enabled else wants_text(unit)
    if after != before:
        entries = () if after is None else (LastingEntry(form="scx-wants", holds={"unit": unit}, values={}),)
        yield FileChange("scx-wants", before, after, entries)


def without_scheduler(kept: Mapping[Form, KeptFile]) -> Iterator[FileChange]:
    """Yield the files that change if no scheduler is kept any more."""
    for form, file in kept.items():
        if form in SHARED_FORMS:
            yield FileChange(form, file.text, restored(file.text), ())
        elif form == "scx-wants":
            yield FileChange(form, file.text, None, ())


def scheduler_rivals(entry: LastingEntry, here: BootSchedulers) -> Iterator[Rival]:
    """Yield the other service if it starts a scheduler at boot too.

    The service that starts second fails, or replaces the scheduler of the first.
    """
    other = LOADER_UNIT if entry.form == "scx-service" else SERVICE_UNIT
    if other not in here.enabled:
        return
    forms: tuple[Form, ...] = ("scx-loader-folder", "scx-loader") if other == LOADER_UNIT else ("scx-service",)
    text = next((here.texts[PLACES[form]] for form in forms if PLACES[form] in here.texts), "")
    value = next((found for key, found in _LINE.findall(text) if key in {"default_sched", "SCX_SCHEDULER"}), None)
    if other == SERVICE_UNIT or value:
        yield Rival(SCHEDULER, f"{other}, which is enabled too,", value or None, wins=True, when="at boot")


def ignored_settings(addresses: Collection[str]) -> list[str]:
    """Return the addresses of settings that have an effect only while no sched_ext scheduler is in force."""
    return sorted(one for one in addresses if one.startswith(_OF_OWN_SCHEDULER))


def lines_of(entry: LastingEntry) -> str:
    """Return the lines of an entry without its note."""
    holds = entry.holds
    if entry.form == "scx-service":
        return f'SCX_SCHEDULER={holds["scheduler"]}\nSCX_FLAGS="{holds.get("flags", "")}"\n'
    return f'default_sched = "{holds["scheduler"]}"\ndefault_mode = "{holds["mode"]}"\n'


def wants_text(unit: str) -> str:
    return f"{HEADER}[Unit]\nWants={unit}\n"


def edited(old: str, form: Form, lines: str, notes: Sequence[str]) -> str:
    """Return the file `old` with `lines` in place of ktrial's present lines; `old` is empty if there is no file."""
    plain = restored(old)
    head = "".join(f"# {line}\n" for line in notes) + lines
    if plain is None:
        return HEADER + head
    is_top, rest = True, []
    for line in _whole_lines(plain):
        is_top = is_top and (form == "scx-service" or not line.lstrip().startswith("["))
        rest.append(_ASIDE + line if is_top and _has_our_key(line, form) else line)
    return f"{_BEGIN}{head}{_END}{''.join(rest)}"


def restored(text: str) -> str | None:
    """Return the file as it was without ktrial's lines; None if ktrial made the whole file, or there is no file."""
    if not text or text.startswith(HEADER):
        return None
    if not text.startswith(_BEGIN) or _END not in text:
        return text
    rest = text.partition(_END)[2]
    return "".join(line.removeprefix(_ASIDE) for line in _whole_lines(rest))


def is_ours(text: str) -> bool:
    """Return whether ktrial keeps lines in this text."""
    return text.startswith((HEADER, _BEGIN))


def _whole_lines(text: str) -> list[str]:
    """Return the lines with their ends; only a newline ends a line."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _has_our_key(line: str, form: Form) -> bool:
    line = line.lstrip()
    keys = ("default_sched", "default_mode")
    if form == "scx-service":
        keys, line = ("SCX_SCHEDULER", "SCX_FLAGS"), line.removeprefix("export ").lstrip()
    key, equals, _ = line.partition("=")
    return bool(equals) and key.strip().strip("\"'") in keys


def read_scheduler(form: Form, text: str) -> tuple[list[str], LastingEntry | None]:
    """Parse a text that `edited` returned; return its comment lines, and the entry without the reason.

    For other texts, return no lines and None.
    """
    if not is_ours(text):
        return [], None
    own = text.partition(_END)[0]
    values = dict(_LINE.findall(own))
    notes = [line.removeprefix("# ") for line in own.splitlines()[1:] if line.startswith("# ")]
    if form == "scx-service":
        flags = values.get("SCX_FLAGS")
        return notes, _entry(form, {"scheduler": values["SCX_SCHEDULER"], **({"flags": flags} if flags else {})})
    return notes, _entry(form, {"scheduler": values["default_sched"], "mode": values["default_mode"]})


def look_at_scheduler(entry: LastingEntry, machine: Machine, *, is_pending: bool) -> LiveWord:
    """Return the state of the kept scheduler: whether /sys/kernel/sched_ext shows it or another scheduler."""
    readings = machine.read((_STATE, _OPS))
    state, ops = (one.text if (one := readings[path]) is not None else None for path in (_STATE, _OPS))
    now: str | None = ops if state == "enabled" and ops else state
    if state == "enabled" and (ops or "").startswith(entry.holds["scheduler"].removeprefix("scx_")):
        return LiveWord("live", now, None)
    if is_pending:
        return LiveWord("pending", now, "from the next boot on")
    unit = SERVICE_UNIT if entry.form == "scx-service" else LOADER_UNIT
    if state is None:
        detail = "this kernel has no sched_ext"
    elif state == "enabled":
        detail = "another scheduler is in force"
    else:
        detail = f"no sched_ext scheduler is in force; `systemctl status {unit}` may say why"
    return LiveWord("differs", now, detail)
