# SPDX-License-Identifier: Apache-2.0
"""A small catalog for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from ktrial.machine.facts import FactKind
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.knobs.profile import Profile, Setting

KINDS = {
    kind.name: kind
    for kind in (
        FactKind("memory.total", "bytes", ""),
        FactKind("memory.available", "bytes", ""),
        FactKind("os.android", "bool", ""),
        FactKind("os.id", "text", ""),
        FactKind("cpu.threads", "int", ""),
        FactKind("block.devices", "records", ""),
        FactKind("device.rotational", "bool", "", of="block.devices", field="rotational"),
        FactKind("device.hardware_queues", "int", "", of="block.devices", field="hardware_queues"),
    )
}


def knob(id: str, **fields: Any) -> Knob:  # noqa: A002 (the catalog's own key)
    """Return a knob with sensible values for everything that a test does not set."""
    values = {
        "id": id,
        "kind": "sysctl",
        "value": {"type": "int", "min": 0, "max": 100},
        "takes_effect": "now",
        "risk": "safe",
        "what": f"What {id} does.",
        "price": f"What {id} costs.",
    }
    return msgspec.convert({**values, **fields}, Knob)


SWAPPINESS = knob("vm.swappiness", value={"type": "int", "min": 0, "max": 200}, default=60)
DIRTY_RATIO = knob("vm.dirty_ratio", default=20, couples=["vm.dirty_bytes"], meaning="percent-of-available")
DIRTY_BYTES = knob("vm.dirty_bytes", value={"type": "int", "unit": "bytes"}, default=0, couples=["vm.dirty_ratio"])
SCHEDULER = knob(
    "queue:scheduler",
    kind="sysfs",
    places=["/sys/block/{block}/queue/scheduler"],
    value={"type": "choice"},
    default={"compute": "queue-scheduler"},
    couples=["queue:nr_requests"],
)
NR_REQUESTS = knob(
    "queue:nr_requests",
    kind="sysfs",
    places=["/sys/block/{block}/queue/nr_requests"],
    value={"type": "int", "min": 4, "max": 65535, "unit": "requests"},
    after=["queue:scheduler"],
)
LATENCY = knob(
    "sched:latency_ns",
    kind="debugfs",
    places=["/sys/kernel/debug/sched/latency_ns", "/proc/sys/kernel/sched_latency_ns"],
    value={"type": "int", "min": 100000, "max": 1000000000, "unit": "ns"},
    successor=["sched:base_slice_ns"],
    gone="EEVDF took its place in 6.6",
)
BASE_SLICE = knob(
    "sched:base_slice_ns",
    kind="debugfs",
    places=["/sys/kernel/debug/sched/base_slice_ns"],
    value={"type": "int", "min": 100000, "max": 1000000000, "unit": "ns"},
    meaning="slice",
)
NEXT_BUDDY = knob(
    "feature:NEXT_BUDDY", kind="debugfs", places=["/sys/kernel/debug/sched/features"], value={"type": "feature"}
)
NOHZ = knob("boot:nohz_full", kind="boot", value={"type": "text"}, takes_effect="boot", risk="caution")
SYNCOOKIES = knob("net.ipv4.tcp_syncookies", value={"type": "int", "min": 0, "max": 2}, risk="dangerous", default=1)
KNOBS = {
    entry.id: entry
    for entry in (
        SWAPPINESS,
        DIRTY_RATIO,
        DIRTY_BYTES,
        SCHEDULER,
        NR_REQUESTS,
        LATENCY,
        BASE_SLICE,
        NEXT_BUDDY,
        NOHZ,
        SYNCOOKIES,
    )
}


def catalog(*profiles: Profile) -> Catalog:
    """Return the small catalog with these profiles."""
    return Catalog(dict(KNOBS), {profile.name: profile for profile in profiles}, dict(KINDS), {})


def profile(name: str, *settings: tuple[str, Any], **fields: Any) -> Profile:
    """Return a profile of (knob, value) pairs."""
    return Profile(
        name=name,
        summary=f"{name} for tests",
        setting=tuple(Setting(knob=k, value=v, why="because") for k, v in settings),
        **fields,
    )
