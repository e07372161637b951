# SPDX-License-Identifier: Apache-2.0
"""Examine a machine without root: what is tuned and by whom, what disturbs measuring now, what cannot be done here."""

from __future__ import annotations

from collections.abc import Iterable

from ktrial.kit.units import show_bytes
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.doctor.confounders import CONFOUNDER_FILES, confounders
from ktrial.tuning.doctor.limits import LIMIT_FILES, LIMIT_PATTERNS, limits
from ktrial.tuning.doctor.model import Counts, Examination
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.origin.configured import gather
from ktrial.tuning.origin.origin import Origin
from ktrial.tuning.origin.why import origins

_STATE_NOT_SETTING = frozenset(("queue:rotational",))
_SOFTWARE_DISKS = ("loop", "ram", "zram", "sr", "fd")


def examine(machine: Machine, catalog: Catalog) -> Examination:
    """One look at everything: a few requests, no waiting."""
    facts = machine.facts()
    listed = machine.list(LIMIT_PATTERNS)
    readings = machine.read([*CONFOUNDER_FILES, *LIMIT_FILES])
    claims = gather(machine)
    found = origins(machine, catalog, _tunable(catalog), claims, facts)
    here = [origin for origin in found if origin.verdict != "absent" and not _of_software_disk(origin)]
    unread = [f"{item.file}:{item.line_number}: {item.reason}" for item in claims.sysctl.unread]
    return Examination(
        machine=_summary(facts),
        unsettled=claims.unsettled,
        differ=tuple(origin for origin in here if origin.differs),
        named=tuple(origin for origin in here if origin.default is None and _is_set_by_somebody(origin)),
        confounders=tuple(confounders(facts, readings)),
        limits=tuple(limits(facts, readings, listed, is_root=machine.is_root)),
        counts=_counts(found, here),
        untold=claims.untold,
        unread=tuple(unread),
    )


def _tunable(catalog: Catalog) -> Iterable[Knob]:
    """Knobs that have a file, and boot parameters; what the build decides is no state of a machine."""
    return [
        knob
        for knob in catalog.knobs.values()
        if (knob.files or knob.kind == "boot") and knob.id not in _STATE_NOT_SETTING
    ]


def _is_set_by_somebody(origin: Origin) -> bool:
    """Whether a source other than the kernel's own configuration set it."""
    return origin.set_by is not None and origin.set_by.source != "kernel-build"


def _of_software_disk(origin: Origin) -> bool:
    """Queues of loop, RAM and optical devices are nobody's tuning."""
    label = origin.address.partition("@")[2]
    return origin.knob.startswith("queue:") and label.rstrip("0123456789") in _SOFTWARE_DISKS


def _counts(found: Iterable[Origin], here: list[Origin]) -> Counts:
    return Counts(
        looked_at=len(here),
        at_default=sum(1 for origin in here if origin.default is not None and origin.value == origin.default),
        differ=sum(1 for origin in here if origin.differs),
        default_unknown=sum(1 for origin in here if origin.default is None and origin.verdict != "unreadable"),
        unreadable=sum(1 for origin in here if origin.verdict == "unreadable"),
        absent=sum(1 for origin in found if origin.verdict == "absent"),
    )


def _summary(facts: FactBook) -> tuple[tuple[str, str], ...]:
    """The machine in a few lines; what is not known is left out."""

    def joined(*parts: str | None) -> str:
        return ", ".join(part for part in parts if part)

    def text(name: str, pattern: str = "{}") -> str | None:
        value = facts.value(name)
        return None if value is None else pattern.format(value)

    memory = facts.value("memory.total")
    disks = [
        record
        for record in facts.records("block.devices")
        if not record.get("virtual") and not str(record.get("name", "")).startswith(_SOFTWARE_DISKS)
    ]
    virtual = facts.value("virtualisation.kind")
    container = facts.value("container.kind")
    lines = {
        "CPU": joined(text("cpu.model"), text("cpu.threads", "{} threads")),
        "memory": joined(None if memory is None else show_bytes(memory)),
        "kernel": joined(text("kernel.release"), text("kernel.scheduler"), text("kernel.preemption", "preemption {}")),
        "system": joined(
            text("os.name"),
            f"in a {virtual} guest" if virtual not in (None, "none") else None,
            f"in a {container} container" if container not in (None, "none") else None,
        ),
        "disks": joined(*(f"{disk.get('name')} ({disk.get('scheduler') or 'no scheduler'})" for disk in disks)),
    }
    return tuple((label, line) for label, line in lines.items() if line)
