# SPDX-License-Identifier: Apache-2.0
"""Knobs: kernel tunables under the kernel's own names, as the catalog describes them."""

# No `from __future__ import annotations` here: msgspec would have to compile each annotation at every start.
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from ktrial.kit.errors import BadInput

_T = TypeVar("_T")
Kind = Literal["sysctl", "sysfs", "debugfs", "boot", "module", "kconfig", "build", "patch", "zram"]
Risk = Literal["safe", "caution", "dangerous"]
TakesEffect = Literal["now", "new-devices", "new-programs", "boot", "build"]
ValueType = Literal["int", "bool", "choice", "text", "ints", "mask", "feature"]
VerifyRule = Literal["exact", "integer", "boolean", "choice", "token", "mask", "clamped"]
EvidenceStatus = Literal["claimed", "supported", "refuted", "superseded", "never took effect"]
Unit = Literal[
    "bytes", "kB", "KiB", "pages", "ms", "us", "ns", "cs", "s", "percent", "requests", "sectors", "kHz", "mW"
]

#: Kinds of knobs without a file in a running kernel.
WITHOUT_FILE = frozenset({"boot", "kconfig", "build", "patch"})
#: Folders of knobs. The agent has the same list, and what is forbidden below them (docs/formats.md).
ROOTS = (
    *("/proc/sys/", "/proc/irq/", "/sys/block/", "/sys/devices/", "/sys/kernel/mm/", "/sys/kernel/debug/"),
    *("/sys/kernel/rcu_", "/sys/module/", "/sys/class/", "/sys/bus/workqueue/", "/sys/bus/pci/devices/"),
    *("/sys/bus/usb/devices/", "/sys/fs/cgroup/", "/dev/stune/", "/dev/cpuctl/"),
)
#: Placeholder of a place -> (pattern of its path component, prefix of the instance's name).
PLACEHOLDERS: dict[str, tuple[str, str]] = {
    "block": (r"[^/]+", ""),
    "policy": (r"policy\d+", ""),
    "irq": (r"\d+", "irq"),
    "cpu": (r"cpu\d+", ""),
    "nvme": (r"nvme\d+", ""),
    "zram": (r"zram\d+", ""),
    "interface": (r"[^/]+", ""),
    "queue": (r"[^/]+", ""),
    "slice": (r"[^/]+(?:/[^/]+)*", ""),
    "device": (r"[^/]+", ""),
    "node": (r"node\d+", ""),
    "host": (r"host\d+", ""),
    "state": (r"state\d+", ""),
}
#: Placeholder whose instances are nested: `user.slice/user-1000.slice`.
_NESTED = "slice"
#: Placeholder -> the fact whose records describe its instances.
INSTANCE_FACTS = {
    "block": "block.devices",
    "nvme": "nvme.controllers",
    "policy": "cpufreq.policies",
    "interface": "net.interfaces",
    "zram": "zram.devices",
}
_ID = r"[A-Za-z0-9][A-Za-z0-9_.:+/-]*"
_PLACEHOLDER = r"\{([a-z]+)\}"
_VERIFY: dict[str, VerifyRule] = {
    "int": "integer",
    "bool": "boolean",
    "choice": "choice",
    "feature": "token",
    "mask": "mask",
    "text": "exact",
    "ints": "exact",
}


class ValueSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The values that a knob accepts; docs/catalog.md describes the fields.

    `special` maps values outside the range to their meaning. `states` explains words that the file shows if there is
    nothing to set.
    """

    type: ValueType
    min: int | None = None
    max: int | None = None
    choices: tuple[str, ...] = ()
    unit: Unit | None = None
    count: int | None = None
    special: dict[str, str] = {}
    states: dict[str, str] = {}


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A claim about a knob's effect, with its source and conditions."""

    source: str
    claim: str
    conditions: str
    status: EvidenceStatus
    note: str | None = None


