# SPDX-License-Identifier: Apache-2.0
"""Examine a machine without root: what is tuned, who tuned it, and what disturbs measurements now.

The examination also lists what cannot be measured or tuned here, and how to change that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ktrial.kit.mounts import MOUNTS, mount_options, read_only_mount
from ktrial.kit.units import show_bytes
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.machine.reading import Reading
from ktrial.tuning.catalog.model import Catalog
from ktrial.tuning.doctor.confounders import CONFOUNDER_FILES, confounders
from ktrial.tuning.doctor.model import Counts, Examination, Limit
from ktrial.tuning.knobs.knob import Knob
from ktrial.tuning.origin.configured import gather
from ktrial.tuning.origin.origin import Origin
from ktrial.tuning.origin.why import origins

_EVENT_SOURCES = "/sys/bus/event_source/devices/*"
_ENERGY = "/sys/class/powercap/intel-rapl:*/energy_uj"
_HWMON_POWER = "/sys/class/hwmon/*/energy1_input"
_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
LIMIT_PATTERNS = (_EVENT_SOURCES, _ENERGY, _HWMON_POWER)
LIMIT_FILES = (MOUNTS, _PARANOID)
_PROCESSOR_UNITS = ("cpu", "cpu_core", "cpu_atom", "armv8", "armv9", "apple_", "riscv")
PARANOID_BLOCKS_USERS = 2


class _LimitLook(msgspec.Struct, frozen=True):
    """Everything from which ktrial derives limits."""

    facts: FactBook
    readings: Mapping[str, Reading | None]
    listed: Mapping[str, tuple[str, ...]]
    is_root: bool

    def text(self, path: str) -> str | None:
        reading = self.readings.get(path)
        return None if reading is None else reading.text


def limits(
    facts: FactBook, readings: Mapping[str, Reading | None], listed: Mapping[str, tuple[str, ...]], *, is_root: bool
) -> Iterator[Limit]:
    """Yield what ktrial cannot measure or tune here; unknown values yield nothing."""
    look = _LimitLook(facts, readings, listed, is_root)
    for each in (_read_only, _root, _debugfs, _counters, _frequency, _energy, _pressure):
        yield from each(look)


def _read_only(look: _LimitLook) -> Iterator[Limit]:
    """Yield settings that cannot be written because a container mounts /proc/sys or /sys read-only."""
    options = mount_options(look.text(MOUNTS) or "")
    for mount, what in (("/proc/sys", "sysctls"), ("/sys", "settings below /sys")):
        if read_only_mount(mount, options) is not None:
            container = look.facts.value("container.kind")
            inside = f" in this {container} container" if container not in (None, "none") else ""
            yield Limit(
                what=f"changing {what}",
                why=f"{mount} is mounted read-only{inside}",
                lift="run ktrial on the host, or start the container privileged",
            )


def _root(look: _LimitLook) -> Iterator[Limit]:
    if look.is_root:
        return
    if look.facts.value("os.android") is True:
        has_su = look.facts.value("phone.root") is not None
        yield Limit(
            what="applying settings; debugfs, tracing, modules and files that only root can read",
            why="this session is not root",
            lift="`apply`, `try` and `watch` ask su" if has_su else "root the phone with Magisk, KernelSU or APatch",
        )
        return
    yield Limit(
        what="knobs in debugfs and files that only root can read",
        why="this session is not root",
        lift="sudo ./ktrial doctor",
    )


def _debugfs(look: _LimitLook) -> Iterator[Limit]:
    lockdown = look.facts.value("kernel.lockdown")
    if lockdown not in (None, "none"):
        yield Limit(
            what="scheduler features and slices (debugfs), tracing of memory",
            why=f"kernel lockdown is {lockdown}",
            lift="disable Secure Boot, or boot with lockdown=none if the kernel allows it",
        )
        return
    if not look.is_root:
        return
    for name, what, folder in (
        ("tracing.debugfs", "scheduler features and slices", "/sys/kernel/debug"),
        ("tracing.tracefs", "tracing of wake-ups, reclaim and block I/O", "/sys/kernel/tracing"),
    ):
        if look.facts.value(name) is False:
            kind = name.partition(".")[2]
            yield Limit(
                what=what, why=f"{kind} is not mounted or not in this kernel", lift=f"mount -t {kind} none {folder}"
            )


def _counters(look: _LimitLook) -> Iterator[Limit]:
    names = [path.rpartition("/")[2] for path in look.listed.get(_EVENT_SOURCES, ())]
    if not any(name == "cpu" or name.startswith(_PROCESSOR_UNITS[1:]) for name in names):
        guest = look.facts.value("virtualisation.kind") not in (None, "none")
        yield Limit(
            what="hardware counters (cycles, cache misses)",
            why="this guest has no performance monitoring unit" if guest else "no performance monitoring unit found",
            lift="enable it in the hypervisor (QEMU: -cpu host,pmu=on)" if guest else "use a kernel with its driver",
        )
        return
    level = look.text(_PARANOID)
    if not look.is_root and level is not None and level.lstrip("-").isdigit() and int(level) > PARANOID_BLOCKS_USERS:
        yield Limit(
            what="hardware counters",
            why=f"kernel.perf_event_paranoid is {level}",
            lift="sudo sysctl kernel.perf_event_paranoid=1, or measure as root",
        )


def _frequency(look: _LimitLook) -> Iterator[Limit]:
    guest = look.facts.value("virtualisation.kind") not in (None, "none")
    remedy = "depends on the host's firmware and kernel" if guest else "check the firmware settings (CPPC, HWP)"
    for name, what in (("cpufreq.driver", "clocks and governors"), ("cpuidle.driver", "idle states (C-states)")):
        fact = look.facts.get(name)
        if fact is not None and fact.absent is not None:
            lift = remedy if name == "cpufreq.driver" or guest else "boot without idle=poll and with an idle driver"
            yield Limit(what=what, why=f"{name.partition('.')[0]}: {fact.absent}", lift=lift)


def _energy(look: _LimitLook) -> Iterator[Limit]:
    if look.listed.get(_HWMON_POWER) or (look.listed.get(_ENERGY) and look.is_root):
        return
    if look.listed.get(_ENERGY):
        yield Limit(what="energy", why="only root can read the RAPL counters", lift="measure as root")
    elif look.facts.value("power.source") != "battery":
        yield Limit(what="energy", why="no energy counter found", lift="use an external power meter")


def _pressure(look: _LimitLook) -> Iterator[Limit]:
    if look.facts.value("psi.available") is False:
        yield Limit(what="pressure stall information", why="disabled in this kernel", lift="boot with psi=1")


_STATE_NOT_SETTING = frozenset(("queue:rotational",))
_SOFTWARE_DISKS = ("loop", "ram", "zram", "sr", "fd")


def examine(machine: Machine, catalog: Catalog) -> Examination:
    """Examine the machine with a few requests and without waiting."""
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
    """Return knobs with files, and boot parameters; build options are not part of a machine's state."""
    return [
        knob
        for knob in catalog.knobs.values()
        if (knob.files or knob.kind == "boot") and knob.id not in _STATE_NOT_SETTING
    ]


def _is_set_by_somebody(origin: Origin) -> bool:
    """Return whether a source other than the kernel's own build configuration set the value."""
    return origin.set_by is not None and origin.set_by.source != "kernel-build"


def _of_software_disk(origin: Origin) -> bool:
    """Return whether the knob belongs to the queue of a loop, RAM or optical device, which nobody tunes."""
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
    """Return a few lines about the machine, without unknown values."""

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
        "phone": joined(
            text("phone.model"),
            text("phone.soc"),
            text("phone.kernel", "{} kernel"),
            text("phone.root", "root by {}"),
            text("phone.selinux", "SELinux {}"),
        ),
        "disks": joined(*(f"{disk.get('name')} ({disk.get('scheduler') or 'no scheduler'})" for disk in disks)),
    }
    return tuple((label, line) for label, line in lines.items() if line)
