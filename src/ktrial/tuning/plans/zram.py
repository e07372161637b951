# SPDX-License-Identifier: Apache-2.0
"""Turn settings of a zram device into one step of a plan: swapoff, reset, algorithm, size, swapon."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ktrial.kit.errors import BadInput, Contradiction
from ktrial.tuning.knobs.address import parse_address
from ktrial.tuning.knobs.computed import computed_value
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.profile import Setting
from ktrial.tuning.knobs.value import kernel_text, offered, show_value
from ktrial.tuning.plans.model import Context, Refusal, Why, ZramStep

#: The knobs that the agent's step sets. Others are refused and not ignored.
_SET = frozenset({"zram:disksize", "zram:comp_algorithm"})
#: The default size is half of the memory, but at most this.
_USUAL_MOST_BYTES = 4 * 2**30


def resolve_zram(
    settings: Iterable[tuple[Knob, Setting, str]], context: Context
) -> tuple[ZramStep | None, list[Refusal]]:
    """Return the step for the (knob, setting, origin) triples, and the skipped settings."""
    wanted: dict[str, tuple[Setting, str]] = {}
    refused: list[Refusal] = []
    for knob, setting, origin in settings:
        if not isinstance(setting.value, dict):
            kernel_text(knob, setting.value)
        if knob.id in _SET:
            _add_zram(wanted, knob, setting, origin)
        else:
            reason = "ktrial sets only the size and the algorithm of a zram device"
            value = show_value(setting.value)
            refused.append(Refusal(knob.id, setting.knob, Why.READ_ONLY, reason, value, origin))
    step, more = _resolve(wanted, context) if wanted else (None, [])
    return step, [*refused, *more]


def _add_zram(zram: dict[str, tuple[Setting, str]], knob: Knob, setting: Setting, origin: str) -> None:
    """Add a setting. Raises Contradiction for a second device, or for another value of another origin."""
    for other, said in zram.values():
        same_knob = other.knob == setting.knob and said != origin and other.value != setting.value
        if same_knob or parse_address(other.knob).selector != parse_address(setting.knob).selector:
            raise Contradiction(
                f"{setting.knob}={show_value(setting.value)} and {other.knob}={show_value(other.value)}: a plan can set"
                " up only one zram device, in one way",
                hint="name the same device in both, or apply them one after the other",
            )
    zram[knob.id] = (setting, origin)


def _resolve(wanted: Mapping[str, tuple[Setting, str]], context: Context) -> tuple[ZramStep | None, list[Refusal]]:
    values: dict[str, Any] = {}
    origin = ""
    device: str | None = None
    for name, (setting, origin) in wanted.items():
        knob = context.knobs[name]
        value = setting.value
        if isinstance(value, dict):
            value, why_not = computed_value(knob, value, None, context.facts, None)
            if why_not is not None:
                return None, [Refusal(name, setting.knob, Why.UNTOLD, why_not, show_value(setting.value), origin)]
        values[knob.short_name] = kernel_text(knob, value)
        device = parse_address(setting.knob).selector or device
    if not any(context.states[name].instances or context.states[name].possible for name in wanted):
        reason = "no zram on this kernel, or its module is not loaded"
        return None, [
            Refusal(name, setting.knob, Why.ABSENT, reason, show_value(setting.value), origin, "`modprobe zram`")
            for name, (setting, origin) in wanted.items()
        ]
    present = {str(record.get("name")): record for record in context.facts.records("zram.devices")}
    chosen = device if device is not None and "*" not in device else next(iter(present), None)
    record = present.get(chosen or "", {})
    labels = sorted({instance.label for name in wanted for instance in context.states[name].instances})
    if chosen is not None and chosen not in labels:
        hint = f"here: {', '.join(labels)}" if labels else "omit the name"
        return None, [
            Refusal(
                name,
                setting.knob,
                Why.NO_INSTANCE,
                f"unknown zram device {chosen}",
                show_value(setting.value),
                origin,
                hint,
            )
            for name, (setting, origin) in wanted.items()
        ]
    if refused := _not_offered(wanted, values.get("comp_algorithm"), chosen, context):
        return None, [refused]
    size = int(values.get("disksize") or record.get("size_bytes") or 0)
    return (
        ZramStep(
            device=chosen,
            size_bytes=size or _usual_size(context),
            algorithm=values.get("comp_algorithm", record.get("algorithm")),
            priority=int(values.get("swap_priority", 100)),
            origin=origin,
            usual_size=not size,
        ),
        [],
    )


def _not_offered(
    wanted: Mapping[str, tuple[Setting, str]], algorithm: str | None, device: str | None, context: Context
) -> Refusal | None:
    """Return a refusal if a device lists the kernel's algorithms and this one is missing."""
    name = "zram:comp_algorithm"
    if algorithm is None:
        return None
    shown = [one for one in context.states[name].instances if device in (None, one.label)]
    words = offered(shown[0].reading.text or "") if shown else ()
    if not words or algorithm in words:
        return None
    setting, origin = wanted[name]
    reason, hint = f"this kernel's zram has no {algorithm}", f"available: {', '.join(words)}"
    return Refusal(name, setting.knob, Why.NOT_OFFERED, reason, show_value(setting.value), origin, hint)


def _usual_size(context: Context) -> int:
    """Return the default size, which is that of systemd's zram-generator."""
    memory = context.facts.value("memory.total")
    if not memory:
        raise BadInput("a zram device needs a size", hint="add zram:disksize=4GiB")
    return min(int(memory) // 2, _USUAL_MOST_BYTES)
