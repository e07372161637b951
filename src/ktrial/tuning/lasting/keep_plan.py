# SPDX-License-Identifier: Apache-2.0
"""Plan what `ktrial keep` writes: files with entries and reasons, and the values that are not live yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ktrial.tuning.exports.model import UNTESTED, Omission
from ktrial.tuning.knobs.knob import Knob, clear_each_other, in_write_order
from ktrial.tuning.lasting.boot_unit import with_wants
from ktrial.tuning.lasting.boot_words import (
    COMMAND_LINE,
    change_of_word,
    find_guarded,
    guarded_names,
    place_word,
    takes,
)
from ktrial.tuning.lasting.kept_text import read_kept, render, wire_entries
from ktrial.tuning.lasting.model import (
    FORMS,
    SHARED_FORMS,
    WIRE_FORMS,
    FileChange,
    Form,
    GuardedWord,
    KeepPlan,
    KeptFile,
    LastingEntry,
    Proof,
)
from ktrial.tuning.lasting.places import Grounds, change_at_load, left_out_of, place_change, place_zram
from ktrial.tuning.lasting.scheduler_files import SCHEDULER, without_scheduler
from ktrial.tuning.plans.model import Change, Plan, ZramStep
from ktrial.tuning.plans.wire import wire_plan


def plan_keep(
    plan: Plan,
    kept: Mapping[Form, KeptFile],
    proofs: Mapping[tuple[str, str], Proof],
    grounds: Grounds,
    knobs: Mapping[str, Knob],
    named: Collection[str] = (),
    lines: Sequence[LastingEntry] = (),
) -> KeepPlan:
    """Return what to write so that the settings of `plan` last.

    Leave out a setting whose trial gave another verdict than `better`, unless the user named it on its own (`named`
    contains its origin). `lines` are entries of GRUB's drop-in that are not settings: arguments to remove, and the
    default kernel.
    """
    at_load = {
        one: late
        for one in plan.refusals
        if (late := change_at_load(one, knobs, grounds) or change_of_word(one, knobs, grounds.modules)) is not None
    }
    left = [left_out_of(refusal) for refusal in plan.refusals if refusal not in at_load]
    entries: list[LastingEntry] = list(lines)
    lasting: dict[str, Change] = {}
    for change in (*plan.changes, *plan.same, *at_load.values()):
        proof = proofs.get((change.address, change.new_text))
        if proof is not None and proof.verdict != "better" and change.origin not in named:
            hint = f"add {change.address}={change.new_text} to keep this setting anyway"
            left.append(Omission(change.address, f"it is {proof.text}", change.new_text, hint))
            continue
        if change.path == COMMAND_LINE:
            found = place_word(change, knobs[change.knob], grounds.no_loader, allow_dangerous=grounds.allow_dangerous)
        else:
            found = place_change(change, grounds)
        if isinstance(found, Omission):
            left.append(found)
            continue
        lasting[change.address] = change
        entries.append(replace(found, reasons={change.address: _reason(change, proof)}))
    live = replace(plan, changes=tuple(one for one in plan.changes if one.address in lasting), refusals=())
    if plan.zram is not None:
        found = place_zram(plan.zram, grounds)
        if isinstance(found, Omission):
            left.append(found)
            live = replace(live, zram=None)
        else:
            # The generator's file counts in MiB, so the device that is created now gets the same rounded size.
            size = int(found.values[f"zram:disksize@{plan.zram.device or 'zram0'}"])
            live = replace(live, zram=replace(plan.zram, size_bytes=size))
            reasons = dict.fromkeys(found.values, f"{UNTESTED}; {_source(plan.zram.origin)}")
            entries.append(replace(found, reasons=reasons))
            lasting |= {address: _of_zram(address, value, plan.zram) for address, value in found.values.items()}
    files = with_wants(tuple(file_changes(entries, kept, knobs)), kept)
    return KeepPlan(
        live=live,
        files=files,
        entries=tuple(entries),
        left_out=tuple(left),
        changes=lasting,
        guarded=guarded_words(files, kept, knobs),
    )


def guarded_words(
    files: Iterable[FileChange], kept: Mapping[Form, KeptFile], knobs: Mapping[str, Knob]
) -> tuple[GuardedWord, ...]:
    """Return the new changes of kernel arguments that need `--yes-security`."""
    old = read_kept("grub.d", kept["grub.d"].text) if "grub.d" in kept else ()
    return find_guarded(files, old, knobs)


def _of_zram(address: str, value: str, step: ZramStep) -> Change:
    """Return a value of a zram device as a change of its file, which may have other writers."""
    knob, _, device = address.partition("@")
    path = f"/sys/block/{device}/{knob.partition(':')[2]}"
    return Change.later(knob, address, path, value, origin=step.origin)


def _reason(change: Change, proof: Proof | None) -> str:
    if proof is not None:
        return proof.text
    return f"{UNTESTED}; {_source(change.origin)}" + (f": {change.why}" if change.why else "")


def _source(origin: str) -> str:
    return "kept by name" if origin.startswith("setting ") else f"from {origin}"


def file_changes(
    entries: Sequence[LastingEntry], kept: Mapping[Form, KeptFile], knobs: Mapping[str, Knob]
) -> Iterable[FileChange]:
    """Yield the files that the entries change, each with all of its entries; files of schedulers are left out."""
    for form in FORMS:
        if form in SHARED_FORMS or form == "scx-wants":
            continue
        file = kept.get(form)
        before = file.text if file is not None else None
        old = read_kept(form, before) if before is not None else ()
        after = _merged(old, entries, form, knobs)
        text = render(after) if after else None
        if text != before:
            yield FileChange(form, before, text, after)


def _merged(
    old: Sequence[LastingEntry], new: Sequence[LastingEntry], form: Form, knobs: Mapping[str, Knob]
) -> tuple[LastingEntry, ...]:
    """Return the old and the new entries in the order to write, without old entries that new ones replace."""
    own = [entry for entry in new if entry.form == form]
    result: list[LastingEntry] = []
    for entry in old:
        same = next((one for one in own if one.values.keys() & entry.values.keys()), None)
        if same is not None:
            own.remove(same)
            is_weaker = all(reason.startswith(UNTESTED) for reason in same.reasons.values())
            is_equal = same.holds == entry.holds and (is_weaker or same.reasons == entry.reasons)
            result.append(entry if is_equal else same)
        elif not any(_replaces(one, entry, knobs) for one in new):
            result.append(entry)
    # Their reader writes the values from the first line to the last, and a scheduler resets what was set before it.
    ordered = in_write_order([*result, *own], _knobs_of, knobs)
    # GRUB's drop-in removes arguments of other files before it adds its own.
    return tuple(sorted(ordered, key=lambda entry: "removes" not in entry.holds))


def _knobs_of(entry: LastingEntry) -> list[str]:
    return [address.partition("@")[0] for address in entry.values]


def _replaces(new: LastingEntry, old: LastingEntry, knobs: Mapping[str, Knob]) -> bool:
    """Return whether the new entry replaces the old one, for one of three reasons.

    Both set the same knob. One of them removes the kernel argument that the other adds. The kernel clears the knob of
    the old entry when the new entry sets its own.
    """
    if takes(new, old) or takes(old, new):
        return True
    for address, value in new.values.items():
        for other in old.values:
            left, right = knobs.get(address.partition("@")[0]), knobs.get(other.partition("@")[0])
            cleared = left is not None and right is not None and value != "0" and clear_each_other(left, right)
            if address == other or cleared:
                return True
    return False


def without(kept: Mapping[Form, KeptFile], addresses: Collection[str]) -> tuple[FileChange, ...]:
    """Return the files that change if the settings at these addresses are dropped."""
    changes = list(without_scheduler(kept)) if SCHEDULER in addresses else []
    for form, file in kept.items():
        if form in SHARED_FORMS:
            continue
        old = read_kept(form, file.text)
        left = tuple(entry for entry in old if not entry.values.keys() & set(addresses))
        if left != old:
            changes.append(FileChange(form, file.text, render(left) if left else None, left))
    return with_wants(changes, kept)


def wire_keep(keep: KeepPlan, *, next_boot: bool) -> dict[str, Any]:
    """Return the agent's plan: first the live values, which the kernel may refuse, then the files.

    The agent changes a file only if it is unchanged since the plan was made.
    """
    live = Plan(keep.live.title, (), (), ()) if next_boot else keep.live
    plan = wire_plan(live, {"kind": "keep"})
    plan["title"] = f"keep {keep.live.title}"
    if sources := {**(keep.sources or {}), **({"next_boot": True} if next_boot else {})}:
        plan["sources"] = sources
    for change in keep.files:
        is_removed = change.after is None and change.form not in SHARED_FORMS
        name = WIRE_FORMS.get(change.form, change.form)
        holds = None if is_removed else {name: wire_entries(change.form, change.entries)}
        step = {"kind": "file", "path": change.path, "expect": change.before or "", "holds": holds}
        confirmed = guarded_names(change.entries)
        plan["steps"].append({**step, "confirmed": confirmed} if confirmed else step)
    return plan
