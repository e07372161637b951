# SPDX-License-Identifier: Apache-2.0
"""The text of kept files, as the agent writes it, and a reader for it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ktrial.tuning.lasting.boot_unit import WANTS_TEXT
from ktrial.tuning.lasting.boot_words import REMOVED, word_text
from ktrial.tuning.lasting.model import SHARED_FORMS, Form, LastingEntry
from ktrial.tuning.lasting.scheduler_files import HEADER, read_scheduler

#: The agent accepts at most this many lines in a note, and bytes in a line.
_NOTE_LINES, _NOTE_BYTES = 8, 240
_NOTE_COLUMNS = 98
_KEYS = ("zram-size", "compression-algorithm", "swap-priority", "host-memory-limit", "zram-resident-limit")
_ZRAM = {"zram-size": "zram:disksize", "compression-algorithm": "zram:comp_algorithm"}
_MIB = 2**20
_UNIT = """\
[Unit]
Description=Settings that `ktrial keep` writes at boot
After=systemd-sysctl.service systemd-tmpfiles-setup.service systemd-udev-settle.service
{mount}
[Service]
Type=oneshot
RemainAfterExit=yes
"""
_EXEC = """ExecStart=-/bin/sh -c 'printf "%%s\\\\n" "$$2" > "$$1"' ktrial"""
_GRUB = 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX '
_REMOVE, _DEFAULT = "ktrial_remove ", 'GRUB_DEFAULT="'
#: Functions above the lines of GRUB's drop-in that remove arguments.
_FUNCTIONS = """\
ktrial_filter() {
	ktrial_left=" $1 "
	while :; do
		case $ktrial_left in
		*" $2 "*) ktrial_left=${ktrial_left%%" $2 "*}" "${ktrial_left#*" $2 "} ;;
		*" $2="*)
			ktrial_rest=${ktrial_left#*" $2="}
			case $3:${ktrial_rest%%" "*} in
			any:*[\\"\\'\\\\]*) break ;;
			any:*) ktrial_left=${ktrial_left%%" $2="*}" "${ktrial_rest#*" "} ;;
			*) break ;;
			esac
			;;
		*) break ;;
		esac
	done
	ktrial_left=${ktrial_left# }
	ktrial_left=${ktrial_left% }
}
ktrial_remove() {
	ktrial_filter "$GRUB_CMDLINE_LINUX" "$1" "$2"
	GRUB_CMDLINE_LINUX=$ktrial_left
	ktrial_filter "$GRUB_CMDLINE_LINUX_DEFAULT" "$1" "$2"
	GRUB_CMDLINE_LINUX_DEFAULT=$ktrial_left
}
"""


def note_of(entry: LastingEntry) -> list[str]:
    """Return the lines of an entry's note: each address with its reason; two spaces indent further lines."""
    each = _NOTE_LINES // max(1, len(entry.reasons))
    lines: list[str] = []
    for address, reason in entry.reasons.items():
        plain = "".join(one if " " <= one <= "~" and one != "\\" else "?" for one in " ".join(reason.split()))
        found = textwrap.wrap(
            f"{address}: {plain}",
            _NOTE_COLUMNS,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += [line[:_NOTE_BYTES] for line in found[:each]]
    return lines


def wire_entries(form: Form, entries: Iterable[LastingEntry]) -> Any:
    """Return the entries of a file in the form that the agent reads."""
    if form in {"systemd-wants", "scx-wants"}:
        return next(iter(entries)).holds["unit"]
    if form in SHARED_FORMS:
        return next(({**entry.holds, "note": note_of(entry)} for entry in entries), None)
    return [{**entry.holds, "note": note_of(entry)} for entry in entries]


def render(entries: Sequence[LastingEntry]) -> str:
    """Return the text that the agent writes for these entries, which must have the same form."""
    if entries and entries[0].form == "systemd-wants":
        return WANTS_TEXT
    text = HEADER if any(entry.reasons for entry in entries) else ""
    if entries and entries[0].form == "systemd-unit":
        text = HEADER + _unit_head(entries)
    if any("removes" in entry.holds for entry in entries):
        text += _FUNCTIONS
    for entry in entries:
        text += "".join(f"# {line}\n" for line in note_of(entry)) + _line(entry.form, entry.holds)
    return text


def _unit_head(entries: Iterable[LastingEntry]) -> str:
    has_debugfs = any(entry.holds["path"].startswith("/sys/kernel/debug/") for entry in entries)
    mount = "Wants=sys-kernel-debug.mount\nAfter=sys-kernel-debug.mount\n" if has_debugfs else ""
    return _UNIT.format(mount=mount)


def _line(form: Form, holds: Mapping[str, Any]) -> str:
    if form == "sysctl.d":
        key = holds["path"].removeprefix("/proc/sys/")
        return f"{key if '.' in key else key.replace('/', '.')} = {holds['value']}\n"
    if form == "tmpfiles.d":
        return f"w! {holds['path']} - - - - {holds['value']}\n"
    if form == "systemd-unit":
        return f'{_EXEC} "{holds["path"]}" "{holds["value"]}"\n'
    if form == "grub.d":
        return _line_of_grub(holds)
    if form == "modprobe.d":
        return f"options {holds['module']} {holds['parameter']}={holds['value']}\n"
    if form == "zram-generator":
        keys = "".join(f"{key} = {holds[key]}\n" for key in _KEYS if key in holds)
        return f"[{holds['device']}]\n{keys}"
    matches = holds["match"]
    first = [key for key in ("ACTION", "SUBSYSTEM", "KERNEL") if key in matches]
    others = sorted(key for key in matches if key.startswith("ATTR{"))
    tokens = [f'{key}=="{matches[key]}"' for key in (*first, *others)]
    tokens += [f'ATTR{{{one["attribute"]}}}="{one["value"]}"' for one in holds["set"]]
    return ", ".join(tokens) + "\n"


def _line_of_grub(holds: Mapping[str, Any]) -> str:
    if "kernel" in holds:
        return f'{_DEFAULT}{">".join(holds["entry"])}" # {holds["kernel"]}\n'
    if "removes" in holds:
        return f"{_REMOVE}{word_text(holds)} {'only' if 'value' in holds else 'any'}\n"
    return f'{_GRUB}{word_text(holds)}"\n'


def read_kept(form: Form, text: str) -> tuple[LastingEntry, ...]:
    """Return the entries of a kept file with this text."""
    if form in {"systemd-wants", "scx-wants"}:
        unit = text.partition("Wants=")[2].strip()
        return (LastingEntry(form=form, holds={"unit": unit}, values={}),)
    if form in SHARED_FORMS:
        comments, kept = read_scheduler(form, text)
        return () if kept is None else (replace(kept, reasons=_reasons(comments)),)
    if form == "systemd-unit":
        text = text.partition("RemainAfterExit=yes\n")[2]
    if form == "grub.d":
        text = text.replace(_FUNCTIONS, "", 1)
    entries: list[LastingEntry] = []
    for notes, lines in _blocks(text):
        reasons = _reasons(notes)
        holds, values = _entry(form, lines)
        if form == "zram-generator":
            values = {f"{knob}@{holds['device']}": value for knob, value in values.items()}
        else:
            values = dict.fromkeys(reasons, values[""])
        entries.append(LastingEntry(form=form, holds=holds, values=values, reasons=reasons))
    return tuple(entries)


def _blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the comment lines and the lines of each entry."""
    notes: list[str] = []
    lines: list[str] = []
    for line in text.removeprefix(HEADER).splitlines():
        is_note = line.startswith("# ")
        if lines and (is_note or "=" not in line or not lines[0].startswith("[")):
            yield notes, lines
            notes, lines = [], []
        (notes if is_note else lines).append(line.removeprefix("# ") if is_note else line)
    if lines:
        yield notes, lines


def _reasons(notes: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    address = ""
    for line in notes:
        if line.startswith("  ") and address:
            found[address] += f" {line.strip()}"
        else:
            address, _, reason = f"{line} ".partition(": ")
            found[address] = reason.strip()
    return found


def _entry(form: Form, lines: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    line = lines[0]
    if form == "sysctl.d":
        key, _, value = line.partition(" = ")
        return {"path": f"/proc/sys/{key if '/' in key else key.replace('.', '/')}", "value": value}, {"": value}
    if form == "tmpfiles.d":
        _, path, *_, value = line.split(" ", 6)
        return {"path": path, "value": value}, {"": value}
    if form == "systemd-unit":
        _, path, value = line.rsplit(' "', 2)
        return {"path": path.rstrip('"'), "value": value.rstrip('"')}, {"": value.rstrip('"')}
    if form == "grub.d":
        return _entry_of_grub(line)
    if form == "modprobe.d":
        _, module, setting = line.split(" ", 2)
        parameter, _, value = setting.partition("=")
        return {"module": module, "parameter": parameter, "value": value}, {"": value}
    if form == "zram-generator":
        keys: dict[str, Any] = dict(one.split(" = ", 1) for one in lines[1:])
        values = {_ZRAM[key]: value for key, value in keys.items() if key in _ZRAM}
        # The agent also takes expressions of the memory's size, which this machine does not compute.
        size = values.pop("zram:disksize", "")
        if re.fullmatch(r"[0-9]{1,15}", size):
            values = {"zram:disksize": str(int(size) * _MIB), **values}
        if "swap-priority" in keys:
            keys["swap-priority"] = int(keys["swap-priority"])
        return {"device": line.strip("[]"), **keys}, values
    tokens = re.findall(r'(?<![A-Z])([A-Z]+(?:\{[^}]*\})?)(==|=)"([^"]*)"', line)
    matches = {key: value for key, operator, value in tokens if operator == "=="}
    sets = [{"attribute": key[5:-1], "value": value} for key, operator, value in tokens if operator == "="]
    return {"match": matches, "set": sets}, {"": sets[0]["value"]}


def _entry_of_grub(line: str) -> tuple[dict[str, Any], dict[str, str]]:
    if line.startswith(_DEFAULT):
        names, _, kernel = line.removeprefix(_DEFAULT).partition('" # ')
        return {"kernel": kernel, "entry": names.split(">")}, {"": kernel}
    removes = line.startswith(_REMOVE)
    text = line.removeprefix(_REMOVE).partition(" ")[0] if removes else line.removeprefix(_GRUB).rstrip('"')
    name, equals, value = text.partition("=")
    holds = {"removes" if removes else "name": name, **({"value": value} if equals else {})}
    return holds, {"": REMOVED if removes else value if equals else "1"}
