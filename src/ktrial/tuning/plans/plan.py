# SPDX-License-Identifier: Apache-2.0
"""Resolve settings on one machine into ordered changes and refusals with reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from ktrial.kit.errors import BadInput, Contradiction
from ktrial.machine.facts import FactBook
from ktrial.machine.reading import InstanceState, KnobState
from ktrial.machine.when import Truth, evaluate
from ktrial.tuning.knobs.address import parse_address
from ktrial.tuning.knobs.computed import computed_value
from ktrial.tuning.knobs.find import absence, find_knob, meant_instances, successors
from ktrial.tuning.knobs.knob import INSTANCE_FACTS, Knob, clear_each_other, in_write_order
from ktrial.tuning.knobs.profile import Setting
from ktrial.tuning.knobs.relevance import inert_here
from ktrial.tuning.knobs.value import active_text, kernel_argument, kernel_text, offered, same_value, show_value
from ktrial.tuning.plans.model import Change, Context, Plan, Refusal, Request, Why, ZramStep

#: The knobs that the agent's step for zram sets. ktrial refuses other zram knobs instead of ignoring them.
_ZRAM_KNOBS = frozenset({"zram:disksize", "zram:comp_algorithm"})
#: The default size is half of the memory, but at most this.
_USUAL_MOST_BYTES = 4 * 2**30


def resolve(
    title: str,
    requests: Iterable[Request],
    context: Context,
    *,
    allow_dangerous: bool = False,
    later_wins: bool = False,
) -> Plan:
    """Turn settings into a plan. Raise BadInput for settings that are wrong on every machine.

    Raise Contradiction for requests that contradict each other. With `later_wins`, the later request overrides the
    earlier request instead.
    """
    outcomes: dict[str, Change | Refusal] = {}
    zram: list[tuple[Knob, Setting, str]] = []
    for request in requests:
        for setting in request.settings:
            knob = find_knob(setting.knob, context.knobs)
            if knob.kind == "zram":
                zram.append((knob, setting, request.origin))
                continue
            for outcome in _resolve_setting(knob, setting, request.origin, context, allow_dangerous):
                _add(outcomes, outcome, later_wins=later_wins)
    changes = [outcome for outcome in outcomes.values() if isinstance(outcome, Change)]
    if later_wins:
        changes = _uncleared(changes, context.knobs)
    _check_pairs(changes, context.knobs)
    refusals = [outcome for outcome in outcomes.values() if isinstance(outcome, Refusal)]
    step = None
    if zram:
        step, refused = _resolve_zram(zram, context)
        refusals += refused
    together = {one.knob for one in changes} | {knob.id for knob, _, _ in zram}
    changes = [_with_relevance(one, context, together) for one in changes]
    return Plan(
        title=title,
        changes=tuple(
            in_write_order([one for one in changes if not one.already], lambda one: (one.knob,), context.knobs)
        ),
        same=tuple(change for change in changes if change.already),
        refusals=tuple(refusals),
        zram=step,
    )


def with_same(plan: Plan, knobs: Mapping[str, Knob]) -> Plan:
    """Return the plan with its `same` values as changes too, so that they outlast other transactions."""
    changes = in_write_order([*plan.changes, *plan.same], lambda one: (one.knob,), knobs)
    return msgspec.structs.replace(plan, changes=tuple(changes), same=())


def _with_relevance(change: Change, context: Context, together: Collection[str]) -> Change:
    why = inert_here(context.knobs[change.knob], context.facts, context.kinds, together)
    return change if why is None else msgspec.structs.replace(change, inert=why)


def _add(outcomes: dict[str, Change | Refusal], outcome: Change | Refusal, *, later_wins: bool) -> None:
    key = outcome.address if isinstance(outcome, Change) else f"{outcome.address} refused {outcome.origin}"
    before = outcomes.get(key)
    if isinstance(before, Change) and isinstance(outcome, Change) and not later_wins:
        _check_agreement(before, outcome)
    outcomes.pop(key, None)
    outcomes[key] = outcome


def _check_agreement(before: Change, after: Change) -> None:
    if before.origin != after.origin and before.new_text != after.new_text:
        raise Contradiction(
            f"{after.address} is set twice: {before.new_text} by {before.origin}, {after.new_text} by {after.origin}",
            hint=f"leave out {before.origin} or {after.origin}; in your own profile the later setting wins",
        )


def _uncleared(changes: list[Change], knobs: Mapping[str, Knob]) -> list[Change]:
    """Drop each change that a later layer undoes because the kernel clears one knob of a pair."""
    kept: list[Change] = []
    for change in changes:
        if change.new_text != "0":
            cleared = {
                other for other in knobs[change.knob].couples if clear_each_other(knobs[change.knob], knobs[other])
            }
            kept = [one for one in kept if one.knob not in cleared or one.origin == change.origin]
        kept.append(change)
    return kept


def _check_pairs(changes: list[Change], knobs: Mapping[str, Knob]) -> None:
    wanted = {change.knob: change for change in changes}
    for change in changes:
        for other in knobs[change.knob].couples:
            partner = wanted.get(other)
            mutual = other in knobs and clear_each_other(knobs[change.knob], knobs[other])
            if partner is not None and mutual and change.new_text != "0" and partner.new_text != "0":
                raise Contradiction(
                    f"{change.knob}={change.new_text} ({change.origin}) and"
                    f" {other}={partner.new_text} ({partner.origin}) exclude each other:"
                    " the kernel clears one when the other is written",
                    hint="set only one of the two knobs",
                )


def _resolve_setting(
    knob: Knob, setting: Setting, origin: str, context: Context, allow_dangerous: bool
) -> list[Change | Refusal]:
    def refuse(kind: Why, reason: str, hint: str | None = None, address: str = setting.knob) -> Refusal:
        return Refusal(knob.id, address, kind, reason, show_value(setting.value), origin, hint)

    if not isinstance(setting.value, dict):
        kernel_text(knob, setting.value)
    late = _late(knob, setting)
    if late is not None:
        return [refuse(late[0], late[1], late[2])]
    state = context.states[knob.id]
    if not state.instances:
        return [refuse(Why.ABSENT, absence(knob, state, context.facts), successors(knob, context.knobs))]
    chosen = _choose_instances(knob, setting, state, context)
    if not chosen:
        return [refuse(Why.NO_INSTANCE, f"nothing here matches {setting.knob}", _instances_hint(state))]
    if knob.risk == "dangerous" and not allow_dangerous and not _is_default(knob, setting.value):
        return [refuse(Why.DANGEROUS, f"dangerous: {knob.price}", "add --yes-dangerous to accept the danger")]
    outcomes: list[Change | Refusal] = []
    for instance in chosen:
        address = f"{knob.id}@{instance.label}" if instance.label else knob.id
        facts = _device_facts(knob, instance, context)
        if setting.when is not None:
            truth, why = evaluate(setting.when, facts, context.kinds)
            if truth is not Truth.YES:
                kind = Why.CONDITION if truth is Truth.NO else Why.UNTOLD
                outcomes.append(refuse(kind, why, address=address))
                continue
        outcomes.append(_change(knob, setting, origin, instance, facts, address, context))
    return outcomes


def _is_default(knob: Knob, value: Any) -> bool:
    """Return whether `value` is the knob's fixed mainline default, which is never dangerous to restore."""
    if knob.default is None or isinstance(knob.default, Mapping) or isinstance(value, Mapping):
        return False
    return kernel_text(knob, value) == kernel_text(knob, knob.default)


