# SPDX-License-Identifier: Apache-2.0
"""Values that profiles compute from facts, and kernel defaults that depend on the machine."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.kit.units import parse_quantity
from ktrial.machine.facts import FactBook, FactKind
from ktrial.machine.reading import InstanceState
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.value import offered

_FIRST_OFFERED = '{ compute = "first-offered", of = ["kyber", "none"] }'
#: Computed value -> its other keys. All are required except `of` of a share.
_RECIPE_KEYS: dict[str, tuple[str, ...]] = {
    "max": (),
    "min": (),
    "share": ("percent", "of"),
    "closest": ("to",),
    "first-offered": ("of",),
    "default": (),
}
Answer = tuple[Any, str | None]


def computed_value(
    knob: Knob, recipe: Mapping[str, Any], shown: str | None, facts: FactBook, instance: InstanceState | None
) -> Answer:
    """Return the value of a `{ compute = … }` table, and why it is unknown here; one of the two is None."""
    name = recipe.get("compute")
    rule = _RECIPES.get(str(name))
    if rule is None:
        raise UnknownName("computed value", str(name), _RECIPES, hint=f"use one of: {', '.join(_RECIPES)}")
    return rule(knob, recipe, shown, facts, instance)


def check_recipe(recipe: Mapping[str, Any], kinds: Mapping[str, FactKind]) -> None:
    """Raise BadInput for an invalid `{ compute = … }` table."""
    if "compute" not in recipe:
        raise BadInput("a table as a value needs the key `compute`", hint=f"for example  value = {_FIRST_OFFERED}")
    name = str(recipe["compute"])
    if name not in _RECIPES:
        raise UnknownName("computed value", name, _RECIPES, hint=f"use one of: {', '.join(_RECIPES)}")
    for key in recipe:
        if key not in {"compute", *_RECIPE_KEYS[name]}:
            raise UnknownName(
                f"key of `{name}`",
                key,
                _RECIPE_KEYS[name],
                hint=f"use one of: {_offered_text(name)}" if _RECIPE_KEYS[name] else "leave out this key",
            )
    for key in _RECIPE_KEYS[name]:
        if key not in recipe and (name, key) != ("share", "of"):
            hint = f"add this key; the keys of `{name}` are {_offered_text(name)}"
            raise BadInput(f"`{name}` needs {key!r}", hint=hint)
    _check_recipe_values(name, recipe, kinds)


def _check_recipe_values(name: str, recipe: Mapping[str, Any], kinds: Mapping[str, FactKind]) -> None:
    if "percent" in recipe and (isinstance(recipe["percent"], bool) or not isinstance(recipe["percent"], int | float)):
        raise BadInput(f"`percent`: expected a number, got {recipe['percent']!r}", hint="for example  percent = 1")
    if name == "share" and recipe.get("of", "memory") not in {"memory", *kinds}:
        raise UnknownName("fact", str(recipe["of"]), kinds, hint="run `ktrial facts` to list all facts")
    if name == "closest":
        try:
            parse_quantity(str(recipe["to"]), "hertz")
        except ValueError as error:
            raise BadInput(f"`to`: {error}", hint='for example  to = "1GHz"') from None
    if name == "first-offered" and not (isinstance(recipe["of"], list) and recipe["of"]):
        raise BadInput("`first-offered` needs `of`, a list of values", hint=f"for example  value = {_FIRST_OFFERED}")


def _offered_text(name: str) -> str:
    return ", ".join(_RECIPE_KEYS[name]) or "no other key"


def default_value(knob: Knob, facts: FactBook) -> Answer:
    """Return the mainline default on this machine, and why it is unknown; one of the two is None."""
    if knob.default is None:
        return None, knob.default_note or "its default is not in the catalog"
    if isinstance(knob.default, Mapping):
        name = str(knob.default.get("compute"))
        rule = _DEFAULTS.get(name)
        if rule is None:
            raise UnknownName("computed default", name, _DEFAULTS, hint=f"use one of: {', '.join(_DEFAULTS)}")
        value = rule(facts)
        return (value, None) if value is not None else (None, "its default depends on unknown facts")
    return knob.default, None


def _edge(which: str) -> Callable[..., Answer]:
    def rule(
        knob: Knob, recipe: Mapping[str, Any], shown: str | None, facts: FactBook, instance: InstanceState | None
    ) -> Answer:
        numbers = _offered_numbers(shown, instance)
        if numbers:
            return (max(numbers) if which == "max" else min(numbers)), None
        bound = knob.value.max if which == "max" else knob.value.min
        return bound, None if bound is not None else f"its {which}imum is unknown here"

    return rule


def _share(
    knob: Knob, recipe: Mapping[str, Any], shown: str | None, facts: FactBook, instance: InstanceState | None
) -> Answer:
    source = str(recipe.get("of", "memory.total"))
    source = "memory.total" if source == "memory" else source
    whole = facts.value(source)
    if not isinstance(whole, int | float):
        return None, f"{source} is unknown"
    value_bytes = whole * float(recipe["percent"]) / 100
    return int(value_bytes // 1024 if knob.value.unit in {"kB", "KiB"} else value_bytes), None


def _closest(
    knob: Knob, recipe: Mapping[str, Any], shown: str | None, facts: FactBook, instance: InstanceState | None
) -> Answer:
    wanted_hz = parse_quantity(str(recipe["to"]), "hertz")
    wanted = wanted_hz / 1000 if knob.value.unit == "kHz" else wanted_hz
    numbers = _offered_numbers(shown, instance)
    if not numbers:
        return None, "no list of frequencies is available here"
    return min(numbers, key=lambda number: (abs(number - wanted), number)), None


def _first_offered(
    knob: Knob, recipe: Mapping[str, Any], shown: str | None, facts: FactBook, instance: InstanceState | None
) -> Answer:
    wanted = recipe.get("of")
    if not isinstance(wanted, list | tuple) or not wanted:
        raise BadInput("`first-offered` needs `of`, a list of values", hint=f"for example  value = {_FIRST_OFFERED}")
    listed = instance.siblings.get("offered", "") if instance is not None else ""
    words = offered(shown) if shown else ()
    here = set(words) | set(listed.split())
    found = next((word for word in wanted if word in here), None)
    return found, None if found else f"not available here: {', '.join(map(str, wanted))}"


def _offered_numbers(shown: str | None, instance: InstanceState | None) -> list[int]:
    words = (instance.siblings.get("offered", "") if instance is not None else "").split()
    return [int(word) for word in words if word.isdigit()]


_RECIPES: dict[str, Callable[..., Answer]] = {
    "max": _edge("max"),
    "min": _edge("min"),
    "share": _share,
    "closest": _closest,
    "first-offered": _first_offered,
    "default": lambda knob, recipe, shown, facts, instance: default_value(knob, facts),
}


def _min_free_kilobytes(facts: FactBook) -> int | None:
    """Return the value of mm/page_alloc.c and mm/khugepaged.c (6.12): 4·sqrt(lowmem kB), clamped; more with THP."""
    zones = [zone for zone in facts.records("memory.zones") if int(zone.get("managed_pages") or 0) > 0]
    page_bytes = facts.value("memory.page_bytes")
    if not zones or not isinstance(page_bytes, int):
        return None
    low_kb = sum(int(zone["managed_pages"]) for zone in zones) * page_bytes // 1024
    value = min(max(math.isqrt(low_kb * 16), 128), 262144)
    if facts.value("thp.enabled") in {"always", "madvise"}:
        block_pages = 2 * 1024 * 1024 // page_bytes
        recommended_pages = block_pages * len(zones) * 2 + block_pages * len(zones) * 9
        raised = min(recommended_pages, low_kb * 1024 // page_bytes // 20) * page_bytes // 1024
        value = max(value, raised)
    return value


def _queue_scheduler(facts: FactBook) -> str | None:
    """Return the choice of block/elevator.c (6.12): none for several hardware queues and for loop devices."""
    if str(facts.value("device.name") or "").startswith("loop"):
        return "none"
    queues = facts.value("device.hardware_queues")
    return None if queues is None else "none" if queues > 1 else "mq-deadline"


def _writeback_throttle_us(facts: FactBook) -> int | None:
    rotational = facts.value("device.rotational")
    return None if rotational is None else 75000 if rotational else 2000


def _scaled_ns(base_ns: int) -> Callable[[FactBook], int | None]:
    """Return a rule that scales like kernel/sched/fair.c: base · (1 + log2(min(CPUs, 8)))."""

    def rule(facts: FactBook) -> int | None:
        threads = facts.value("cpu.threads")
        if not isinstance(threads, int) or threads < 1:
            return None
        return base_ns * (1 + int(math.log2(min(threads, 8))))

    return rule


def _hard_watchdog(facts: FactBook) -> bool | None:
    """Return whether the hard-lockup detector runs; it needs a CPU counter on x86-64 and is unknown elsewhere."""
    return facts.value("cpu.counters") if facts.value("cpu.architecture") == "x86_64" else None


def _by_release(before: int, since: tuple[int, int], after: int) -> Callable[[FactBook], int | None]:
    """Return a rule for a default that mainline changed in release `since`."""

    def rule(facts: FactBook) -> int | None:
        match = re.match(r"(\d+)\.(\d+)", str(facts.value("kernel.release") or ""))
        if match is None:
            return None
        return after if (int(match[1]), int(match[2])) >= since else before

    return rule


_DEFAULTS: dict[str, Callable[[FactBook], Any]] = {
    "min-free-kbytes": _min_free_kilobytes,
    "queue-scheduler": _queue_scheduler,
    "wbt-latency": _writeback_throttle_us,
    "socket-buffer-most": _by_release(212_992, (6, 18), 4_194_304),
    "tcp-output-limit": _by_release(1_048_576, (6, 18), 4_194_304),
    "disk-sectors-most": _by_release(1280, (6, 16), 4096),
    "nr-requests": lambda facts: None,
    "base-slice": _scaled_ns(700_000),
    "sched-latency": _scaled_ns(6_000_000),
    "sched-min-granularity": _scaled_ns(750_000),
    "sched-wakeup-granularity": _scaled_ns(1_000_000),
    "hard-watchdog": _hard_watchdog,
}
COMPUTED_DEFAULTS = frozenset(_DEFAULTS)
