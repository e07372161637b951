# SPDX-License-Identifier: Apache-2.0
"""The agent's plan of boots: boot entries, and the units that judge a boot and continue a trial after it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ktrial.kit.errors import BadInput
from ktrial.tuning.boots.entry import BootPlan, entry_json

_UNITS = "/etc/systemd/system"
#: Kinds of units that can guard a boot, and limits on their number and on the bytes of a name, as in the agent.
GUARD_KINDS = ("service", "socket", "target", "mount", "timer", "path", "swap")
MOST_GUARDS, UNIT_BYTES = 32, 256
#: Names that systemd accepts, without the escapes of `systemd-escape`.
_UNIT = re.compile(rf"[A-Za-z0-9:_.@][A-Za-z0-9:_.@-]*\.(?:{'|'.join(GUARD_KINDS)})")
OTHER_KINDS = ("automount", "device", "scope", "slice")


class ResumedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The trial to continue after each boot: its name, its user, and the `ktrial` that continues it."""

    program: str
    user: int
    name: str


def name_guards(names: Iterable[str]) -> tuple[str, ...]:
    """Return the full names of the units that guard a boot.

    Raise BadInput for a name or a kind of unit that ktrial does not support, or for too many units.
    """
    endings, others = (tuple(f".{kind}" for kind in kinds) for kinds in (GUARD_KINDS, OTHER_KINDS))
    units = tuple(dict.fromkeys(one if one.endswith((*endings, *others)) else f"{one}.service" for one in names))
    for unit in units:
        if unit.endswith(others):
            raise BadInput(
                f"cannot guard a boot with {unit}: ktrial does not support units of this kind",
                hint=f"name a unit that ends in {', '.join(endings[:-1])} or {endings[-1]}",
            )
        if not _UNIT.fullmatch(unit) or len(unit) >= UNIT_BYTES:
            hint = f"use a name of letters, digits and `:_.@-` with fewer than {UNIT_BYTES} characters"
            raise BadInput(f"cannot guard a boot with {unit!r}: ktrial does not support this name", hint=hint)
    if len(units) > MOST_GUARDS:
        raise BadInput(
            f"cannot guard a boot with {len(units)} units: expected at most {MOST_GUARDS}",
            hint="guard the boot with one target that requires these units",
        )
    return units


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
    """Return the agent's plan that adds the entries of these boots; the default entry stays unchanged.

    A boot fails if it is not healthy within `limit_s`, with the units of `guards` active. `confirmed` names the
    arguments that the user accepts although they weaken the machine's protection.
    """
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