def _late(knob: Knob, setting: Setting) -> tuple[Why, str, str] | None:
    if knob.kind == "boot":
        argument = kernel_argument(knob, kernel_text(knob, setting.value))
        step = f"remove  {knob.short_name}  from" if argument is None else f"add  {argument}  to"
        why = "a boot parameter: takes effect at the next boot"
        return Why.AT_BOOT, why, f"{step} the kernel command line"
    if knob.kind in {"kconfig", "build", "patch"}:
        return (
            Why.AT_BUILD,
            "decided when the kernel is built",
            "run `ktrial kernel build` to build a kernel with this setting",
        )
    return None


def _choose_instances(knob: Knob, setting: Setting, state: KnobState, context: Context) -> list[InstanceState]:
    selector = parse_address(setting.knob).selector
    if not knob.placeholders:
        if selector is not None:
            raise BadInput(
                f"{knob.id} has no instances, but {setting.knob} names one", hint=f"write {knob.id} without @…"
            )
        return list(state.instances)
    if selector is None:
        raise BadInput(
            f"{knob.id} has one value per instance",
            hint=f"write {knob.id}@NAME for one instance ({_labels(state)}), or {knob.id}@'*' for all",
        )
    return meant_instances(knob, selector, state.instances, context.facts)


def _instances_hint(state: KnobState) -> str | None:
    return f"use one of: {_labels(state)}" if state.instances else None


