# SPDX-License-Identifier: Apache-2.0
"""Brings the arms of a trial into force one after the other, each as a transaction that ends with the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktrial.domain.errors import KtrialError
from ktrial.domain.plan import Plan
from ktrial.services.ports import Machine
from ktrial.services.tune import apply_plan

#: Outcomes of a step after which its value is in force.
_IN_FORCE = frozenset(("accepted", "clamped"))
_LEASE: Mapping[str, Any] = {"kind": "while-session"}


class ArmLost(KtrialError):
    """An arm could not be brought into force, or not be taken back."""


class Arms:
    """`plans` by arm; an arm that has none is the machine as it is. `root` is None where no arm needs it."""

    def __init__(self, root: Machine | None, plans: Mapping[str, Plan]) -> None:
        self._root = root
        self._plans = {arm: plan for arm, plan in plans.items() if not plan.empty}
        self._present: str | None = None
        self._transaction: int | None = None

    @property
    def in_force(self) -> int | None:
        """The transaction of the present arm, if it has one."""
        return self._transaction

    def enter(self, arm: str) -> None:
        """Leave the present arm and bring this one into force; nothing happens where it is there already."""
        if arm == self._present:
            return
        self.leave()
        plan = self._plans.get(arm)
        if plan is not None:
            self._transaction = self._apply(arm, plan)
        self._present = arm

    def leave(self) -> None:
        """Put back what the present arm changed."""
        transaction, self._transaction, self._present = self._transaction, None, None
        if transaction is None or self._root is None:
            return
        (ended,) = self._root.request("revert", select={"only": transaction})["transactions"]
        failed = [step for step in ended["steps"] if step["outcome"] == "failed"]
        if failed:
            said = f"{failed[0]['path']} could not be put back: {failed[0]['message']}"
            raise ArmLost(said, hint="`ktrial recover` tries again")

    def lost(self) -> tuple[str, ...]:
        """Paths of the present arm that do not read back as it set them."""
        if self._transaction is None or self._root is None:
            return ()
        (found,) = self._root.request("verify", transaction=self._transaction)["transactions"]
        return tuple(step["path"] for step in found["steps"] if step["outcome"] in {"drifted", "gone"})

    def _apply(self, arm: str, plan: Plan) -> int:
        if self._root is None:
            raise ArmLost(f"the arm {arm} needs root, and there is none")
        answer = apply_plan(self._root, plan, _LEASE)
        failed = [step for step in answer["steps"] if step["outcome"] not in _IN_FORCE]
        if answer["state"] != "applied" or failed:
            said = f"{failed[0]['path']}: {failed[0]['message']}" if failed else answer["state"]
            raise ArmLost(f"the arm {arm} could not be brought into force: {said}", hint="all is as it was")
        return int(answer["transaction"])
