# SPDX-License-Identifier: Apache-2.0
"""The log that a module writes on a phone: the result of each setting, boot by boot."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.kit.tables import clean, paragraph, table

_HEADER = "ktrial-module-log/1"
OUTCOMES = ("accepted", "clamped", "ignored", "refused", "absent", "overwritten")
#: Outcomes of settings that are not in force although the phone has them.
_FAILURES = frozenset({"clamped", "ignored", "refused", "overwritten"})
#: Beginning of a field -> the field of PhoneSetting that holds the rest.
_VALUES = {"wanted ": "wanted", "was ": "before", "is ": "now", "left ": "before"}
_DEVICE = re.compile(r"/block/([^/*]+)/|/(policy\d+)/")


class PhoneSetting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result for one file of a setting. `overwritten` means that another program wrote to the file afterwards."""

    outcome: str
    knob: str
    path: str
    wanted: str | None = None
    before: str | None = None
    now: str | None = None
    why: str | None = None


class PhoneRival(msgspec.Struct, frozen=True):
    """Another module whose scripts mention files that this module writes."""

    id: str
    name: str
    mentions: tuple[str, ...]


class PhoneBoot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One boot of the phone. `guard` says why the module did nothing; `unread` are lines that ktrial cannot read.

    `finished` is the time at which the boot counted as complete.
    """

    module: str
    version: str
    time: str | None = None
    kernel: str | None = None
    phone: str | None = None
    settings: tuple[PhoneSetting, ...] = ()
    rivals: tuple[PhoneRival, ...] = ()
    notes: tuple[str, ...] = ()
    guard: str | None = None
    finished: str | None = None
    unread: tuple[str, ...] = ()

    @property
    def in_force(self) -> bool:
        """Return whether every setting that the phone has was set and stayed in force; False without settings."""
        applied = bool(self.settings) and self.guard is None
        return applied and not any(one.outcome in _FAILURES for one in self.settings)


def is_module_log(text: str) -> bool:
    return text.lstrip("\ufeff").startswith(_HEADER)


def parse_log(text: str, file: str | None = None) -> tuple[PhoneBoot, ...]:
    """Return the boots of a log, oldest first. Raise BadInput, which names `file`, for other texts."""
    boots: list[dict[str, Any]] = []
    for line in text.lstrip("\ufeff").replace("\r\n", "\n").split("\n"):
        fields = line.split("\t")
        if fields[0] == _HEADER and len(fields) == 3:
            boots.append({"module": fields[1], "version": fields[2]})
        elif not boots:
            hint = "copy /data/adb/ktrial/MODULE/log from the phone, unchanged"
            raise BadInput("not the log of a phone module", file=file, hint=hint)
        elif line and not _take(boots[-1], fields):
            boots[-1].setdefault("unread", []).append(line)
    return tuple(msgspec.convert(one, PhoneBoot) for one in boots)


def _take(boot: dict[str, Any], fields: list[str]) -> bool:
    """Add a line to a boot; return whether it could be read."""
    kind, rest = fields[0], fields[1:]
    if kind == "boot" and len(rest) == 3:
        boot |= {"time": rest[0], "kernel": rest[1].removeprefix("kernel "), "phone": rest[2]}
    elif kind in OUTCOMES and len(rest) >= 3:
        setting = {"outcome": kind, "knob": rest[0], "path": rest[1]}
        for field in rest[2:]:
            start = next((one for one in _VALUES if field.startswith(one)), None)
            setting[_VALUES[start] if start else "why"] = field.removeprefix(start or "")
        boot.setdefault("settings", []).append(setting)
    elif kind == "conflict" and len(rest) == 3:
        rival = {"id": rest[0], "name": rest[1], "mentions": rest[2].removeprefix("mentions").split()}
        boot.setdefault("rivals", []).append(rival)
    elif kind == "note" and len(rest) == 1:
        boot.setdefault("notes", []).append(rest[0])
    elif kind in {"guard", "end"} and len(rest) == 1:
        boot["finished" if kind == "end" else "guard"] = rest[0]
    else:
        return False
    return True


def log_text(boots: tuple[PhoneBoot, ...], *, width: int) -> str:
    return "\n".join(_boot_text(one, width) for one in boots)


def _address(setting: PhoneSetting) -> str:
    """Return the knob with the device that the path names."""
    device = _DEVICE.search(setting.path)
    return f"{setting.knob}@{device[1] or device[2]}" if device else setting.knob


def _boot_text(boot: PhoneBoot, width: int) -> str:
    lines = [clean(f"{boot.module} {boot.version} on {boot.phone or 'an unknown phone'}, {boot.time or 'no time'}")]
    if boot.kernel is not None:
        lines.append(clean(f"kernel {boot.kernel}"))
    if boot.guard is not None:
        lines.append(clean(f"guard: {boot.guard}"))
    lines += [clean(f"note: {one}") for one in boot.notes]
    lines += [clean(f"conflict: {one.name} ({one.id}) mentions {', '.join(one.mentions)}") for one in boot.rivals]
    shown = [one for one in boot.settings if one.outcome != "absent"]
    rows = [(one.outcome, _address(one), one.wanted or "", one.before or "", one.now or one.why or "") for one in shown]
    if rows:
        lines += ["", table(("outcome", "setting", "wanted", "was", "is"), rows, width=width), ""]
    missing = dict.fromkeys(_address(one) for one in boot.settings if one.outcome == "absent")
    if missing:
        lines.append(paragraph(f"This phone lacks: {', '.join(missing)}.", width=width))
    counts = Counter(one.outcome for one in boot.settings)
    if counts:
        lines.append(", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts[name]))
    if boot.guard is None and boot.finished is None:
        lines.append("the log ends early: the phone went down, or the minute after the writes is not over")
    if boot.unread:
        lines.append(f"{len(boot.unread)} unreadable line{'s'[: len(boot.unread) != 1]}")
    return "\n".join(lines) + "\n"
