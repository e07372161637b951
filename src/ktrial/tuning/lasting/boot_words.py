# SPDX-License-Identifier: Apache-2.0
"""Kernel arguments that last: which settings are arguments, and which arguments need a confirmation."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from ktrial.kit.errors import BadInput, Refused
from ktrial.tuning.exports.model import UNTESTED, LastingSetting, Omission, boot_word
from ktrial.tuning.exports.text import word_refusal
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.value import kernel_text
from ktrial.tuning.lasting.loaders import NoLoader
from ktrial.tuning.lasting.model import FileChange, GuardedWord, LastingEntry
from ktrial.tuning.origin.formats.command_line import same_name
from ktrial.tuning.plans.model import Change, Refusal, Why

#: Start of the address of a removed argument, and the address of the default kernel.
REMOVAL, DEFAULT_KERNEL = "boot:-", "boot:kernel"
#: The value of a removed argument.
REMOVED = "removed"
#: The path that stands for kernel arguments.
COMMAND_LINE = "/proc/cmdline"
#: Arguments that the agent accepts: no boot loader or shell treats these characters specially.
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(?:=[A-Za-z0-9_.,:/+=@-]+)?")
_PARAMETER = re.compile(r"/sys/module/([^/]+)/parameters/([^/]+)")
#: Pattern of an argument that may weaken the machine's protection -> its harmless values. The agent has the same list.
GUARDED: Mapping[str, tuple[str, ...]] = {
    "amd_iommu": ("force_enable", "force_isolation"),
    "apparmor": ("1",),
    "audit": ("1",),
    "debugfs": ("off", "no-mount"),
    "efi_no_storage_paranoia": (),
    "enforcing": ("1",),
    "cfi": ("kcfi", "fineibt"),
    "dis_ucode_ldr": (),
    "evm": (),
    "fips": ("1",),
    "gather_data_sampling": ("force",),
    "hardened_usercopy": ("on",),
    "ia32_emulation": ("0", "off", "false"),
    "ibt": ("on",),
    "ima_*": (),
    "indirect_target_selection": ("on", "force"),
    "init_on_alloc": ("1",),
    "init_on_free": ("1",),
    "intel_iommu": ("on",),
    "iommu": ("force",),
    "iommu.passthrough": ("0",),
    "iommu.strict": ("1",),
    "kpti": ("1",),
    "kvm*.*": (),
    "l1d_flush": ("on",),
    "l1tf": ("full", "full,force"),
    "lockdown": (),
    "lsm": (),
    "lsm.debug": (),
    "mds": ("full", "full,nosmt"),
    "mitigations": ("auto", "auto,nosmt"),
    "mmio_stale_data": ("full", "full,nosmt"),
    "module.sig_enforce": ("1",),
    "no_hash_pointers": (),
    "noexec*": ("on",),
    "nokaslr": (),
    "nopti": (),
    "norandmaps": (),
    "nosmap": (),
    "nosmt": ("force",),
    "nosmep": (),
    "nospec*": (),
    "page_alloc.shuffle": ("1", "y", "on"),
    "page_poison": ("1",),
    "pti": ("on", "auto"),
    "random.*": (),
    "randomize_kstack_offset": ("1", "y", "on"),
    "reg_file_data_sampling": ("on",),
    "retbleed": ("auto", "auto,nosmt"),
    "rodata": ("on", "full"),
    "security": (),
    "selinux": ("1",),
    "slab_debug": (),
    "slab_merge": (),
    "slab_nomerge": (),
    "slub_debug": (),
    "spec_rstack_overflow": ("safe-ret", "ibpb"),
    "spec_store_bypass_disable": ("on", "auto", "seccomp"),
    "spectre_*": ("on", "auto"),
    "split_lock_detect": ("warn", "fatal"),
    "srbds": ("on",),
    "ssbd": ("force-on",),
    "tsa": ("on",),
    "tsx": ("off",),
    "tsx_async_abort": ("full", "full,nosmt"),
    "unsafe*": (),
    "usbcore.authorized_default": ("0", "2"),
    "vmscape": ("on", "auto", "force"),
    "vsyscall": ("none", "xonly"),
}
#: Patterns in GUARDED of arguments that themselves weaken the protection, so that removing one is harmless.
WEAKENS = (
    "dis_ucode_ldr",
    "efi_no_storage_paranoia",
    "lsm.debug",
    "no_hash_pointers",
    "nokaslr",
    "nopti",
    "norandmaps",
    "nosmap",
    "nosmep",
    "nospec*",
    "slab_merge",
    "unsafe*",
)


def change_of_word(refusal: Refusal, knobs: Mapping[str, Knob], modules: Iterable[str]) -> Change | None:
    """Return the change for a skipped setting that a kernel argument can make last; None for other settings.

    Only kernel arguments, and read-only parameters of modules that are built into the kernel, can last this way.
    """
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
    """Return the entry that adds a kernel argument to GRUB's drop-in, or why there is none.

    `loader` says why ktrial cannot add kernel arguments here; None if ktrial can.
    """
    address, value = change.address, change.new_text
    setting = LastingSetting(knob=knob, text=value)
    reason, word = word_refusal(setting), boot_word(setting)
    if word is None or reason is not None:
        return Omission(address, reason or "no kernel argument expresses this setting", value)
    if loader is not None:
        export = f"run `ktrial export {address}={value} --to {loader.target}` instead"
        own = loader.hint or f"add  {word}  to the kernel command line"
        return Omission(address, loader.reason, value, export if loader.target else own)
    if not _WORD.fullmatch(word):
        return Omission(address, f"a boot loader would read some characters of {word!r} in its own way", value)
    name, equals, text = word.partition("=")
    holds = {"name": name, "value": text} if equals else {"name": name}
    entry = LastingEntry(form="grub.d", holds=holds, values={address: value})
    if knob.risk == "dangerous" and not allow_dangerous and _guarded_pattern(name) is None:
        return Omission(address, f"dangerous: {knob.price}", value, "add --yes-dangerous to accept the danger")
    return entry


def guarded_names(entries: Iterable[LastingEntry]) -> list[str]:
    """Return the names of the kernel arguments whose addition or removal weakens the machine's protection."""
    entries = tuple(entries)
    return sorted({name_of(one) for one in entries if one.form == "grub.d" and _is_guarded(one, entries)})


