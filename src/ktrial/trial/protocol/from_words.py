# SPDX-License-Identifier: Apache-2.0
"""Turns the words of `ktrial try` into arms, and finds a benchmark that can measure their difference."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import chain, product

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.trial.protocol.file import CONTROL, ArmFile
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.address import is_assignment, parse_assignment
from ktrial.tuning.knobs.find import find_knob, refuse_knob
from ktrial.tuning.knobs.profile import Profile, flatten

#: Types of values that contain commas.
_LISTS = frozenset(("ints", "text", "mask"))
_ALGORITHM = "zram:comp_algorithm"
_BOOT = "boot:"
#: Knob pattern -> suite that can distinguish the knob's values; the first match counts.
SUITES: Mapping[str, str] = {
    "thp:*": "agent-pagefault",
    "vm.nr_hugepages*": "agent-pagefault",
    "vm.compact*": "agent-pagefault",
    "vm.dirty*": "agent-fileio-write-sequential-warm",
    "queue:*": "agent-fileio-read-sequential-cold",
    "vm.*": "memory-pressure",
    "zram:*": "memory-pressure",
    "mglru:*": "memory-pressure",
    "sched:base_slice_ns": "wakeups-busy",
    "kernel.sched*": "agent-messaging-pipe",
    "sched:*": "agent-messaging-pipe",
    "feature:*": "agent-messaging-pipe",
    "net.*": "agent-tcp-request",
}


def arms_of(
    words: Sequence[str], catalog: Catalog, environment: Mapping[str, str], *, placebo: bool
) -> dict[str, ArmFile]:
    """Return the control and the arms: one arm of all words, or one for each combination of listed values.

    If only zram algorithms differ, the control has the first algorithm: compared with no zram, all algorithms would
    show the same effect.
    """
    profiles = tuple(_profile(word, catalog) for word in words if not is_assignment(word))
    values: dict[str, tuple[str, ...]] = {}
    for knob, some in (_values(word, catalog) for word in words if is_assignment(word)):
        values[knob] = tuple(dict.fromkeys((*values.get(knob, ()), *some)))
    grids = [knob for knob, some in values.items() if len(some) > 1]
    first = {knob: values[knob][0] for knob in grids if knob.startswith(_ALGORITHM)}
    control = (
        ArmFile(set=first, profile=profiles, environment=environment) if first and grids == [*first] else ArmFile()
    )
    arms = {CONTROL: control} | ({"placebo": ArmFile(placebo=True)} if placebo else {})
    for chosen in product(*values.values()):
        own = dict(zip(values, chosen, strict=True))
        boot = tuple(_boot_word(knob, value) for knob, value in own.items() if knob.startswith(_BOOT))
        settings = {knob: value for knob, value in own.items() if not knob.startswith(_BOOT)}
        arm = ArmFile(set=settings, profile=profiles, environment=environment, boot=boot)
        name = _name({knob: own[knob] for knob in grids}, (), {}) if grids else _name(own, profiles, environment)
        if not arm.changes_nothing and arm != control:
            arms[name] = arm
    if len(arms) < 2:
        raise BadInput(
            "nothing to try",
            hint="name a profile or a setting, for example vm.swappiness=10",
        )
    return arms


def name_of(arms: Mapping[str, ArmFile]) -> str:
    """Return a name for a trial of these arms: the settings or, if there are many arms, the knobs that differ."""
    tried = {
        name: {**arm.set, **dict.fromkeys(arm.boot)}
        for name, arm in arms.items()
        if name != CONTROL and not arm.placebo
    }
    if len(tried) > 2:
        knobs = dict.fromkeys(knob for settings in tried.values() for knob in settings)
        tried = {_short(knob): {} for knob in knobs if len({settings.get(knob) for settings in tried.values()}) > 1}
    return "-".join(tried or ["placebo"])[:60].rstrip("-._+")


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Parse NAME=VALUE texts into a mapping. Raise BadInput for a name with two values."""
    found: dict[str, str] = {}
    for name, value in (pair(text, option) for text in texts):
        if found.setdefault(name, value) != value:
            raise BadInput(f"{option} {name} has two values: {found[name]}, {value}", hint=f"give {option} {name} once")
    return found


def pair(text: str, option: str) -> tuple[str, str]:
    """Return the two parts of NAME=VALUE. Raise BadInput for anything else."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        form = f"{name or 'NAME'}={value or 'VALUE'}"
        raise BadInput(f"{option} {text!r}: expected NAME=VALUE", hint=f"write {option} {form}")
    return name, value


def _profile(word: str, catalog: Catalog) -> str:
    if word not in catalog.profiles:
        refuse_knob(word, catalog.knobs)
        raise UnknownName("profile", word, catalog.profiles, hint="use a profile that `ktrial profiles` lists")
    return word


def _values(word: str, catalog: Catalog) -> tuple[str, tuple[str, ...]]:
    """Return a setting's knob and the values to try. A text is one value if values of this knob may contain commas."""
    address, value = parse_assignment(word)
    knob = find_knob(address.knob, catalog.knobs)
    several = knob.value.type not in _LISTS
    return str(address), tuple(part.strip() for part in value.split(",")) if several else (value,)


def _boot_word(address: str, value: str) -> str:
    """Return a kernel argument as a word. `on` sets a flag, and `off` removes a flag that is set."""
    name = address.removeprefix(_BOOT)
    return {"on": name, "": name, "off": f"-{name}"}.get(value, f"{name}={value}")


def _name(settings: Mapping[str, str], profiles: Sequence[str], environment: Mapping[str, str]) -> str:
    parts = [*profiles]
    parts += [f"{_short(knob)}-{value}" for knob, value in chain(settings.items(), environment.items())]
    text = re.sub(r"[^A-Za-z0-9._+-]+", "-", "+".join(parts)).strip("-.+_")
    return text[:60] or "tried"


def _short(address: str) -> str:
    """Return the last part of a knob's name with its instance.

    If the instance is a path, keep only the last component.
    """
    knob, at, selector = address.partition("@")
    name = re.split(r"[.:]", knob)[-1]
    instance = selector if selector.count("/") < 2 else selector.rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", f"{name}{at}{instance}")


def default_suite(words: Sequence[str], catalog: Catalog) -> str:
    """Return a suite that can measure these settings. Raise BadInput if ktrial knows no suite for them."""
    for knob in _knobs(words, catalog):
        found = next((suite for pattern, suite in SUITES.items() if fnmatchcase(knob, pattern)), None)
        if found is not None:
            return found
    raise BadInput(
        "cannot choose a benchmark: ktrial knows no suite for what you test",
        hint="name a suite with --suite (`ktrial bench --list`), or add a command:  -- CMD",
    )


def _knobs(words: Sequence[str], catalog: Catalog) -> list[str]:
    found = []
    for word in words:
        if is_assignment(word):
            found.append(parse_assignment(word)[0].knob)
        elif word in catalog.profiles and catalog.profiles[word].generated is None:
            settings = flatten(word, catalog.profiles)
            found += [one.knob.partition("@")[0] for one in settings if not isinstance(one, Profile)]
    return found
