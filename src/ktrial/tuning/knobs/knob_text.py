# SPDX-License-Identifier: Apache-2.0
"""The text of `ktrial explain`: effect, price, current values and their meaning here, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktrial.kit.tables import clean, labelled
from ktrial.machine.facts import FactBook
from ktrial.machine.reading import KnobState
from ktrial.tuning.catalog.model import CatalogSource
from ktrial.tuning.knobs.find import absence
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.meaning import meaning
from ktrial.tuning.knobs.value import active_text, offered

_SHOWN_INSTANCES = 8


def values_text(knob: Knob) -> str:
    spec = knob.value
    unit = f" {spec.unit}" if spec.unit else ""
    if spec.type in {"int", "ints"}:
        low = "…" if spec.min is None else str(spec.min)
        high = "…" if spec.max is None else str(spec.max)
        span = "whole numbers" if (low, high) == ("…", "…") else f"{low} to {high}"
        count = f"{spec.count} numbers, each " if spec.type == "ints" and spec.count else ""
        text = f"{count}{span}{unit}"
    elif spec.type == "choice":
        text = ", ".join(spec.choices) if spec.choices else "one of the words that the kernel offers"
    else:
        text = {"bool": "0 or 1", "feature": "on or off", "mask": "a CPU mask in hexadecimal", "text": "text"}[
            spec.type
        ]
    for value, what in spec.special.items():
        text += f"; {value}: {what}"
    return text


def default_text(knob: Knob, resolved: Any) -> str:
    if isinstance(knob.default, Mapping):
        known = f"{resolved} on this machine" if resolved is not None else "depends on the machine"
        return f"{known}. {knob.default_note or ''}".strip()
    if knob.default is None:
        return knob.default_note or "not known"
    shown = str(knob.default).lower() if isinstance(knob.default, bool) else str(knob.default)
    return f"{shown}. {knob.default_note}" if knob.default_note else shown


def knob_text(
    knob: Knob,
    sources: Mapping[str, CatalogSource],
    state: KnobState | None,
    facts: FactBook,
    default: Any,
    inert: str | None,
    *,
    width: int,
) -> str:
    lines = [knob.id, ""]

    def add(label: str, text: str | None) -> None:
        if text:
            lines.append(labelled(label, text, width=width))

    add("gone", knob.gone)
    add("instead", ", ".join(knob.successor))
    add("what", knob.what)
    add("more", knob.up)
    add("less", knob.down)
    add("price", knob.price)
    add("security", knob.security)
    add("measuring", knob.measuring)
    add("switching", knob.disturbs)
    add("values", values_text(knob))
    add("default", default_text(knob, default))
    if state is not None:
        lines += _here(knob, state, facts, width)
    add("inert here", inert)
    add("risk", knob.risk)
    add("effect", _TAKES_EFFECT[knob.takes_effect])
    add("place", "; ".join(knob.files) or None)
    add("kernels", _kernels(knob))
    add("changes too", ", ".join(knob.couples))
    add("see also", ", ".join(knob.interacts))
    lines += _evidence(knob, sources, width)
    return "\n".join(lines) + "\n"


_TAKES_EFFECT = {
    "now": "at once",
    "new-devices": "for devices that appear afterwards",
    "new-programs": "for programs that start afterwards",
    "boot": "at the next boot",
    "build": "in a kernel built with it",
}


def _kernels(knob: Knob) -> str | None:
    parts = []
    if knob.since:
        parts.append(f"since {knob.since}")
    if knob.until:
        parts.append(f"until {knob.until}")
    if knob.only:
        parts.append(f"only {knob.only}")
    return ", ".join(parts) or None


def _here(knob: Knob, state: KnobState, facts: FactBook, width: int) -> list[str]:
    if not state.instances:
        why = absence(knob, state, facts).removesuffix(f". {knob.gone}")
        return [labelled("here", why, width=width)]
    lines = []
    for number, instance in enumerate(state.instances[:_SHOWN_INSTANCES]):
        text = instance.reading.text
        if text is None:
            shown = f"cannot be read: {instance.reading.unreadable or instance.reading.invalid}"
        else:
            shown = active_text(knob, text) or "not offered by this kernel"
            amounts = meaning(knob.meaning, shown, facts)
            shown += f" ({amounts})" if amounts else ""
            choices = offered(text) if knob.rule == "choice" else ()
            shown += f", offered: {' '.join(choices)}" if choices else ""
        label = f"{instance.label}: " if instance.label else ""
        lines.append(labelled("here" if number == 0 else "", label + shown, width=width))
    if len(state.instances) > _SHOWN_INSTANCES:
        lines.append(labelled("", f"and {len(state.instances) - _SHOWN_INSTANCES} more", width=width))
    return lines


def _evidence(knob: Knob, sources: Mapping[str, CatalogSource], width: int) -> list[str]:
    if not knob.evidence:
        return [labelled("evidence", "no source makes a claim about this knob", width=width)]
    lines = ["", "evidence"]
    columns = max(len(item.status) for item in knob.evidence) + 3
    for item in knob.evidence:
        title = sources[item.source].title if item.source in sources else item.source
        lines.append(
            labelled(
                f"  {item.status}", f"{item.claim} [{title}; {item.conditions}]", width=width, label_columns=columns
            )
        )
        if item.note:
            lines.append(labelled("", f"But: {item.note}", width=width, label_columns=columns))
    return [clean(line) if "\n" not in line else line for line in lines]
