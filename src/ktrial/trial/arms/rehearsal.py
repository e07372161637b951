# SPDX-License-Identifier: Apache-2.0
"""Before anything is measured every setting is in force once: what the kernel refuses is told then."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.kit.errors import BadInput, BadRun
from ktrial.machine.ports import Machine
from ktrial.trial.arms.arms import ArmLost, Arms
from ktrial.tuning.knobs.find import successors
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.plans.model import Plan


def rehearse(root: Machine | None, plans: Mapping[str, Plan], knobs: Mapping[str, Knob]) -> None:
    """Put arms in force and take them back until each setting has been in force once, before anything is measured.

    Raise BadInput for a setting that the kernel refuses, BadRun if somebody else changes the machine meanwhile.
    """
    arms = Arms(root, plans)
    rehearsed: set[object] = set()
    for name, plan in plans.items():
        settings = {(change.path, change.new_text) for change in plan.changes} | ({plan.zram} - {None})
        if settings <= rehearsed:
            continue
        rehearsed |= settings
        try:
            drifts = (*arms.enter(name), *arms.drifted())
        except ArmLost as error:
            raise BadInput(error.message, hint=_instead(error, plan, knobs)) from None
        finally:
            arms.leave()
        if drifts:
            raise BadRun(f"the machine changes while the trial begins: {arms.told(drifts[0])}", hint="try again")


def _instead(error: ArmLost, plan: Plan, knobs: Mapping[str, Knob]) -> str:
    """Return what to do about the setting that was refused."""
    refused = next((change for change in plan.changes if change.path in error.message), None)
    if refused is None:
        return "nothing was measured or changed"
    place = successors(knobs[refused.knob], knobs) if refused.knob in knobs else None
    return place or f"nothing was measured; remove the setting, or see `ktrial explain {refused.knob}`"