def _labels(state: KnobState) -> str:
    labels = [instance.label for instance in state.instances]
    more = f" and {len(labels) - 6} more" if len(labels) > 6 else ""
    return ", ".join(labels[:6]) + more


def _device_facts(knob: Knob, instance: InstanceState, context: Context) -> FactBook:
    source = INSTANCE_FACTS.get(knob.placeholders[0]) if knob.placeholders else None
    if source is None:
        return context.facts
    return context.facts.with_device(context.kinds, source, instance.label.partition("/")[0])


def _withheld(knob: Knob, instance: InstanceState) -> tuple[Why, str, str | None] | None:
    """Return why the file accepts no setting on this machine (kind, reason, hint), or None if it does."""
    path, reading = instance.path, instance.reading
    if reading.locked:
        what = "debugfs" if path.startswith("/sys/kernel/debug/") else "it"
        hint = "leave this setting out: kernel lockdown (Secure Boot) or a security module forbids it"
        return Why.UNREADABLE, f"{what} is locked down here: {reading.invalid}", hint
    if reading.invalid is not None:
        return Why.ABSENT, f"the kernel does not offer it for this device ({reading.invalid})", None
    if reading.text in knob.value.states:
        return Why.ABSENT, f"nothing to set here: {knob.value.states[reading.text]}", None
    choice = instance.siblings.get("choice")
    if choice is not None and knob.requires_choice is not None and not offered(choice):
        name = knob.requires_choice.rpartition("/")[2]
        return Why.ABSENT, f"the kernel refuses every value: this device has no {name}", None
    return None


def _change(
    knob: Knob, setting: Setting, origin: str, instance: InstanceState, facts: FactBook, address: str, context: Context
) -> Change | Refusal:
    def refuse(kind: Why, reason: str, hint: str | None = None) -> Refusal:
        return Refusal(knob.id, address, kind, reason, show_value(setting.value), origin, hint)

    if instance.barred is not None:
        return refuse(Why.NOT_ADDED, instance.barred.reason, instance.barred.hint)
    shown = instance.reading.text
    withheld = _withheld(knob, instance)
    if withheld is not None:
        return refuse(*withheld)
    value = setting.value
    if isinstance(value, dict):
        value, why_not = computed_value(knob, value, shown, facts, instance)
        if why_not is not None:
            return refuse(Why.UNTOLD, why_not)
    text = kernel_text(knob, value)
    fixed = _fixed(knob, instance)
    if fixed is not None:
        return Refusal(knob.id, address, Why.READ_ONLY, fixed[0], text, origin, fixed[1])
    words = offered(shown) if shown is not None else ()
    if words and knob.rule == "choice" and text not in words:
        return refuse(Why.NOT_OFFERED, f"{text} is not offered here", f"use one of: {', '.join(words)}")
    if shown is not None and knob.rule == "token" and not active_text(knob, shown):
        return refuse(
            Why.ABSENT, absence(knob, context.states[knob.id], context.facts), successors(knob, context.knobs)
        )
    return Change(
        knob=knob.id,
        address=address,
        path=instance.path,
        rule="clamped" if text in knob.value.special else knob.rule,
        new_text=_like_old(knob, shown, text),
        old_text=None if shown is None else active_text(knob, shown),
        old=instance.reading.data,
        couples=_couple_paths(knob, instance, context),
        effective=instance.effective,
        why=setting.why,
        origin=origin,
        risk=knob.risk,
        controlled=setting.controlled,
    )


