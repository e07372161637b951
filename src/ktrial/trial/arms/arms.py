# SPDX-License-Identifier: Apache-2.0
"""Applies the arms of a trial one after the other, each as a transaction that ends with the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ktrial.kit.errors import BadInput, BadRun, KtrialError, NoSuchTransaction, StalePlan
from ktrial.machine.ports import Machine
from ktrial.machine.reading import Reading
from ktrial.machine.transactions import IN_FORCE, Applied, revert, text_of, verify
from ktrial.tuning.knobs.find import successors
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.plans.model import Change, Plan
from ktrial.tuning.plans.resolve import apply_plan

#: Outcomes of the steps before and after a failed step.
_FOR_OTHERS = frozenset(("rolled-back", "not-tried"))
_LEASE: Mapping[str, Any] = {"kind": "while-session"}


class ArmLost(KtrialError):
    """ktrial could not put an arm in force, or could not revert it."""


class BuiltFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file that was built for a visit, and the SHA-256 of its bytes."""

    artefact: str
    sha256: str


class ArmDrift(msgspec.Struct, frozen=True, kw_only=True):
    """A value that somebody else changed after the trial set or read it. `now` is null if the file is gone."""

    address: str
    path: str
    wanted: str
    now: str | None

    @property
    def sentence(self) -> str:
        now = "is gone" if self.now is None else f"reads {self.now!r}"
        return f"{self.address} ({self.path}) {now} instead of {self.wanted!r}"


#: Returns who wrote a value, or None if that is unknown.
NamesWriter = Callable[[ArmDrift, int | None], str | None]


def _nobody(_drift: ArmDrift, _own: int | None) -> str | None:
    return None


