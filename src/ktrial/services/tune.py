# SPDX-License-Identifier: Apache-2.0
"""Plan, apply, verify and revert settings on one machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ktrial.catalog.model import Catalog
from ktrial.domain.address import is_assignment, parse_assignment
from ktrial.domain.condition import Truth, evaluate
from ktrial.domain.errors import BadInput, Refused
from ktrial.domain.facts import FactBook
from ktrial.domain.knob import Knob, clear_each_other, instance_of, place_pattern
from ktrial.domain.mounts import MOUNTS, mount_options, read_only_mount
from ktrial.domain.plan import Context, Plan, Request, find_knob, resolve
from ktrial.domain.profile import Profile, Setting, flatten, requirements
from ktrial.domain.reading import InstanceState, KnobState, Reading
from ktrial.domain.value import kernel_text
from ktrial.domain.wanted import default_value
from ktrial.domain.wire_plan import wire_plan
from ktrial.services.ports import Machine

_DEBUGFS = "/sys/kernel/debug/"
_NEW_ZRAM = "/sys/class/zram-control/hot_add"


def requests_from(words: Sequence[str], catalog: Catalog) -> tuple[Request, ...]:
    """PROFILE and KNOB=VALUE words of a command line, in order."""
    if not words:
        raise BadInput(
            "nothing to plan",
            hint="name a profile (`ktrial profiles`) or settings, for example  ktrial plan vm.swappiness=10",
        )
    requests = []
    for word in words:
        if is_assignment(word):
            address, value = parse_assignment(word)
            find_knob(address.knob, catalog.knobs)
            requests.append(Request(f"setting {word}", (Setting(knob=str(address), value=value),)))
        elif word not in catalog.profiles and word in catalog.knobs:
            raise BadInput(f"{word} is a knob: which value?", hint=f"write {word}=VALUE; `ktrial explain {word}`")
        else:
            requests.append(Request(f"profile {word}", flatten(word, catalog.profiles)))
    return tuple(requests)


def check_words(words: Sequence[str], catalog: Catalog) -> None:
    """Raise BadInput for what is wrong on any machine: names, and values that their knobs do not take."""
    for request in requests_from(words, catalog):
        for setting in request.settings:
            if not isinstance(setting.value, dict):
                kernel_text(find_knob(setting.knob, catalog.knobs), setting.value)


def make_plan(
    machine: Machine,
    catalog: Catalog,
    words: Sequence[str],
    *,
    allow_dangerous: bool = False,
    later_wins: bool = False,
) -> tuple[Plan, FactBook]:
    """Resolve what the words ask for on this machine."""
    facts = machine.facts()
    _check_requirements(words, catalog, facts)
    requests = tuple(_generated(request, machine, catalog, facts) for request in requests_from(words, catalog))
    knobs = [
        find_knob(setting.knob, catalog.knobs)
        for request in requests
        for setting in request.settings
        if not isinstance(setting, Profile)
    ]
    states = observe(machine, with_couples(knobs, catalog.knobs))
    context = Context(catalog.knobs, catalog.kinds, facts, states)
    found = resolve(" ".join(words), requests, context, allow_dangerous=allow_dangerous, later_wins=later_wins)
    return found, facts


def _check_requirements(words: Sequence[str], catalog: Catalog, facts: FactBook) -> None:
    for name in words:
        for requirement in requirements(name, catalog.profiles) if name in catalog.profiles else ():
            truth, why = evaluate(requirement.that, facts, catalog.kinds)
            if truth is Truth.NO:
                raise Refused(f"profile {name} is not for this machine as it is now: {why}", hint=requirement.why)


def with_couples(knobs: Iterable[Knob], known: Mapping[str, Knob]) -> list[Knob]:
    """The knobs and those that the kernel changes with them, each once."""
    found: dict[str, Knob] = {}
    for knob in knobs:
        found[knob.id] = knob
        for name in knob.couples:
            found.setdefault(name, known[name])
    return list(found.values())


def observe(machine: Machine, knobs: Iterable[Knob]) -> dict[str, KnobState]:
    """Where each knob is on this machine and what its files show: one `list` and one `read` for all."""
    knobs = list(knobs)
    patterns = [place_pattern(place) for knob in knobs for place in knob.files]
    matches = machine.list([*patterns, _NEW_ZRAM, f"{_DEBUGFS}*"])
    chosen = {knob.id: _first_present(knob, matches) for knob in knobs}
    wanted: list[str] = [MOUNTS]
    for knob in knobs:
        for label, path in chosen[knob.id]:
            wanted.append(path)
            wanted += [
                other for other in (_beside(knob.offers, knob, label), _beside(knob.effective, knob, label)) if other
            ]
    readings = machine.read(wanted)
    return {knob.id: _state(knob, chosen[knob.id], readings, matches, is_root=machine.is_root) for knob in knobs}


def _first_present(knob: Knob, matches: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    for place in knob.files:
        found = [(instance_of(place, path), path) for path in matches.get(place_pattern(place), ())]
        instances = [(label, path) for label, path in found if label is not None]
        if instances:
            return instances
    return []


def _beside(place: str | None, knob: Knob, label: str) -> str | None:
    """The file of the same instance at another place."""
    if place is None:
        return None
    text = place
    for name, part in zip(knob.placeholders, label.split("/"), strict=False):
        component = part.removeprefix("irq") if name == "irq" else part
        text = text.replace(f"{{{name}}}", component)
    return text


def _state(
    knob: Knob,
    found: list[tuple[str, str]],
    readings: Mapping[str, Reading | None],
    matches: Mapping[str, tuple[str, ...]],
    *,
    is_root: bool,
) -> KnobState:
    instances = []
    mounted_as = readings.get(MOUNTS)
    options = mount_options((mounted_as.text or "") if mounted_as is not None else "")
    for label, path in found:
        reading = readings.get(path)
        if reading is None:
            continue
        if reading.unreadable is not None and is_root:
            reading = Reading(invalid=f"not even root may read it: {reading.unreadable}", locked=True)
        siblings = {}
        offers = _beside(knob.offers, knob, label)
        listed = readings.get(offers) if offers else None
        if listed is not None and listed.text is not None:
            siblings["offered"] = listed.text
        effective = _beside(knob.effective, knob, label)
        if effective is not None and readings.get(effective) is None:
            effective = None
        instances.append(InstanceState(label, path, reading, effective, siblings, read_only_mount(path, options)))
    mounted = bool(matches.get(f"{_DEBUGFS}*"))
    blocked = _blocked(knob, is_root=is_root, mounted=mounted) if not instances else None
    possible = knob.kind == "zram" and bool(matches.get(_NEW_ZRAM))
    return KnobState(knob.id, tuple(instances), blocked, possible)


def _blocked(knob: Knob, *, is_root: bool, mounted: bool) -> str | None:
    """Why a place that the kernel may well have cannot be seen."""
    if not any(place.startswith(_DEBUGFS) for place in knob.files):
        return None
    if not is_root:
        return "only root can see debugfs; `sudo ./ktrial …` shows whether it is there"
    if not mounted:
        return "debugfs is not mounted; `mount -t debugfs none /sys/kernel/debug` shows whether it is there"
    return None


def _generated(request: Request, machine: Machine, catalog: Catalog, facts: FactBook) -> Request:
    """A profile that is computed on the machine gets its settings; others stay as they are."""
    name = request.origin.removeprefix("profile ")
    profile = catalog.profiles.get(name)
    if profile is None or profile.generated is None:
        return request
    if profile.generated == "stock":
        return Request(request.origin, stock_settings(machine, catalog, facts))
    from ktrial.services.provenance import vendor_settings

    return Request(request.origin, vendor_settings(machine, catalog))


def stock_settings(machine: Machine, catalog: Catalog, facts: FactBook) -> tuple[Setting, ...]:
    """The mainline default of every knob that is here and has a known one."""
    from ktrial.domain.knob import INSTANCE_FACTS

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
    """Whether the file takes values here at all."""
    reading = instance.reading
    return reading.writable and reading.invalid is None and reading.text not in knob.value.states


def _cleared_by_partner(setting: Setting, catalog: Catalog) -> bool:
    """Whether writing it would clear its partner of a mutually clearing pair: the pair's `0` half needs no write."""
    knob = catalog.knobs.get(setting.knob)
    mutual = knob is not None and any(clear_each_other(knob, catalog.knobs[other]) for other in knob.couples)
    return mutual and setting.value == 0


def apply_plan(root: Machine, plan: Plan, lease: Mapping[str, Any], *, keep_going: bool = False) -> dict[str, Any]:
    """Carry the plan out as one transaction; the agent's answer."""
    return root.request("apply", plan=wire_plan(plan, lease, keep_going=keep_going))
