# SPDX-License-Identifier: Apache-2.0
"""Knobs: tunables under the kernel's own names, as the catalog describes them."""

# Annotations are not put off: msgspec would compile each of them anew at every start.
import re
from typing import Any, Literal

import msgspec

from ktrial.kit.errors import BadInput

Kind = Literal["sysctl", "sysfs", "debugfs", "boot", "module", "kconfig", "build", "patch", "zram"]
Risk = Literal["safe", "caution", "dangerous"]
TakesEffect = Literal["now", "new-devices", "boot", "build"]
ValueType = Literal["int", "bool", "choice", "text", "ints", "mask", "feature"]
VerifyRule = Literal["exact", "integer", "boolean", "choice", "token", "mask", "clamped"]
EvidenceStatus = Literal["claimed", "supported", "refuted", "superseded", "never took effect"]
Unit = Literal[
    "bytes", "kB", "KiB", "pages", "ms", "us", "ns", "cs", "s", "percent", "requests", "sectors", "kHz", "mW"
]

#: Kinds that no file of a running kernel stands for.
WITHOUT_FILE = frozenset({"boot", "kconfig", "build", "patch"})
#: Where knobs live. The agent holds the same list, and what is forbidden below these (docs/formats.md).
ROOTS = (
    "/proc/sys/",
    "/proc/irq/",
    "/sys/block/",
    "/sys/devices/",
    "/sys/kernel/mm/",
    "/sys/kernel/debug/",
    "/sys/kernel/rcu_",
    "/sys/module/",
    "/sys/class/",
    "/sys/bus/workqueue/",
    "/sys/bus/pci/devices/",
    "/sys/bus/usb/devices/",
    "/sys/fs/cgroup/",
    "/dev/stune/",
    "/dev/cpuctl/",
)
#: Placeholder of a place -> (what its path component looks like, prefix of the instance's name).
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
#: Its instances lie within one another: `user.slice/user-1000.slice`.
_NESTED = "slice"
#: Placeholder -> the fact whose records describe such instances.
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
    """Which values a knob takes."""

    type: ValueType
    min: int | None = None
    max: int | None = None
    choices: tuple[str, ...] = ()
    unit: Unit | None = None
    count: int | None = None
    special: dict[str, str] = {}
    states: dict[str, str] = {}


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A dated or sourced record about a knob's effect."""

    source: str
    claim: str
    conditions: str
    status: EvidenceStatus
    note: str | None = None


class Inert(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Facts with which a knob changes nothing on a machine, unless the same plan sets one of `unless`."""

    when: Any
    why: str
    unless: tuple[str, ...] = ()


class Knob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One tunable."""

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
    interacts: tuple[str, ...] = ()
    meaning: str | None = None
    settle_s: float = 1.0
    proof: str | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def rule(self) -> VerifyRule:
        """How a read-back value is compared."""
        return self.verify or _VERIFY[self.value.type]

    @property
    def files(self) -> tuple[str, ...]:
        """Its places in order of preference, a sysctl's own one included."""
        if self.places or self.kind != "sysctl":
            return self.places
        return (f"/proc/sys/{self.id.replace('.', '/')}",)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Names of the placeholders of its first place; empty for a knob without instances."""
        return tuple(re.findall(_PLACEHOLDER, self.files[0])) if self.files else ()

    @property
    def nested(self) -> bool:
        """Whether its instances are control groups, which lie within one another."""
        return _NESTED in self.placeholders

    @property
    def area(self) -> str:
        """First part of its name, such as `vm`, `queue` or `boot`."""
        return re.split(r"[.:]", self.id, maxsplit=1)[0]

    @property
    def short_name(self) -> str:
        """Its name without the prefix of its name space."""
        return self.id.partition(":")[2] or self.id


def check_knob(knob: Knob) -> None:
    """Raise BadInput for a name, range or place that cannot be right."""
    if not re.fullmatch(_ID, knob.id):
        raise BadInput(
            f"{knob.id!r} is not a knob's name", hint="use the kernel's own name, with a prefix where it needs one"
        )
    low, high = knob.value.min, knob.value.max
    if low is not None and high is not None and low > high:
        raise BadInput(f"{knob.id}: min {low} is larger than max {high}")
    if knob.kind in WITHOUT_FILE and knob.places:
        raise BadInput(f"{knob.id}: a {knob.kind} knob has no places")
    if knob.kind not in WITHOUT_FILE and not knob.files:
        raise BadInput(f"{knob.id}: a {knob.kind} knob needs `places`", hint='for example places = ["/sys/…"]')
    for place in (*knob.files, knob.effective, knob.offers):
        if place is not None:
            _check_place(knob, place)


def _check_place(knob: Knob, place: str) -> None:
    unknown = [name for name in re.findall(_PLACEHOLDER, place) if name not in PLACEHOLDERS]
    rest = re.sub(_PLACEHOLDER, "", place)
    why = None
    if unknown:
        why = f"{{{unknown[0]}}} stands for no instance; there are {', '.join(PLACEHOLDERS)}"
    elif "{" in rest or "}" in rest:
        why = "a brace without its partner"
    elif any(character in "*?[]" or not character.isprintable() for character in rest):
        why = "patterns and control characters are no part of a place; {block} and its like stand for instances"
    elif any(part in {"", ".", ".."} for part in place.split("/")[1:]):
        why = "not an absolute path without empty parts, `.` and `..`"
    elif not place.startswith(ROOTS):
        why = f"outside the places of knobs: {', '.join(ROOTS)}"
    if why is not None:
        raise BadInput(f"{knob.id}: the place {place!r}: {why}")


def clear_each_other(left: Knob, right: Knob) -> bool:
    """Return whether only one of two numbers can hold, because the kernel sets one to 0 when the other is written.

    Switches that follow each other (`kernel.watchdog`, `kernel.soft_watchdog`) are couples too, but can both be on.
    """
    numbers = left.value.type == right.value.type == "int"
    return numbers and right.id in left.couples and left.id in right.couples


def place_pattern(place: str, group: str | None = None) -> str:
    """Return a place as a pattern for the agent's `list`: every placeholder becomes `*`, or that pattern of a group."""
    return re.sub(_PLACEHOLDER, lambda found: group if group and found[1] == _NESTED else "*", place)


def path_pattern(place: str) -> str:
    """Return a place as the agent's allow-list has it: `**` for the groups that lie within one another, else `*`."""
    return place_pattern(place, "**")


def instance_of(place: str, path: str) -> str | None:
    """Name of the instance that `path` is of `place`; "" for a place without instances, None if it is none."""
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
