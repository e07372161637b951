# SPDX-License-Identifier: Apache-2.0
"""Make plans from the words of a command line, and apply them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ktrial.kit.errors import BadInput, Refused
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.machine.reading import InstanceState
from ktrial.machine.transactions import Applied, decode_reply
from ktrial.machine.when import Truth, evaluate
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.address import is_assignment, parse_address, parse_assignment
from ktrial.tuning.knobs.computed import default_value
from ktrial.tuning.knobs.find import find_knob, refuse_knob
from ktrial.tuning.knobs.knob import Knob, clear_each_other
from ktrial.tuning.knobs.observe import observe, with_couples
from ktrial.tuning.knobs.profile import Setting, flatten, requirements
from ktrial.tuning.knobs.value import kernel_text
from ktrial.tuning.plans.model import Context, Plan, Request, Why
from ktrial.tuning.plans.plan import resolve
from ktrial.tuning.plans.wire import wire_plan


def requests_from(words: Sequence[str], catalog: Catalog) -> tuple[Request, ...]:
    """Return the requests of PROFILE and KNOB=VALUE words, in order.

    Raise BadInput if there is no word, for an unknown name, or for a knob without a value.
    """
    if not words:
        raise BadInput(
            "no profile or setting given",
            hint="name a profile (`ktrial profiles` lists them) or a setting, such as vm.swappiness=10",
        )
    requests = []
    for word in words:
        if is_assignment(word):
            address, value = parse_assignment(word)
            find_knob(address.knob, catalog.knobs)
            requests.append(Request(f"setting {word}", (Setting(knob=str(address), value=value),)))
        else:
            if word not in catalog.profiles:
                refuse_knob(word, catalog.knobs)
            requests.append(Request(f"profile {word}", flatten(word, catalog.profiles)))
    return tuple(requests)


def check_words(words: Sequence[str], catalog: Catalog) -> None:
    """Raise BadInput for unknown names and for values that their knobs do not accept."""
    for request in requests_from(words, catalog):
        for setting in request.settings:
            if not isinstance(setting.value, dict):
                kernel_text(find_knob(setting.knob, catalog.knobs), setting.value)


def make_plan(
    machine: Machine, catalog: Catalog, words: Sequence[str], *, allow_dangerous: bool = False, later_wins: bool = False
) -> tuple[Plan, FactBook]:
    """Return the plan of the profiles and settings named in `words` on this machine, and the machine's facts."""
    facts = machine.facts()
    requests = requests_on(machine, catalog, words, facts)
    context = context_for(machine, catalog, requests, facts)
    found = resolve(" ".join(words), requests, context, allow_dangerous=allow_dangerous, later_wins=later_wins)
    return found, facts


def refuse_dangerous(plan: Plan, allowed: bool) -> None:
    """Raise Refused if a plan changes nothing, and skips dangerous settings that the user has not allowed."""
    dangerous = [refusal.address for refusal in plan.refusals if refusal.kind is Why.DANGEROUS]
    if dangerous and not allowed and plan.empty:
        raise Refused(
            f"cannot use dangerous settings: {', '.join(dangerous)}",
            hint=f"add --yes-dangerous to accept the danger (see `ktrial explain {dangerous[0]}`)",
        )


def context_for(machine: Machine, catalog: Catalog, requests: Sequence[Request], facts: FactBook) -> Context:
    """Return the knobs, facts and states with which to resolve these requests on this machine."""
    names = [setting.knob for request in requests for setting in request.settings]
    knobs = [find_knob(name, catalog.knobs) for name in names]
    meant = [parse_address(name).selector for name in names]
    states = observe(machine, with_couples(knobs, catalog.knobs), meant)
    if catalog.own.keys() & states.keys():
        from ktrial.tuning.plans.added_knobs import with_barred

        states = with_barred(machine, states, catalog.own)
    return Context(catalog.knobs, catalog.kinds, facts, states)


def requests_on(machine: Machine, catalog: Catalog, words: Sequence[str], facts: FactBook) -> tuple[Request, ...]:
    """Return the requests of PROFILE and KNOB=VALUE words on this machine.

    Raise Refused if a requirement of a profile is not met.
    """
    _check_requirements(words, catalog, facts)
    return tuple(_generated(request, machine, catalog, facts) for request in requests_from(words, catalog))


def _check_requirements(words: Sequence[str], catalog: Catalog, facts: FactBook) -> None:
    for name in words:
        for requirement in requirements(name, catalog.profiles) if name in catalog.profiles else ():
            truth, why = evaluate(requirement.that, facts, catalog.kinds)
            if truth is Truth.NO:
                raise Refused(f"cannot use profile {name}: {why}", hint=requirement.why)


def _generated(request: Request, machine: Machine, catalog: Catalog, facts: FactBook) -> Request:
    """Return the request. If its profile is generated, the request has the settings computed on this machine."""
    name = request.origin.removeprefix("profile ")
    profile = catalog.profiles.get(name)
    if profile is None or profile.generated is None:
        return request
    if profile.generated == "stock":
        return Request(request.origin, stock_settings(machine, catalog, facts))
    from ktrial.tuning.origin.why import vendor_settings

    return Request(request.origin, vendor_settings(machine, catalog))


def stock_settings(machine: Machine, catalog: Catalog, facts: FactBook) -> tuple[Setting, ...]:
    """Return settings that write the known mainline defaults on this machine.

    ktrial leaves out dangerous knobs, zram, virtual devices and files that cannot be written.
    """
    from ktrial.tuning.knobs.knob import INSTANCE_FACTS

    settings = []
    for state in observe(machine, (knob for knob in catalog.knobs.values() if knob.files)).values():
        knob = catalog.knobs[state.knob]
        if knob.kind == "zram" or knob.risk == "dangerous":
            continue
        for instance in state.instances:
            source = INSTANCE_FACTS.get(knob.placeholders[0]) if knob.placeholders else None
            near = facts.with_device(catalog.kinds, source, instance.label.partition("/")[0]) if source else facts
            value, _ = default_value(knob, near)
            if value is not None and _settable(knob, instance) and near.value("device.virtual") is not True:
                address = f"{knob.id}@{instance.label}" if instance.label else knob.id
                settings.append(Setting(knob=address, value=value, why="the mainline default"))
    return tuple(setting for setting in settings if not _cleared_by_partner(setting, catalog))


def _settable(knob: Knob, instance: InstanceState) -> bool:
    reading = instance.reading
    return reading.writable and reading.invalid is None and reading.text not in knob.value.states


def _cleared_by_partner(setting: Setting, catalog: Catalog) -> bool:
    """Return whether the setting is the `0` half of a pair that the kernel clears anyway."""
    knob = catalog.knobs.get(setting.knob)
    mutual = knob is not None and any(clear_each_other(knob, catalog.knobs[other]) for other in knob.couples)
    return mutual and setting.value == 0


def apply_plan(root: Machine, plan: Plan, lease: Mapping[str, Any]) -> Applied:
    return decode_reply("apply", root.request("apply", plan=wire_plan(plan, lease)), Applied)
