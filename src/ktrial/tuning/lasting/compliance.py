# SPDX-License-Identifier: Apache-2.0
"""Whether settings are kept or applied, and live: the answer of `ktrial status --check`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ktrial.kit.tables import table
from ktrial.machine.transactions import Status, text_of
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.value import same_value
from ktrial.tuning.lasting.drift import DriftReport, DriftState, KeptSetting
from ktrial.tuning.lasting.model import PLACES
from ktrial.tuning.plans.model import Change, Plan, Refusal

ComplianceAnswer = Literal["compliant", "not-kept", "differs"]
#: Exit statuses; `docs/principles.md` lists them.
STATUS: Mapping[ComplianceAnswer, int] = {"compliant": 0, "differs": 3, "not-kept": 6}
_DRIFTED = frozenset(("differs", "gone", "unreadable"))


class CheckedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: the wanted value, the live one, and the state. A `skipped` setting does not count."""

    address: str
    value: str
    now: str | None
    state: DriftState | Literal["not-kept", "skipped"]
    detail: str | None = None


class Compliance(msgspec.Struct, frozen=True, kw_only=True):
    """The checked settings, and the kept files that somebody edited."""

    settings: tuple[CheckedSetting, ...]
    edited: tuple[str, ...] = ()

    @property
    def answer(self) -> ComplianceAnswer:
        states = {one.state for one in self.settings} - {"skipped"}
        if self.edited or states & _DRIFTED:
            return "differs"
        return "not-kept" if not states or "not-kept" in states else "compliant"


def check_kept(drift: DriftReport) -> Compliance:
    """Return the compliance of everything that is kept."""
    settings = tuple(_of_kept(one) for one in drift.settings)
    return Compliance(settings=settings, edited=tuple(PLACES[one.form] for one in drift.edited))


def check_plan(plan: Plan, drift: DriftReport, status: Status, knobs: Mapping[str, Knob]) -> Compliance:
    """Return the compliance of the settings of a plan: each must be kept, or applied in this boot, and live."""
    kept = {one.address: one for one in drift.settings}
    applied = _applied(status)
    settings = [_of_change(one, kept.get(one.address), applied, knobs) for one in (*plan.changes, *plan.same)]
    settings += [_of_refusal(one, kept.get(one.address)) for one in plan.refusals]
    if plan.zram is not None:
        found = [one for one in drift.settings if one.address.startswith("zram:")]
        missing = CheckedSetting(address="zram:disksize", value=str(plan.zram.size_bytes), now=None, state="not-kept")
        settings += [_of_kept(one) for one in found] or [missing]
    places = {one.file for one in drift.settings if one.address in {setting.address for setting in settings}}
    return Compliance(
        settings=tuple(settings), edited=tuple(PLACES[one.form] for one in drift.edited if PLACES[one.form] in places)
    )


def _applied(status: Status) -> dict[str, str]:
    """Return the latest value of each address in the transactions that are in force."""
    found: dict[str, str] = {}
    for one in sorted(status.transactions, key=lambda one: one.transaction):
        for step in one.steps if one.this_boot and one.state == "applied" else ():
            value = text_of(step.new)
            if step.knob is not None and value is not None:
                found[step.knob] = value
    return found


def _of_kept(one: KeptSetting) -> CheckedSetting:
    return CheckedSetting(address=one.address, value=one.value, now=one.now, state=one.state, detail=one.detail)


def _of_change(
    change: Change, kept: KeptSetting | None, applied: Mapping[str, str], knobs: Mapping[str, Knob]
) -> CheckedSetting:
    def state(which: DriftState | Literal["not-kept"], detail: str | None = None) -> CheckedSetting:
        return CheckedSetting(
            address=change.address, value=change.new_text, now=change.old_text, state=which, detail=detail
        )

    knob = knobs[change.knob]
    if kept is not None and same_value(knob, kept.value, change.new_text):
        return _of_kept(kept)
    value = applied.get(change.address)
    if value is not None and same_value(knob, value, change.new_text):
        return state("live" if change.already else "differs")
    if kept is not None:
        return state("differs", f"the kept value is {kept.value}")
    return state("not-kept", "live, but neither kept nor applied" if change.already else None)


def _of_refusal(refusal: Refusal, kept: KeptSetting | None) -> CheckedSetting:
    if kept is not None:
        return _of_kept(kept)
    is_named = refusal.origin.startswith("setting ")
    return CheckedSetting(
        address=refusal.address,
        value=refusal.value,
        now=None,
        state="not-kept" if is_named else "skipped",
        detail=refusal.reason,
    )


def compliance_text(found: Compliance, *, width: int) -> str:
    """Return a text with the settings that are not live, the edited files, and the answer."""
    unlike = [one for one in found.settings if one.state not in {"live", "skipped"}]
    parts = []
    if unlike:
        rows = [(one.address, one.value, one.now or "-", _state(one)) for one in unlike]
        parts.append(table(("knob", "wanted", "now", "state"), rows, width=width))
    parts += [f"{path}: edited" for path in found.edited]
    counted = [one for one in found.settings if one.state != "skipped"]
    live = sum(one.state == "live" for one in counted)
    answer = {"compliant": "compliant", "not-kept": "not kept", "differs": "differs"}[found.answer]
    count = f"{live} of {len(counted)} settings are kept or applied, and live" if counted else "no setting is kept"
    if waiting := sum(one.state == "pending" for one in counted):
        count += f", {waiting} from the next boot on"
    parts.append(f"{answer}: {count}")
    return "\n\n".join(parts) + "\n"


def _state(one: CheckedSetting) -> str:
    state = {"not-kept": "not kept", "no-device": "device absent"}.get(one.state, one.state)
    return f"{state}: {one.detail}" if one.detail else state


def compliance_json(found: Compliance) -> dict[str, Any]:
    """Return the answer as a `ktrial.status-check/1` document."""
    return {
        "schema": "ktrial.status-check/1",
        "answer": found.answer,
        "settings": [msgspec.to_builtins(one) for one in found.settings],
        "edited": list(found.edited),
    }
