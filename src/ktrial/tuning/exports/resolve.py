# SPDX-License-Identifier: Apache-2.0
"""Turn settings of profiles, trials and transactions into lasting ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from ktrial.kit.errors import Contradiction
from ktrial.machine.facts import FactBook
from ktrial.machine.reading import InstanceState, KnobState
from ktrial.machine.when import Truth, evaluate
from ktrial.tuning.exports.model import LastingSetting, Omission
from ktrial.tuning.knobs.address import parse_address, selector_conditions
from ktrial.tuning.knobs.computed import computed_value
from ktrial.tuning.knobs.find import find_knob, meant_instances
from ktrial.tuning.knobs.knob import INSTANCE_FACTS, Knob, instance_of
from ktrial.tuning.knobs.profile import Setting
from ktrial.tuning.knobs.value import kernel_text
from ktrial.tuning.plans.model import Context

_ROTATIONAL = re.compile(r"\s*device\.rotational\s*(==|!=)\s*(true|false)\s*")
#: Conditions on a device's record that its name shows too: placeholder, field and value -> pattern of the name.
_BY_NAME = {("block", "transport", "nvme"): "nvme*"}


class WantedSetting(msgspec.Struct, frozen=True):
    """A setting with the reasons for it, as lines of text; `judged` means that the reasons include a verdict.

    If one origin gives a knob two values, the later value counts, as in a profile.
    """

    setting: Setting
    origin: str
    reasons: tuple[str, ...] = ()
    judged: bool = False


Reasons = Callable[[LastingSetting], tuple[str, ...]]
Resolver = Callable[[Setting, Context, list[Omission]], list[LastingSetting]]


def lasting_settings(
    wanted: Iterable[WantedSetting],
    context: Context,
    more: Reasons = lambda _: (),
    resolver: Resolver | None = None,
) -> tuple[tuple[LastingSetting, ...], tuple[Omission, ...]]:
    """Return the settings in the order in which to write them, and those that do not last.

    `more` returns further reasons for a setting without a verdict. `resolver` resolves a setting; by default ktrial
    resolves it for this machine.
    Raise Contradiction if two origins give a knob different values.
    """
    resolve = resolver or _settings
    found: dict[str, LastingSetting] = {}
    origins: dict[str, str] = {}
    left: list[Omission] = []
    for one in wanted:
        for setting in resolve(one.setting, context, left):
            before = found.get(setting.address)
            is_same = before is None or before.text == setting.text or origins[setting.address] == one.origin
            if before is not None and not is_same:
                raise Contradiction(
                    f"{setting.address} is set twice: {before.text} and {setting.text}",
                    hint="remove one of the two settings",
                )
            danger = (f"dangerous: {setting.knob.price}",) if setting.knob.risk == "dangerous" else ()
            reasons = (*one.reasons, *(() if one.judged else more(setting)), *danger)
            origins[setting.address] = one.origin
            found[setting.address] = msgspec.structs.replace(setting, reasons=reasons)
    return tuple(_ordered(list(found.values()))), tuple(left)


def _settings(setting: Setting, context: Context, left: list[Omission]) -> list[LastingSetting]:
    """Return the setting itself if it selects devices by name, otherwise one for each matching device here."""
    knob = find_knob(setting.knob, context.knobs)
    selector = parse_address(setting.knob).selector
    rotational = _rotational(knob, setting, selector)
    if setting.when is not None and (rotational is None or not _is_rotational(setting.when)):
        per_device = _names_device(setting.when)
        if not per_device:
            truth, why = evaluate(setting.when, context.facts, context.kinds)
            if truth is not Truth.YES:
                left.append(Omission(setting.knob, why))
                return []
    else:
        per_device = False
    pattern = selector
    if selector is not None and selector.startswith("["):
        pattern = pattern_of(knob, selector)
        if rotational is not None:
            pattern = None
        elif pattern is None:
            per_device = True
    state = context.states.get(knob.id)
    if knob.placeholders and knob.kind != "zram" and (per_device or isinstance(setting.value, dict)):
        return _here(knob, setting, state, context, left)
    value = setting.value
    if isinstance(value, dict):
        instance = state.instances[0] if state is not None and state.instances and not knob.placeholders else None
        shown = instance.reading.text if instance is not None else None
        value, why_not = computed_value(knob, value, shown, context.facts, instance)
        if why_not is not None:
            left.append(Omission(setting.knob, why_not))
            return []
    text = kernel_text(knob, value)
    return [LastingSetting(knob=knob, text=text, place=_place(knob, state), pattern=pattern, rotational=rotational)]


def _here(
    knob: Knob, setting: Setting, state: KnobState | None, context: Context, left: list[Omission]
) -> list[LastingSetting]:
    """Return one setting for each selected device of this machine."""
    instances = state.instances if state is not None else ()
    selector = parse_address(setting.knob).selector or "*"
    chosen = meant_instances(knob, selector, instances, context.facts) if instances else []
    if not chosen:
        left.append(Omission(setting.knob, "the value depends on the devices, and no device here fits"))
    found = []
    for instance in chosen:
        outcome = _of_instance(knob, setting, instance, context)
        if isinstance(outcome, Omission):
            left.append(outcome)
        else:
            found.append(msgspec.structs.replace(outcome, place=_place(knob, state)))
    return found


def _of_instance(knob: Knob, setting: Setting, instance: InstanceState, context: Context) -> LastingSetting | Omission:
    address = f"{knob.id}@{instance.label}"
    facts = _device_facts(knob, instance, context)
    if setting.when is not None:
        truth, why = evaluate(setting.when, facts, context.kinds)
        if truth is not Truth.YES:
            return Omission(address, why)
    value = setting.value
    if isinstance(value, dict):
        value, why_not = computed_value(knob, value, instance.reading.text, facts, instance)
        if why_not is not None:
            return Omission(address, why_not)
    return LastingSetting(knob=knob, text=kernel_text(knob, value), pattern=instance.label)


def _device_facts(knob: Knob, instance: InstanceState, context: Context) -> FactBook:
    source = INSTANCE_FACTS.get(knob.placeholders[0])
    if source is None:
        return context.facts
    return context.facts.with_device(context.kinds, source, instance.label.partition("/")[0])


def _rotational(knob: Knob, setting: Setting, selector: str | None) -> bool | None:
    """Return whether the setting is for rotating disks; None unless that is its only condition."""
    if not knob.placeholders or knob.placeholders[0] != "block" or isinstance(setting.value, dict):
        return None
    if isinstance(setting.when, str) and (found := _ROTATIONAL.fullmatch(setting.when)):
        return (found[1] == "==") == (found[2] == "true")
    if selector is not None and selector.startswith("[") and setting.when is None:
        fields = selector_conditions(selector)
        if fields in ({"rotational": "true"}, {"rotational": "false"}):
            return fields["rotational"] == "true"
    return None


def _is_rotational(condition: object) -> bool:
    return isinstance(condition, str) and _ROTATIONAL.fullmatch(condition) is not None


def _names_device(condition: object) -> bool:
    if isinstance(condition, str):
        return condition.lstrip().startswith("device.")
    if isinstance(condition, Mapping):
        return any(_names_device(part) for parts in condition.values() for part in parts)
    return False


def pattern_of(knob: Knob, selector: str) -> str | None:
    """Return the name pattern that means the same as a `[field=value]` selector; None if there is none."""
    fields = selector_conditions(selector)
    if len(fields) != 1:
        return None
    ((field, value),) = fields.items()
    return _BY_NAME.get((knob.placeholders[0], field, value)) if knob.placeholders else None


def _place(knob: Knob, state: KnobState | None) -> str | None:
    """Return the place of the knob that exists on this machine, otherwise the preferred one; None without places."""
    path = state.instances[0].path if state is not None and state.instances else None
    for place in knob.files:
        if path is not None and instance_of(place, path) is not None:
            return place
    return knob.files[0] if knob.files else None


def _ordered(settings: Sequence[LastingSetting]) -> list[LastingSetting]:
    """Sort by every knob's `after`; otherwise keep the order."""
    done: list[LastingSetting] = []
    rest = list(settings)
    while rest:
        waiting = {one.knob.id for one in rest}
        ready = [one for one in rest if not (set(one.knob.after) & waiting) - {one.knob.id}] or rest[:1]
        done += ready
        rest = [one for one in rest if one not in ready]
    return done
