# SPDX-License-Identifier: Apache-2.0
"""The unit that writes values at boot that no other file can set, and the drop-in that starts it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from ktrial.tuning.exports.model import Omission
from ktrial.tuning.lasting.model import FileChange, Form, KeptFile, LastingEntry
from ktrial.tuning.plans.model import Change

_DEBUGFS, _GROUPS = "/sys/kernel/debug/", "/sys/fs/cgroup/"
#: Files of control groups that systemd writes itself, with the property that sets them.
_PROPERTIES = {
    "cpu.weight": "CPUWeight",
    "cpu.idle": "CPUWeight",
    "cpu.max": "CPUQuota",
    "cpuset.cpus": "AllowedCPUs",
    "cpuset.mems": "AllowedMemoryNodes",
    "io.weight": "IOWeight",
    "io.max": "IOReadBandwidthMax",
    "io.latency": "IODeviceLatencyTargetSec",
    "memory.high": "MemoryHigh",
    "memory.low": "MemoryLow",
    "memory.max": "MemoryMax",
    "memory.min": "MemoryMin",
    "memory.oom.group": "OOMPolicy",
    "memory.swap.max": "MemorySwapMax",
    "memory.zswap.max": "MemoryZSwapMax",
    "memory.zswap.writeback": "MemoryZSwapWriteback",
    "pids.max": "TasksMax",
}
#: Control groups that exist when the unit runs.
_EARLY_GROUPS = frozenset(("", "init.scope", "system.slice", "user.slice"))
_WANTS = LastingEntry(form="systemd-wants", holds={"unit": "ktrial-keep.service"}, values={})
WANTS_TEXT = (
    "# ktrial keeps this file: `ktrial drift` checks it, `ktrial keep --undo` removes it.\n"
    "[Unit]\nWants=ktrial-keep.service\n"
)


def place_in_unit(change: Change) -> LastingEntry | Omission | None:
    """Return the unit's entry for a file that only the unit can set, or why the unit cannot; None for other files."""
    path = change.path
    if path.startswith(_GROUPS):
        group, name = posixpath.split(path.removeprefix(_GROUPS))
        if name in _PROPERTIES:
            reason = f"systemd itself sets {name} of its control groups"
            hint = f"run `systemctl set-property {group or '-.slice'} {_PROPERTIES[name]}=…` instead"
            return Omission(change.address, reason, change.new_text, hint)
        if group not in _EARLY_GROUPS:
            reason = f"systemd makes the control group {group} only when it is needed"
            return Omission(change.address, reason, change.new_text, f"keep the setting for {_parent(group)} instead")
    elif not path.startswith(_DEBUGFS):
        return None
    holds = {"path": path, "value": change.new_text}
    return LastingEntry(form="systemd-unit", holds=holds, values={change.address: change.new_text})


def _parent(group: str) -> str:
    return next((part for part in group.split("/") if part in _EARLY_GROUPS), "system.slice")


def with_wants(changes: Sequence[FileChange], kept: Mapping[Form, KeptFile]) -> tuple[FileChange, ...]:
    """Return the changes; if they create or remove the unit, also create or remove the drop-in that starts it."""
    unit = next((one for one in changes if one.form == "systemd-unit"), None)
    if unit is None or (unit.after is None) == ("systemd-wants" not in kept):
        return tuple(changes)
    if unit.after is None:
        return (*changes, FileChange("systemd-wants", kept["systemd-wants"].text, None, ()))
    return (*changes, FileChange("systemd-wants", None, WANTS_TEXT, (_WANTS,)))
