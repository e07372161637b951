# SPDX-License-Identifier: Apache-2.0
"""Text and JSON of what `ktrial keep` would write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ktrial.kit.tables import paragraph
from ktrial.tuning.exports.model import Omission
from ktrial.tuning.lasting.model import FORMS, PLACES, FileChange, KeepPlan, KeptFile, Rival
from ktrial.tuning.plans.model import Change

_RESTART = "the scheduler starts at the next boot; `systemctl restart {}` starts it now"
_NEWS = {
    "modprobe.d": "an initramfs may hold its own copy: rebuild it if the module loads from there",
    "scx-loader": _RESTART.format("scx_loader"),
    "scx-loader-folder": _RESTART.format("scx_loader"),
    "scx-service": _RESTART.format("scx"),
    "grub.d": "grub-mkconfig writes GRUB's menu again; the arguments count from the next boot on",
}


def keep_text(keep: KeepPlan, *, next_boot: bool, width: int) -> str:
    """Return a text with the files and their content, the values to write now, other writers, and what is left out."""
    parts = [_file(change) for change in keep.files]
    parts += [
        paragraph(f"note: {_NEWS[one.form]}", width=width) for one in keep.files if one.form in _NEWS and one.after
    ]
    parts += [
        paragraph(f"weakens the protection of this machine: {one.word}: {one.price}", width=width)
        for one in keep.guarded
    ]
    parts += [paragraph(f"note: {one}", width=width) for one in keep.notes]
    if not next_boot and not keep.live.empty:
        values = [f"  {_live(change)}" for change in keep.live.changes]
        if keep.live.zram is not None:
            values.append(f"  {keep.live.zram.device or 'a new zram device'} as swap")
        parts.append("also now:\n" + "\n".join(values))
    parts += [_rivals(keep.rivals, width), _left_out(keep.left_out, width)]
    if keep.is_empty:
        parts.append("Nothing to write: all these settings are kept already." if keep.entries else "Nothing to keep.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _file(change: FileChange) -> str:
    verb = "new file" if change.before is None else "change" if change.after is not None else "remove"
    if change.before is None and change.after is not None:
        lines = change.after.splitlines()
    else:
        lines = _difference(change.before or "", change.after or "")
    return "\n".join([f"{verb}: {change.path}", *(f"  {line}" for line in lines)])


def _difference(before: str, after: str) -> list[str]:
    import difflib

    found = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    return [line for line in found if not line.startswith(("---", "+++", "@@"))]


def _live(change: Change) -> str:
    old = change.old_text if change.old_text is not None else "unreadable"
    return f"{change.address}: {old} -> {change.new_text}"


def _rivals(rivals: Iterable[Rival], width: int) -> str:
    lines = []
    for one in rivals:
        value = f" (= {one.value})" if one.value is not None else ""
        verb = "overridden by" if one.wins else "also set by"
        lines.append(paragraph(f"{one.address}: {verb} {one.place}{value}, {one.when}", width=width, indent="  "))
    return "other writers:\n" + "\n".join(lines) if lines else ""


def _left_out(left_out: Iterable[Omission], width: int) -> str:
    lines = []
    for one in left_out:
        hint = f" ({one.hint})" if one.hint else ""
        value = f"={one.value}" if one.value is not None else ""
        lines.append(paragraph(f"{one.address}{value}: {one.reason}{hint}", width=width, indent="  "))
    return "left out:\n" + "\n".join(lines) if lines else ""


def keep_json(keep: KeepPlan, plan: Mapping[str, Any], applied: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a `ktrial.keep/1` document: the agent's plan, the files before and after, rivals, and what is left out."""
    return {
        "schema": "ktrial.keep/1",
        "transaction": None if applied is None else applied["transaction"],
        "state": "nothing-to-do" if keep.is_empty else "planned" if applied is None else applied["state"],
        "plan": plan,
        "files": [{"path": one.path, "before": one.before, "after": one.after} for one in keep.files],
        "settings": [
            {"address": address, "value": value, "file": PLACES[entry.form], "reason": entry.reasons.get(address)}
            for form in FORMS
            for entry in keep.entries
            if entry.form == form
            for address, value in entry.values.items()
        ],
        "rivals": [msgspec.to_builtins(one) for one in keep.rivals],
        "security": [msgspec.to_builtins(one) for one in keep.guarded],
        "notes": list(keep.notes),
        "left_out": [msgspec.to_builtins(one) for one in keep.left_out],
    }


def edited_text(file: KeptFile) -> str:
    """Return the difference between a kept file and its edited version."""
    path = PLACES[file.form]
    if file.now is None:
        return f"{path}: removed"
    return "\n".join([f"{path}: edited", *(f"  {line}" for line in _difference(file.text, file.now))])
