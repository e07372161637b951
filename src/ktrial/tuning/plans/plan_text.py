# SPDX-License-Identifier: Apache-2.0
"""Text and JSON of a plan: a table of current and wanted values, and skipped settings with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktrial.kit.errors import BadInput
from ktrial.kit.tables import paragraph, table
from ktrial.kit.units import show_bytes
from ktrial.machine.facts import FactBook
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.meaning import meaning
from ktrial.tuning.plans.model import Change, Plan, Refusal, Why
from ktrial.tuning.plans.wire import wire_plan

UNREADABLE = "unreadable here"
_STEERING = "irq:smp_affinity"


def plan_text(
    plan: Plan, knobs: Mapping[str, Knob], facts: FactBook, wrong: Mapping[str, BadInput] | None = None, *, width: int
) -> str:
    """Return the plan as text; `wrong` has the mistake in each word that the plan leaves out."""
    parts = []
    if plan.changes:
        parts.append(table(("knob", "now", "wanted", "what that means here"), _rows(plan, knobs, facts), width=width))
    if plan.zram is not None:
        parts.append(
            f"zram: {plan.zram.device or 'a new device'}, {show_bytes(plan.zram.size_bytes)},"
            f" {plan.zram.algorithm or 'its default algorithm'}, as swap with priority {plan.zram.priority}"
        )
        if plan.zram.usual_size:
            parts.append("No size given: half of the memory, at most 4 GiB. Set another with zram:disksize=SIZE.")
    if plan.refusals:
        parts.append(_refusals(plan.refusals, width))
    fixed = [refusal for refusal in plan.refusals if refusal.knob == _STEERING and refusal.kind is Why.READ_ONLY]
    if fixed:
        others = sum(change.knob == _STEERING for change in (*plan.changes, *plan.same))
        parts.append(f"{len(fixed)} of {len(fixed) + others} interrupts cannot be steered at all.")
    prices = _prices(plan, knobs)
    if prices:
        parts.append("price:\n" + "\n".join(paragraph(price, width=width, indent="  ") for price in prices))
    if wrong:
        lines = [_mistake(word, error) for word, error in wrong.items()]
        parts.append("\n".join(["wrong:", *(paragraph(line, width=width, indent="  ") for line in lines)]))
    parts.append(summary(plan, len(wrong or ())))
    return "\n\n".join(parts) + "\n"


def summary(plan: Plan, wrong: int = 0) -> str:
    """Return one line that counts what would change, is already set, is skipped, or is wrong."""
    changes = len(plan.changes) + (plan.zram is not None)
    return (
        f"{changes} to change, {len(plan.same)} already set, {len(plan.refusals)} skipped"
        + (f", {wrong} wrong" if wrong else "")
        + ("; nothing was written" if changes else "")
        + "."
    )


def plan_json(plan: Plan, wrong: Mapping[str, BadInput] | None = None) -> dict[str, Any]:
    """Return a `ktrial.resolved/1` document: the agent's plan, and what is set already, skipped or wrong."""
    return {
        "schema": "ktrial.resolved/1",
        "plan": wire_plan(plan, {"kind": "keep"}),
        "inert": [{"knob": change.address, "why": change.inert} for change in plan.changes if change.inert],
        "same": [{"knob": change.address, "path": change.path, "value": change.new_text} for change in plan.same],
        "refusals": [
            {
                "knob": refusal.address,
                "value": refusal.value,
                "why": refusal.kind.value,
                "reason": refusal.reason,
                "hint": refusal.hint,
                "origin": refusal.origin,
            }
            for refusal in plan.refusals
        ],
        "wrong": [{"word": word, "error": error.message, "next": error.hint} for word, error in (wrong or {}).items()],
    }


def _mistake(word: str, error: BadInput) -> str:
    about = "" if error.message.startswith(word) else f"{word}: "
    return f"{about}{error.message}" + (f" ({error.hint})" if error.hint else "")


def _rows(plan: Plan, knobs: Mapping[str, Knob], facts: FactBook) -> list[tuple[str, str, str, str]]:
    """Return one row per knob and pair of values; instances with the same change share it."""
    alike: dict[tuple[str, str, str], list[Change]] = {}
    for change in plan.changes:
        old = UNREADABLE if change.old_text is None else change.old_text
        alike.setdefault((change.knob, old, change.new_text), []).append(change)
    rows = []
    for (knob, old, new), changes in alike.items():
        labels = ", ".join(change.address.partition("@")[2] for change in changes)
        rows.append((f"{knob}@{labels}" if labels else knob, old, new, _meaning(changes[0], knobs, facts)))
    return rows


def _meaning(change: Change, knobs: Mapping[str, Knob], facts: FactBook) -> str:
    amounts = meaning(knobs[change.knob].meaning, change.new_text, facts)
    inert = f"inert here: {change.inert}" if change.inert else None
    return "; ".join(filter(None, (inert, amounts)))


def _refusals(refusals: tuple[Refusal, ...], width: int) -> str:
    grouped: dict[tuple[str, str | None], list[Refusal]] = {}
    for refusal in refusals:
        grouped.setdefault((refusal.reason, refusal.hint), []).append(refusal)
    lines = ["skipped:"]
    for (reason, hint), members in grouped.items():
        names = ", ".join(f"{refusal.address}={refusal.value}" for refusal in members)
        to_copy = members[0].kind is Why.NOT_ADDED and hint is not None
        said = f"{names}: {reason}" + (f" ({hint})" if hint and not to_copy else "")
        lines.append(paragraph(said + ("; to add it as root, run" if to_copy else ""), width=width, indent="  "))
        lines += [f"    {hint}"] if to_copy else []
    return "\n".join(lines)


def _prices(plan: Plan, knobs: Mapping[str, Knob]) -> list[str]:
    notes = []
    for name in dict.fromkeys(change.knob for change in plan.changes):
        knob = knobs[name]
        for label, text in (("security", knob.security), ("measuring", knob.measuring)):
            if text:
                notes.append(f"{name} ({label}): {text}")
        if knob.risk != "safe":
            notes.append(f"{name} ({knob.risk}): {knob.price}")
    return notes
