# SPDX-License-Identifier: Apache-2.0
"""Settings for an unknown phone: a value that depends on the phone becomes a recipe for the module's shell."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ktrial.kit.units import parse_quantity
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.when import Truth, evaluate
from ktrial.tuning.exports.model import LastingSetting, Omission, PhoneValue
from ktrial.tuning.exports.resolve import pattern_of
from ktrial.tuning.knobs.address import parse_address
from ktrial.tuning.knobs.find import find_knob
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.profile import Setting
from ktrial.tuning.knobs.value import kernel_text, show_value
from ktrial.tuning.plans.model import Context

#: Facts that hold for any phone on which a module is installed.
PHONE_FACTS = FactBook({"os.android": Fact(value=True)})
_INPUT_BOOST = "module:cpu_boost.input_boost_freq"


def phone_settings(setting: Setting, context: Context, left: list[Omission]) -> list[LastingSetting]:
    """Return a list of one setting, whose value may be a recipe for the phone.

    If a module cannot hold the setting, return an empty list and add the reason to `left`.
    """
    knob = find_knob(setting.knob, context.knobs)
    pattern = parse_address(setting.knob).selector
    if setting.when is not None:
        truth, why = evaluate(setting.when, PHONE_FACTS, context.kinds)
        if truth is not Truth.YES:
            left.append(Omission(setting.knob, why))
            return []
    if pattern is not None and pattern.startswith("["):
        pattern = pattern_of(knob, pattern)
        if pattern is None:
            left.append(Omission(setting.knob, "a module selects devices by name only"))
            return []
    if isinstance(setting.value, dict):
        value, text = _recipe(knob, setting.value), show_value(setting.value)
        if value is None:
            left.append(Omission(setting.knob, f"a module cannot compute {text} on the phone"))
            return []
    else:
        text = kernel_text(knob, setting.value)
        value = _adapted(knob, text)
    couples = tuple(context.knobs[one] for one in knob.couples if context.knobs[one].files)
    return [LastingSetting(knob=knob, text=text, pattern=pattern, on_phone=value, couples=couples)]


def _recipe(knob: Knob, recipe: Mapping[str, Any]) -> PhoneValue | None:
    name, is_clock = str(recipe["compute"]), "{policy}" in knob.files[0] and knob.id.endswith("_freq")
    if name == "first-offered":
        beside = (knob.offers or "").rpartition("/")[2]
        return PhoneValue("first", " ".join(map(str, recipe["of"])), beside)
    if name in {"max", "min"} and is_clock:
        return PhoneValue(name, f"the {name}imum clock")
    if name == "closest" and is_clock:
        return PhoneValue("closest", str(round(parse_quantity(str(recipe["to"]), "hertz") / 1000)))
    bound = {"max": knob.value.max, "min": knob.value.min}.get(name)
    return None if bound is None else PhoneValue("value", kernel_text(knob, bound))


def _adapted(knob: Knob, text: str) -> PhoneValue:
    """Return the recipe of a plain value; for a few knobs it depends on the phone's clusters."""
    if knob.id == _INPUT_BOOST and (found := re.fullmatch(r"0:(\d{1,9})", text)):
        return PhoneValue("boost", found[1])
    words = text.split()
    if knob.value.type == "ints" and knob.value.count is None and len(words) > 1 and len(set(words)) == 1:
        return PhoneValue("repeated", words[0])
    return PhoneValue("value", text, (knob.requires_choice or "").rpartition("/")[2])
