# SPDX-License-Identifier: Apache-2.0
"""Kernel arguments that last: which settings are words, and which words need a confirmation."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence

from ktrial.tuning.exports.model import LastingSetting, Omission, boot_word
from ktrial.tuning.exports.text import word_refusal
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.value import kernel_text
from ktrial.tuning.lasting.loaders import NoLoader
from ktrial.tuning.lasting.model import FileChange, Guarded, LastingEntry
from ktrial.tuning.plans.model import Change, Refusal, Why

#: Stands for the path of a kernel argument.
COMMAND_LINE = "/proc/cmdline"
#: What the agent takes: no boot loader or shell reads these characters in a special way.
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(?:=[A-Za-z0-9_.,:/+=@-]+)?")
_PARAMETER = re.compile(r"/sys/module/([^/]+)/parameters/([^/]+)")
#: Pattern of a word that weakens the machine's protection -> its values that do not. The agent has the longer list.
_GUARDED: Mapping[str, tuple[str, ...]] = {
    "audit": ("1",),
    "init_on_alloc": ("1",),
    "init_on_free": ("1",),
    "iommu.passthrough": ("0",),
    "iommu.strict": ("1",),
    "kvm*.*": (),
    "mitigations": ("auto", "auto,nosmt"),
    "nokaslr": (),
    "random.*": (),
    "retbleed": ("auto", "auto,nosmt"),
    "spectre_v2": ("on", "auto"),
    "split_lock_detect": ("warn", "fatal"),
}
#: Pattern of a word that protects the machine, unless its value is `0` or `off`.
_PROTECTING = (
    *("amd_iommu", "apparmor", "enforcing", "evm", "hardened_usercopy", "ima_*", "intel_iommu", "iommu", "kpti"),
    *("l1d_flush", "l1tf", "lockdown", "lsm", "mds", "mmio_stale_data", "module.sig_enforce", "page_poison", "pti"),
    *("security", "selinux", "slab_nomerge", "spec_*", "spectre_*", "srbds", "tsa", "tsx_async_abort", "vmscape"),
    *("vsyscall",),
)


def change_of_word(refusal: Refusal, knobs: Mapping[str, Knob], modules: Iterable[str]) -> Change | None:
    """Return the change of a kernel argument, or of a read-only parameter of a built-in module; None for others."""
    knob = knobs.get(refusal.knob)
    if knob is None:
        return None
    parameter = _PARAMETER.fullmatch(knob.files[0]) if knob.kind == "module" and knob.files else None
    is_built_in = refusal.kind is Why.READ_ONLY and parameter is not None and parameter[1] not in set(modules)
    if knob.kind != "boot" and not is_built_in:
        return None
    text = "1" if refusal.value == "on" and knob.value.type == "bool" else kernel_text(knob, refusal.value)
    return Change.later(knob.id, refusal.address, COMMAND_LINE, text, origin=refusal.origin, risk=knob.risk)


def place_word(
    change: Change, knob: Knob, loader: NoLoader | None, *, allow_dangerous: bool
) -> LastingEntry | Omission:
    """Return the entry of a kernel argument in the boot loader's drop-in; or why there is none."""
    address, value = change.address, change.new_text
    setting = LastingSetting(knob=knob, text=value)
    reason, word = word_refusal(setting), boot_word(setting)
    if word is None or reason is not None:
        return Omission(address, reason or "there is no word for it", value)
    if loader is not None:
        export = f"`ktrial export {address}={value} --to {loader.target}` writes them for it"
        own = loader.hint or f"add  {word}  to the kernel command line"
        return Omission(address, loader.reason, value, export if loader.target else own)
    if not _WORD.fullmatch(word):
        return Omission(address, f"a boot loader would read some characters of {word!r} in its own way", value)
    name, equals, text = word.partition("=")
    holds = {"name": name, "value": text} if equals else {"name": name}
    entry = LastingEntry(form="grub.d", holds=holds, values={address: value})
    if knob.risk == "dangerous" and not allow_dangerous and _harmless(entry) is None:
        return Omission(address, f"dangerous: {knob.price}", value, "use --yes-dangerous to keep it anyway")
    return entry


def guarded_names(entries: Iterable[LastingEntry]) -> list[str]:
    """Return the names of the words that weaken the machine's protection."""
    return [one.holds["name"] for one in entries if one.form == "grub.d" and _is_guarded(one)]


def _is_guarded(entry: LastingEntry) -> bool:
    return weakens(entry.holds["name"], entry.holds.get("value"))


def weakens(name: str, value: str | None) -> bool:
    """Return whether a word weakens the machine's protection."""
    harmless = _harmless_values(name)
    return harmless is not None and value not in harmless


def may_weaken(name: str, value: str | None) -> bool:
    """Return whether the machine may be protected less without this word."""
    harmless = _harmless_values(name)
    is_listed = any(fnmatch.fnmatchcase(name.replace("-", "_"), pattern) for pattern in _PROTECTING)
    return bool(harmless and value in harmless) or (is_listed and value not in {"0", "off"})


def _harmless(entry: LastingEntry) -> tuple[str, ...] | None:
    return _harmless_values(entry.holds["name"])


def _harmless_values(name: str) -> tuple[str, ...] | None:
    """Return the values of a guarded word that do not weaken the machine; None for other words."""
    name = name.replace("-", "_")
    return next((harmless for pattern, harmless in _GUARDED.items() if fnmatch.fnmatchcase(name, pattern)), None)


def find_guarded(
    files: Iterable[FileChange], old: Sequence[LastingEntry], knobs: Mapping[str, Knob]
) -> tuple[Guarded, ...]:
    """Return the words that are new in the files and weaken the machine's protection, with their prices."""
    known = [one.holds for one in old]
    found = []
    for entry in (entry for file in files for entry in file.entries):
        if entry.form != "grub.d" or entry.holds in known or not _is_guarded(entry):
            continue
        knob = knobs.get(next(iter(entry.values), "").partition("@")[0])
        price = (knob.security or knob.price or "") if knob is not None else ""
        found.append(Guarded(entry.holds["name"], word_text(entry.holds), price))
    return tuple(found)


def word_text(holds: Mapping[str, str]) -> str:
    return f"{holds['name']}={holds['value']}" if "value" in holds else holds["name"]