def name_of(entry: LastingEntry) -> str:
    """Return the name of the argument that an entry adds or removes; empty for the default kernel."""
    return str(entry.holds.get("name") or entry.holds.get("removes") or "")


def _is_guarded(entry: LastingEntry, entries: Iterable[LastingEntry]) -> bool:
    """Return whether an entry needs a confirmation. If a value changes, the entry that adds the argument needs it."""
    name, value = name_of(entry), entry.holds.get("value")
    if "removes" in entry.holds:
        is_replaced = any("name" in one.holds and same_name(name_of(one), name) for one in entries)
        return not is_replaced and may_weaken(name, value)
    return weakens(name, value)


def weakens(name: str, value: str | None) -> bool:
    """Return whether an argument weakens the machine's protection."""
    pattern = _guarded_pattern(name)
    return pattern is not None and value not in GUARDED[pattern]


def may_weaken(name: str, value: str | None) -> bool:
    """Return whether removing this argument may weaken the machine's protection."""
    pattern = _guarded_pattern(name)
    if pattern is None:
        return False
    return value in GUARDED[pattern] or (value not in {"0", "off"} and pattern not in WEAKENS)


def _guarded_pattern(name: str) -> str | None:
    """Return the first pattern of arguments that need a confirmation and match; None if no pattern matches."""
    return next((pattern for pattern in GUARDED if fnmatch.fnmatchcase(name.replace("-", "_"), pattern)), None)


def find_guarded(
    files: Iterable[FileChange], old: Sequence[LastingEntry], knobs: Mapping[str, Knob]
) -> tuple[GuardedWord, ...]:
    """Return the changes of kernel arguments that weaken the machine's protection, except entries of `old`."""
    known = [one.holds for one in old]
    found = []
    for file in files:
        for entry in file.entries if file.form == "grub.d" else ():
            if entry.holds in known or not _is_guarded(entry, file.entries):
                continue
            name, sign = name_of(entry), "-" if "removes" in entry.holds else ""
            knob = knobs.get(next(iter(entry.values), f"boot:{name}").partition("@")[0]) or knobs.get(f"boot:{name}")
            price = (knob.security or knob.price or "") if knob is not None else ""
            found.append(GuardedWord(name, f"{sign}{word_text(entry.holds)}", price))
    return tuple(found)


def word_text(holds: Mapping[str, str]) -> str:
    """Return the kernel argument that an entry with these `holds` adds or removes."""
    name = holds["removes"] if "removes" in holds else holds["name"]
    return f"{name}={holds['value']}" if "value" in holds else name


def takes(removal: LastingEntry, word: LastingEntry) -> bool:
    """Return whether `removal` removes the argument that `word` adds."""
    if "removes" not in removal.holds or "name" not in word.holds or removal.holds["removes"] != word.holds["name"]:
        return False
    return "value" not in removal.holds or removal.holds["value"] == word.holds.get("value")


def place_removal(
    address: str, in_files: Iterable[str], kept: Iterable[LastingEntry], added: Collection[str]
) -> LastingEntry | None:
    """Return the entry that removes an argument from GRUB's configuration; None if only this command adds it.

    `in_files` are the arguments that other files add, `added` the names of arguments that ktrial adds now. Raise
    BadInput for an invalid argument, and Refused for an argument that no file adds.
    """
    word = address.removeprefix(REMOVAL)
    if not _WORD.fullmatch(word):
        raise BadInput(
            f"{address!r} does not name a kernel argument to remove", hint=f"write {REMOVAL}NAME or {REMOVAL}NAME=VALUE"
        )
    name, equals, value = word.partition("=")
    holds = {"removes": name, "value": value} if equals else {"removes": name}
    reason = f"{UNTESTED}; kept by name"
    entry = LastingEntry(form="grub.d", holds=holds, values={address: REMOVED}, reasons={address: reason})
    if any(one == word or (not equals and one.partition("=")[0] == name) for one in in_files):
        return entry
    if any(same_name(name, one) for one in added):
        return None
    if any(takes(entry, one) or one.holds == holds for one in kept):
        return entry
    raise Refused(
        f"cannot remove {word} from GRUB's configuration: no line of /etc/default/grub or its drop-ins adds it",
        hint=f"run `grep -rn {name} /etc/default /etc/grub.d` to find the file that adds this argument",
    )
