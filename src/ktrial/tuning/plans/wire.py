# SPDX-License-Identifier: Apache-2.0
"""Convert plans to the JSON that the agent reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktrial.kit.json_bytes import wire_bytes
from ktrial.tuning.plans.model import Plan


def wire_plan(
    plan: Plan, lease: Mapping[str, Any], *, keep_going: bool = False, stacks: bool = False
) -> dict[str, Any]:
    """Return the plan as the agent reads it.

    With `keep_going`, the agent continues after a step that fails. With `stacks`, other plans may change the same
    knobs despite the lease.
    """
    steps: list[dict[str, Any]] = []
    for change in plan.changes:
        step: dict[str, Any] = {
            "kind": "write",
            "knob": change.address,
            "path": change.path,
            "new": f"{change.new_text}\n",
            "verify": change.rule,
            "couples": list(change.couples),
        }
        if change.old is not None:
            step["expect"] = wire_bytes(change.old)
        if change.effective is not None:
            step["effective"] = change.effective
        steps.append(step)
    if plan.zram is not None:
        steps.append(
            {
                "kind": "zram",
                "device": plan.zram.device,
                "size_bytes": plan.zram.size_bytes,
                "algorithm": plan.zram.algorithm,
                "priority": plan.zram.priority,
            }
        )
    if plan.service is not None:
        there, back = ("start", "stop") if plan.service.start else ("stop", "start")
        do, undo = (["systemctl", verb, plan.service.name] for verb in (there, back))
        steps.append({"kind": "run", "do": do, "undo": undo})
    return {
        "schema": "ktrial.plan/2",
        "title": plan.title,
        "lease": dict(lease),
        "keep_going": keep_going,
        **({"stacks": True} if stacks else {}),
        "steps": steps,
    }