class Arms:
    """Puts one arm after the other in force, each by its plan.

    An arm without a plan changes nothing. `root` is None if no arm needs root. Any value that the current arm does not
    set must stay as it was when the plans were made.
    """

    def __init__(self, root: Machine | None, plans: Mapping[str, Plan], writer_of: NamesWriter = _nobody) -> None:
        self._root = root
        self._plans = {arm: plan for arm, plan in plans.items() if not plan.empty}
        self._found = {change.path: change for change in changes_of(plans) if change.old is not None}
        self._writer_of = writer_of
        self._present: str | None = None
        self._transaction: int | None = None

    @property
    def in_force(self) -> int | None:
        return self._transaction

    @property
    def change(self) -> object:
        """A value that identifies the changes of the current arm; None if the arm changes nothing. Only compare it."""
        return self._transaction

    def enter(self, arm: str) -> Sequence[ArmDrift]:
        """Leave the current arm and put `arm` in force, unless it is in force already.

        Return the values that have changed since the plans were made. If there are any, no arm is in force.
        """
        if arm == self._present:
            return ()
        self._leave_for(arm)
        plan = self._plans.get(arm)
        if plan is not None:
            try:
                self._transaction = self._apply(arm, plan)
            except StalePlan:
                drifts = tuple(self._changed_beside(None))
                if not drifts:
                    raise
                return drifts
        self._present = arm
        return ()

    def plan_of(self, arm: str) -> Plan | None:
        """Return the plan of an arm; None if the arm changes no setting."""
        return self._plans.get(arm)

    def _leave_for(self, arm: str) -> None:
        """Leave the current arm, because `arm` follows."""
        self.leave()

    def renew(self, arm: str, number: int) -> BuiltFile | None:
        """Build what the next visit of `arm` measures, varied by `number`. Return None if the arm has no build.

        Call `renew` before `enter`.
        """
        return None

    def leave(self) -> None:
        transaction, self._transaction, self._present = self._transaction, None, None
        if transaction is None or self._root is None:
            return
        try:
            failed = [step for step in revert(self._root, transaction).steps if step.outcome == "failed"]
        except NoSuchTransaction:
            return  # somebody else reverted it, for example with `ktrial revert --all`
        if failed:
            said = f"cannot restore {failed[0].path}: {failed[0].message}"
            raise ArmLost(said, hint="run `ktrial recover` to try again")

    def drifted(self) -> tuple[ArmDrift, ...]:
        """Return values that somebody else changed, whether the current arm set them or must leave them unchanged."""
        return (*self._lost(), *self._changed_beside(self._present))

    def beside(self, arm: str | None) -> dict[str, str | None]:
        """Return the files that `arm` must leave unchanged, with the text of each file before the trial."""
        plan = self._plans.get(arm) if arm is not None else None
        own = {path for change in (plan.changes if plan else ()) for path in (change.path, *change.couples)}
        found = self._found.items()
        return {path: Reading(data=change.old).text for path, change in found if path not in own}

    def failed(self) -> str | None:
        """Return why the current arm was lost during the last run; None if it was not lost."""
        return None

    def told(self, drift: ArmDrift) -> str:
        """Return the drift as a sentence that names who wrote the value, if ktrial can find out."""
        writer = self._writer_of(drift, self._transaction)
        return f"{drift.sentence}; {writer}" if writer else drift.sentence

    def _lost(self) -> Iterator[ArmDrift]:
        """Yield values of the current arm that others have overwritten."""
        if self._transaction is None or self._root is None:
            return
        (found,) = verify(self._root, self._transaction)
        for step in found.steps:
            if step.outcome in {"drifted", "gone"}:
                change = self._found.get(step.path)
                yield ArmDrift(
                    address=change.address if change is not None else step.path,
                    path=step.path,
                    wanted=text_of(step.wanted) or "",
                    now=text_of(step.now),
                )

    def _changed_beside(self, arm: str | None) -> Iterator[ArmDrift]:
        """Yield values that have changed although neither this arm nor its side effects change them."""
        watched = self.beside(arm)
        if self._root is None or not watched:
            return
        for path, reading in self._root.read(list(watched)).items():
            before = watched[path]
            if reading is None or (reading.data is not None and reading.text != before):
                now = reading.text if reading is not None else None
                yield ArmDrift(address=self._found[path].address, path=path, wanted=before or "", now=now)

    def _apply(self, arm: str, plan: Plan) -> int:
        if self._root is None:
            raise ArmLost(
                f"cannot put arm {arm} in force: its settings need root",
                hint="leave out --no-sudo, or run ktrial as root",
            )
        applied = apply_plan(self._root, plan, _LEASE)
        said = refusal_of(applied)
        if said is not None:
            raise ArmLost(
                f"cannot put arm {arm} in force: {said}",
                hint="remove this cause; nothing was changed",
            )
        return applied.transaction


def refusal_of(applied: Applied) -> str | None:
    """Return why an applied plan is not in force; None if it is in force."""
    failed = [step for step in applied.steps if step.outcome not in IN_FORCE]
    if failed:
        # A swap device that is set up differently counts as in force, but explains why the other steps were rolled
        # back.
        own = [step for step in (*failed, *applied.steps) if step.outcome not in _FOR_OTHERS | {"accepted"}]
        one = own[0] if own else failed[0]
        return f"{one.path}: {one.message}"
    return None if applied.state == "applied" else applied.state


def changes_of(plans: Mapping[str, Plan]) -> Iterator[Change]:
    for plan in plans.values():
        yield from plan.changes


def rehearse(root: Machine | None, plans: Mapping[str, Plan], knobs: Mapping[str, Knob]) -> None:
    """Apply and revert arms before anything is measured, until each setting has been in force once.

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
            raise BadRun(
                f"something else changed this machine at the start of the trial: {arms.told(drifts[0])}",
                hint="stop the program that changes the value",
            )


def _instead(error: ArmLost, plan: Plan, knobs: Mapping[str, Knob]) -> str:
    """Return a hint for the setting that the kernel refused."""
    refused = next((change for change in plan.changes if change.path in error.message), None)
    if refused is None:
        return "remove this cause, or leave out the setting; nothing was measured or changed"
    place = successors(knobs[refused.knob], knobs) if refused.knob in knobs else None
    return place or f"remove the setting, or run `ktrial explain {refused.knob}`; nothing was measured"
