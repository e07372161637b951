# SPDX-License-Identifier: Apache-2.0
"""Exporters of settings: each target is a module of this folder or a plug-in of another package.

A module defines NAME, WHAT (one sentence), FORMS (the forms of settings that it can express) and NEXT (what to do with
the files). `refusal(setting)` returns why it cannot express this setting, or None. `write(profile)` returns the files
by relative path.

A module with ON_PHONE = True writes one archive, whose scripts compute the values of devices on the phone.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.kit.plug_ins import TARGET, guarded, of_others
from ktrial.tuning.exports.model import Form, LastingProfile, LastingSetting


class ExportTarget(msgspec.Struct, frozen=True):
    """One target, as its module describes it."""

    name: str
    what: str
    forms: frozenset[Form]
    next: str
    refusal: Callable[[LastingSetting], str | None]
    write: Callable[[LastingProfile], Mapping[str, str]]
    on_phone: bool = False

    def objection(self, setting: LastingSetting) -> str | None:
        """Return why this target cannot express the setting; None if it can."""
        if setting.form not in self.forms:
            return f"{self.name} cannot set {NOUNS[setting.form]}"
        return self.refusal(setting)


#: Form -> what a person calls such settings.
NOUNS: Mapping[Form, str] = {
    "sysctl": "sysctls",
    "sysfs": "other files of sysfs and procfs",
    "device": "files of devices",
    "cgroup": "files of control groups",
    "debugfs": "files of debugfs",
    "module": "parameters of modules",
    "zram": "zram devices",
    "boot": "kernel arguments",
    "kconfig": "options of the kernel's configuration",
    "build": "flags of a kernel build",
    "patch": "patches of the kernel",
}


#: Targets to suggest first: the machine's own formats.
_NATIVE = ("sysctl.d", "udev", "tmpfiles.d", "modprobe.d", "zram-generator", "systemd-unit", "grub")


def targets(warn: Callable[[str], None] = lambda _: None) -> dict[str, ExportTarget]:
    """Return all targets by name; call `warn` for each plug-in that cannot be used."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    own = [_target(importlib.import_module(f"{__name__}.{name}")) for name in names]
    found = {target.name: target for target in own}
    for name, module in of_others(TARGET, warn):
        target = _target(module)
        if target.name in found:
            warn(f"skipped the target {name}: {target.name} already exists")
        else:
            what = f"the target {name}"
            found[target.name] = msgspec.structs.replace(
                target, refusal=guarded(target.refusal, what), write=guarded(target.write, what)
            )
    return found


def _target(module: object) -> ExportTarget:
    names = ("NAME", "WHAT", "FORMS", "NEXT", "refusal", "write")
    target = ExportTarget(*(getattr(module, name) for name in names))
    return msgspec.structs.replace(target, on_phone=getattr(module, "ON_PHONE", False))


def export(
    profile: LastingProfile, chosen: Sequence[ExportTarget], known: Iterable[ExportTarget]
) -> dict[ExportTarget, Mapping[str, str]]:
    """Return the files of each chosen target; a setting goes to the first chosen target that can express it.

    Raise BadInput if no chosen target can express a setting. The error names the targets in `known` that can.
    """
    parts: dict[ExportTarget, list[LastingSetting]] = {target: [] for target in chosen}
    refused: list[tuple[LastingSetting, str]] = []
    for setting in profile.settings:
        objections = [target.objection(setting) for target in chosen]
        if None in objections:
            parts[chosen[objections.index(None)]].append(setting)
        else:
            refused.append((setting, "; ".join(one for one in objections if one is not None)))
    if refused:
        raise _inexpressible(refused, list(known))
    return {
        target: target.write(msgspec.structs.replace(profile, settings=tuple(settings)))
        for target, settings in parts.items()
        if settings
    }


def _inexpressible(refused: Sequence[tuple[LastingSetting, str]], known: Sequence[ExportTarget]) -> BadInput:
    lines, hints = [], dict[str, None]()
    for setting, reason in refused:
        able = [target.name for target in known if not target.on_phone and target.objection(setting) is None]
        able.sort(key=lambda name: (_NATIVE.index(name) if name in _NATIVE else len(_NATIVE), name))
        lines.append(f"{setting.address}={setting.text}: {reason} ({_able_text(setting, able)})")
        if able:
            hints[able[0]] = None
    shown = lines[0] if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)
    more = " ".join(f"--to {name}" for name in hints)
    return BadInput(f"cannot export {shown}", hint=f"add {more}" if more else "leave out these settings")


def _able_text(setting: LastingSetting, able: Sequence[str]) -> str:
    if able:
        return f"can: {', '.join(able)}"
    return "no target can" + ("; `ktrial kernel build` applies patches" if setting.form == "patch" else "")