class Inert(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A condition on facts under which a knob has no effect, unless the plan also sets a knob in `unless`."""

    when: Any
    why: str
    unless: tuple[str, ...] = ()


class Knob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One kernel tunable; docs/catalog.md describes the fields."""

    id: str
    kind: Kind
    value: ValueSpec
    takes_effect: TakesEffect
    risk: Risk
    what: str
    price: str
    places: tuple[str, ...] = ()
    default: Any = None
    default_note: str | None = None
    verify: VerifyRule | None = None
    effective: str | None = None
    offers: str | None = None
    requires_choice: str | None = None
    couples: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    only: str | None = None
    successor: tuple[str, ...] = ()
    gone: str | None = None
    inert: tuple[Inert, ...] = ()
    up: str | None = None
    down: str | None = None
    security: str | None = None
    measuring: str | None = None
    disturbs: str | None = None
    interacts: tuple[str, ...] = ()
    meaning: str | None = None
    settle_s: float = 1.0
    proof: str | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def rule(self) -> VerifyRule:
        """Return the rule that compares the value read back with the value written."""
        return self.verify or _VERIFY[self.value.type]

    @property
    def files(self) -> tuple[str, ...]:
        """Return the possible paths of the file, the preferred path first; a sysctl's name gives its default path."""
        if self.places or self.kind != "sysctl":
            return self.places
        return (f"/proc/sys/{self.id.replace('.', '/')}",)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Return the names of the placeholders in the first path; empty for a knob without instances."""
        return tuple(re.findall(_PLACEHOLDER, self.files[0])) if self.files else ()

    @property
    def nested(self) -> bool:
        return _NESTED in self.placeholders

    @property
    def area(self) -> str:
        """Return the first part of the name, such as `vm`, `queue` or `boot`."""
        return re.split(r"[.:]", self.id, maxsplit=1)[0]

    @property
    def short_name(self) -> str:
        """Return the name without its prefix, such as `queue:`."""
        return self.id.partition(":")[2] or self.id


def check_knob(knob: Knob) -> None:
    """Raise BadInput for a knob with an invalid name, range or path."""
    if not re.fullmatch(_ID, knob.id):
        raise BadInput(
            f"{knob.id!r} is not a knob's name",
            hint="use the kernel's own name, such as vm.swappiness, with a prefix if needed, such as queue:scheduler",
        )
    low, high = knob.value.min, knob.value.max
    if low is not None and high is not None and low > high:
        raise BadInput(f"{knob.id}: min {low} is larger than max {high}", hint="swap min and max")
    if knob.kind in WITHOUT_FILE and knob.places:
        raise BadInput(f"{knob.id}: `places` is not allowed for a {knob.kind} knob", hint="remove `places`")
    if knob.kind not in WITHOUT_FILE and not knob.files:
        raise BadInput(f"{knob.id}: a {knob.kind} knob needs `places`", hint='for example  places = ["/sys/…"]')
    for place in knob.files:
        _check_place(knob, "places", place)
    for field in ("effective", "offers", "requires_choice"):
        if (place := getattr(knob, field)) is not None:
            _check_place(knob, field, place)


def _check_place(knob: Knob, field: str, place: str) -> None:
    unknown = [name for name in re.findall(_PLACEHOLDER, place) if name not in PLACEHOLDERS]
    rest = re.sub(_PLACEHOLDER, "", place)
    why = None
    if unknown:
        why = f"unknown placeholder {{{unknown[0]}}}; known: {', '.join(PLACEHOLDERS)}"
    elif "{" in rest or "}" in rest:
        why = "unbalanced braces"
    elif any(character in "*?[]" or not character.isprintable() for character in rest):
        why = "patterns and control characters are not allowed; use a placeholder such as {block}"
    elif any(part in {"", ".", ".."} for part in place.split("/")[1:]):
        why = "expected an absolute path without empty parts, `.` and `..`"
    elif not place.startswith(ROOTS):
        why = f"outside the folders of knobs: {', '.join(ROOTS)}"
    if why is not None:
        raise BadInput(f"{knob.id}: invalid place {place!r} ({why})", hint=f"correct `{field}`")


def clear_each_other(left: Knob, right: Knob) -> bool:
    """Return whether the knobs are two numbers, and the kernel clears one when the other is written.

    Switches that follow each other (`kernel.watchdog`, `kernel.soft_watchdog`) are couples too, but can be on together.
    """
    numbers = left.value.type == right.value.type == "int"
    return numbers and right.id in left.couples and left.id in right.couples


def in_write_order(
    items: Iterable[_T], names_of: Callable[[_T], Collection[str]], knobs: Mapping[str, Knob]
) -> list[_T]:
    """Sort the items by the `after` lists of their knobs; otherwise keep the order of the items.

    `names_of` returns the names of the knobs that an item writes. Raise BadInput if the `after` lists form a circle.
    """
    rest = [(one, frozenset(names_of(one))) for one in items]
    wanted = {name for _, names in rest for name in names}
    done: set[str] = set()
    result: list[_T] = []
    while rest:
        late = [
            (one, names)
            for one, names in rest
            if {other for name in names if name in knobs for other in knobs[name].after if other in wanted}
            - names
            - done
        ]
        if len(late) == len(rest):
            circle = ", ".join(sorted({name for _, names in rest for name in names}))
            raise BadInput(
                f"cannot order these knobs, because each must be written after another knob: {circle}",
                hint="correct the `after` lists of these knobs",
            )
        ready = [pair for pair in rest if pair not in late]
        result += [one for one, _ in ready]
        rest = late
        done |= {name for _, names in ready for name in names}
    return result


def place_pattern(place: str, group: str | None = None) -> str:
    """Return a pattern for the agent's `list` request, with `*` for each placeholder of `place`.

    `group`, if given, replaces the placeholder of a nested control group instead.
    """
    return re.sub(_PLACEHOLDER, lambda found: group if group and found[1] == _NESTED else "*", place)


def path_pattern(place: str) -> str:
    """Return a pattern for the agent's allow-list: `**` for nested control groups, `*` for other placeholders."""
    return place_pattern(place, "**")


def instance_of(place: str, path: str) -> str | None:
    """Return the label of the instance whose file is `path`; None if `path` does not fit `place`.

    The label is empty if `place` has no placeholders.
    """
    if "{" not in place:  # most knobs: a pattern takes a quarter of a millisecond to compile
        return "" if place == path else None
    names: list[str] = []
    parts: list[str] = []
    position = 0
    for match in re.finditer(_PLACEHOLDER, place):
        parts.append(re.escape(place[position : match.start()]))
        component, _ = PLACEHOLDERS[match[1]]
        parts.append(f"({component})")
        names.append(match[1])
        position = match.end()
    parts.append(re.escape(place[position:]))
    found = re.fullmatch("".join(parts), path)
    if found is None:
        return None
    return "/".join(PLACEHOLDERS[name][1] + text for name, text in zip(names, found.groups(), strict=True))