def _fixed(knob: Knob, instance: InstanceState) -> tuple[str, str | None] | None:
    """Return why nobody can write the file, and what to do instead; None if its mode and mount allow writing."""
    if instance.read_only is not None:
        return f"{instance.read_only} is mounted read-only, as in containers", "run ktrial on the host"
    if instance.reading.writable:
        return None
    at_load = f"add an options line to /etc/modprobe.d, or {knob.short_name}=… to the kernel command line"
    return "the file is read-only on this kernel", at_load if knob.kind == "module" else None


def _like_old(knob: Knob, shown: str | None, text: str) -> str:
    """Return the kernel's own spelling of `text` if the kernel shows this value already, otherwise `text`.

    The plan then sees no change.
    """
    if shown is not None and same_value(knob, active_text(knob, shown), text):
        return active_text(knob, shown)
    return text


def _couple_paths(knob: Knob, instance: InstanceState, context: Context) -> tuple[str, ...]:
    paths: list[str] = []
    for name in knob.couples:
        state = context.states.get(name)
        for other in state.instances if state else ():
            if other.label in {"", instance.label} and other.reading.readable:
                paths.append(other.path)
    return tuple(paths)


def _resolve_zram(
    settings: Iterable[tuple[Knob, Setting, str]], context: Context
) -> tuple[ZramStep | None, list[Refusal]]:
    """Return the step for the (knob, setting, origin) triples, and the skipped settings."""
    wanted: dict[str, tuple[Setting, str]] = {}
    refused: list[Refusal] = []
    for knob, setting, origin in settings:
        if not isinstance(setting.value, dict):
            kernel_text(knob, setting.value)
        if knob.id in _ZRAM_KNOBS:
            _add_zram(wanted, knob, setting, origin)
        else:
            reason = "ktrial sets only the size and the algorithm of a zram device"
            value = show_value(setting.value)
            refused.append(Refusal(knob.id, setting.knob, Why.READ_ONLY, reason, value, origin))
    step, more = _zram_step(wanted, context) if wanted else (None, [])
    return step, [*refused, *more]


def _add_zram(zram: dict[str, tuple[Setting, str]], knob: Knob, setting: Setting, origin: str) -> None:
    """Add a setting. Raise Contradiction for a second device, or for another value of another origin."""
    for other, said in zram.values():
        same_knob = other.knob == setting.knob and said != origin and other.value != setting.value
        if same_knob or parse_address(other.knob).selector != parse_address(setting.knob).selector:
            raise Contradiction(
                f"{setting.knob}={show_value(setting.value)} and {other.knob}={show_value(other.value)}: a plan can set"
                " up only one zram device, in one way",
                hint="leave out one of the two settings",
            )
    zram[knob.id] = (setting, origin)


def _zram_step(wanted: Mapping[str, tuple[Setting, str]], context: Context) -> tuple[ZramStep | None, list[Refusal]]:
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
            Refusal(name, setting.knob, Why.ABSENT, reason, show_value(setting.value), origin, "run `modprobe zram`")
            for name, (setting, origin) in wanted.items()
        ]
    present = {str(record.get("name")): record for record in context.facts.records("zram.devices")}
    chosen = device if device is not None and "*" not in device else next(iter(present), None)
    record = present.get(chosen or "", {})
    labels = sorted({instance.label for name in wanted for instance in context.states[name].instances})
    if chosen is not None and chosen not in labels:
        hint = f"use one of: {', '.join(labels)}" if labels else "leave out the name"
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
    """Return a refusal if the kernel lists its algorithms for a device and the wanted one is not among them."""
    name = "zram:comp_algorithm"
    if algorithm is None:
        return None
    shown = [one for one in context.states[name].instances if device in (None, one.label)]
    words = offered(shown[0].reading.text or "") if shown else ()
    if not words or algorithm in words:
        return None
    setting, origin = wanted[name]
    reason, hint = f"this kernel's zram has no {algorithm}", f"use one of: {', '.join(words)}"
    return Refusal(name, setting.knob, Why.NOT_OFFERED, reason, show_value(setting.value), origin, hint)


def _usual_size(context: Context) -> int:
    """Return the default size, the same as in systemd's zram-generator."""
    memory = context.facts.value("memory.total")
    if not memory:
        raise BadInput(
            "cannot choose the size of the zram device: the size of the memory is unknown",
            hint="add a size, for example  zram:disksize=4GiB",
        )
    return min(int(memory) // 2, _USUAL_MOST_BYTES)
