# SPDX-License-Identifier: Apache-2.0
"""Plan what `ktrial keep` writes: files with entries and reasons, and the values that are not live yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ktrial.tuning.knobs.knob import Knob, clear_each_other
from ktrial.tuning.lasting.kept_text import read_kept, render, wire_entry
from ktrial.tuning.lasting.model import (
    FORMS,
    FileChange,
    Form,
    KeepPlan,
    KeptFile,
    LastingEntry,
    Proof,
    Unkept,
)
from ktrial.tuning.lasting.places import Grounds, change_at_load, place_change, place_zram, unkept_of
from ktrial.tuning.plans.model import Change, Plan
from ktrial.tuning.plans.wire import wire_plan

UNTESTED = "not tested on this machine"
#: Verdicts after which a setting is kept only if it is named.
_NOT_WORTH = frozenset(("worse", "equivalent", "inconclusive", "no difference seen", "not comparable"))


def plan_keep(
    plan: Plan,
    kept: Mapping[Form, KeptFile],
    proofs: Mapping[tuple[str, str], Proof],
    grounds: Grounds,
    knobs: Mapping[str, Knob],
    named: Collection[str] = (),
) -> KeepPlan:
    """Return what to write so that the settings of `plan` last. `named` are the origins that name one setting."""
    at_load = {one: late for one in plan.refusals if (late := change_at_load(one, knobs, grounds)) is not None}
    unkept = [unkept_of(refusal) for refusal in plan.refusals if refusal not in at_load]
    entries: list[LastingEntry] = []
    lasting: set[str] = set()
    for change in (*plan.changes, *plan.same, *at_load.values()):
        proof = proofs.get((change.address, change.new_text))
        if proof is not None and proof.verdict in _NOT_WORTH and change.origin not in named:
            hint = f"to keep it anyway, name it: {change.address}={change.new_text}"
            unkept.append(Unkept(change.address, change.new_text, proof.text, hint))
            continue
        found = place_change(change, grounds)
        if isinstance(found, Unkept):
            unkept.append(found)
            continue
        lasting.add(change.address)
        entries.append(replace(found, reasons={change.address: _reason(change, proof)}))
    live = replace(plan, changes=tuple(one for one in plan.changes if one.address in lasting), refusals=())
    if plan.zram is not None:
        found = place_zram(plan.zram, grounds)
        if isinstance(found, Unkept):
            unkept.append(found)
            live = replace(live, zram=None)
        else:
            reasons = dict.fromkeys(found.values, f"{UNTESTED}; {_source(plan.zram.origin)}")
            entries.append(replace(found, reasons=reasons))
    files = tuple(_file_changes(entries, kept, knobs))
    return KeepPlan(live=live, files=files, entries=tuple(entries), unkept=tuple(unkept))


def _reason(change: Change, proof: Proof | None) -> str:
    if proof is not None:
        return proof.text
    return f"{UNTESTED}; {_source(change.origin)}" + (f": {change.why}" if change.why else "")


def _source(origin: str) -> str:
    return "asked for by name" if origin.startswith("setting ") else f"from {origin}"


def _file_changes(
    entries: Sequence[LastingEntry], kept: Mapping[Form, KeptFile], knobs: Mapping[str, Knob]
) -> Iterable[FileChange]:
    """Yield the files that differ once the entries are in, each with all of its entries."""
    for form in FORMS:
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
    """Return the old entries with the new ones in the place of those that they replace."""
    own = [entry for entry in new if entry.form == form]
    result: list[LastingEntry] = []
    for entry in old:
        same = next((one for one in own if one.values.keys() & entry.values.keys()), None)
        if same is not None:
            own.remove(same)
            is_equal = same.holds == entry.holds and _is_weaker(same, entry)
            result.append(entry if is_equal else same)
        elif not any(_replaces(one, entry, knobs) for one in new):
            result.append(entry)
    return (*result, *own)


def _is_weaker(new: LastingEntry, old: LastingEntry) -> bool:
    """Return whether the old reasons are as good: the same, or a verdict instead of none."""
    return new.reasons == old.reasons or all(reason.startswith(UNTESTED) for reason in new.reasons.values())


def _replaces(new: LastingEntry, old: LastingEntry, knobs: Mapping[str, Knob]) -> bool:
    """Return whether an entry ends an old one: the same knob in another form, or a partner that the kernel clears."""
    for address, value in new.values.items():
        for other in old.values:
            left, right = knobs.get(address.partition("@")[0]), knobs.get(other.partition("@")[0])
            cleared = left is not None and right is not None and value != "0" and clear_each_other(left, right)
            if address == other or cleared:
                return True
    return False


def without(kept: Mapping[Form, KeptFile], addresses: Collection[str]) -> tuple[FileChange, ...]:
    """Return the files that change when the settings at these addresses are no longer kept."""
    changes = []
    for form, file in kept.items():
        old = read_kept(form, file.text)
        left = tuple(entry for entry in old if not entry.values.keys() & set(addresses))
        if left != old:
            changes.append(FileChange(form, file.text, render(left) if left else None, left))
    return tuple(changes)


def wire_keep(keep: KeepPlan, *, next_boot: bool) -> dict[str, Any]:
    """Return the agent's plan: first the live values, which the kernel may refuse, then the files."""
    live = Plan(keep.live.title, (), (), ()) if next_boot else keep.live
    plan = wire_plan(live, {"kind": "keep"})
    plan["title"] = f"keep {keep.live.title}"
    plan["steps"] += [file_step(change) for change in keep.files]
    return plan


def file_step(change: FileChange) -> dict[str, Any]:
    """Return the step that changes a file only if it still is what it was when the plan was made."""
    holds = {change.form: [wire_entry(entry) for entry in change.entries]} if change.after is not None else None
    return {"kind": "file", "path": change.path, "expect": change.before or "", "holds": holds}
