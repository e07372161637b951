# SPDX-License-Identifier: Apache-2.0
"""The agent's plan of boots: entries of the boot loader, and the units that judge a boot and continue after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ktrial.tuning.boots.entry import BootPlan, entry_json

_UNITS = "/etc/systemd/system"


class ResumedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The trial that goes on after each boot: its name, whose it is, and the `ktrial` that continues it."""

    program: str
    user: int
    name: str


def wire_boots(
    title: str,
    plans: Sequence[BootPlan],
    *,
    limit_s: int,
    guards: Sequence[str] = (),
    confirmed: Iterable[str] = (),
    trial: ResumedTrial | None = None,
    sources: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the plan that prepares these entries. Nothing of the default entry changes."""
    units: Mapping[str, Mapping[str, Any]] = {
        f"{_UNITS}/ktrial-boot.service": {
            "boot-service": {"limit_s": limit_s, **({"guards": list(guards)} if guards else {})}
        },
        f"{_UNITS}/sysinit.target.d/ktrial-boot.conf": {"systemd-wants": "ktrial-boot.service"},
        f"{_UNITS}/ktrial-boot-next.service": {
            "boot-next": {} if trial is None else {"trial": msgspec.to_builtins(trial)}
        },
        f"{_UNITS}/multi-user.target.d/ktrial-boot.conf": {"systemd-wants": "ktrial-boot-next.service"},
    }
    steps: list[dict[str, Any]] = [{"path": path, "holds": holds} for path, holds in units.items()]
    if plans[0].form == "grub-entries":
        steps.append({"path": plans[0].path, "holds": {"grub-entries": [entry_json(plan) for plan in plans]}})
    else:
        steps += [{"path": plan.path, "holds": {"boot-entry": entry_json(plan)}} for plan in plans]
    if names := sorted(confirmed):
        for step in steps[len(units) :]:
            step["confirmed"] = names
    plan: dict[str, Any] = {
        "schema": "ktrial.plan/2",
        "title": title,
        "lease": {"kind": "keep"},
        "steps": [{"kind": "file", "expect": "", **step} for step in steps],
    }
    return plan if sources is None else {**plan, "sources": dict(sources)}
