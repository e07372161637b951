# SPDX-License-Identifier: Apache-2.0
"""Find confounders: current conditions that may explain a difference between two measurements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.machine.reading import Reading
from ktrial.tuning.doctor.model import Confounder

Readings = Mapping[str, Reading | None]

CONFOUNDER_FILES = ("/proc/loadavg", "/proc/stat", "/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io")
HOT_C = 75.0
"""Near this zone temperature many machines lower their clocks."""
STEAL_SHARE = 0.005
LOAD_SHARE = 0.1
PRESSURE_PERCENT = 1.0
SETTLED_AFTER_S = 300.0
LOW_BATTERY_PERCENT = 30
SCARCE_MEMORY_SHARE = 0.1
_STEADY_GOVERNORS = frozenset(("performance",))
_STEADY_CLOCKS = frozenset(("tsc", "arch_sys_counter", "kvm-clock"))


def confounders(facts: FactBook, readings: Readings) -> Iterator[Confounder]:
    """Yield all confounders that are present; unknown values yield none."""
    for look in (_power, _heat, _clock, _steal, _load, _memory, _others, _phone, _uptime):
        yield from look(facts, readings)


def load_now(machine: Machine) -> tuple[Confounder, ...]:
    """Return the load and pressure that would disturb a measurement started now."""
    return tuple(_load(machine.facts(("cpu.threads",)), machine.read(CONFOUNDER_FILES)))


def _power(facts: FactBook, readings: Readings) -> Iterator[Confounder]:
    if facts.value("power.source") == "battery":
        level = facts.value("battery.level")
        charge = f", {level} % left" if level is not None else ""
        advice = "plug in the charger: clocks and power limits differ on battery"
        yield _disturbs("battery", f"runs on battery{charge}", advice)
    elif (level := facts.value("battery.level")) is not None and level < LOW_BATTERY_PERCENT:
        yield _may_disturb(
            "battery", f"battery at {level} %: charging shares the power limit", "measure when the battery is charged"
        )


def _heat(facts: FactBook, readings: Readings) -> Iterator[Confounder]:
    zones = [zone for zone in facts.records("thermal.zones") if isinstance(zone.get("temperature_c"), int | float)]
    hottest = max(zones, key=lambda zone: float(zone["temperature_c"]), default=None)
    if hottest is not None and hottest["temperature_c"] >= HOT_C:
        yield _disturbs(
            "heat",
            f"{hottest.get('kind') or hottest.get('name')} is at {hottest['temperature_c']:.0f} °C",
            "let the machine cool down to the same temperature before each run",
        )


def _clock(facts: FactBook, readings: Readings) -> Iterator[Confounder]:
    governor = facts.value("cpufreq.governor")
    if governor is not None and governor not in _STEADY_GOVERNORS:
        yield _may_disturb(
            "governor",
            f"cpufreq governor {governor}: clocks follow the load",
            "compare under one governor; the profile `quiet` sets performance",
        )
    if facts.value("cpufreq.boost") is True:
        yield _may_disturb(
            "boost",
            "boost is enabled: clocks drop with heat and with busy neighbouring cores",
            "apply the profile `quiet`, which disables boost if the driver can",
        )
    clocksource = facts.value("kernel.clocksource")
    if clocksource is not None and clocksource not in _STEADY_CLOCKS:
        yield _may_disturb(
            "clocksource",
            f"clocksource {clocksource}: reading the time is slow",
            "find out why the kernel gave up tsc: dmesg | grep -i tsc",
        )


def _phone(facts: FactBook, readings: Readings) -> Iterator[Confounder]:
    if facts.value("phone.low_power") is True:
        yield _disturbs("battery saver", "battery saver is on: it lowers clocks", "turn battery saver off")
    status = facts.value("phone.thermal_status")
    if isinstance(status, int) and status > 0:
        yield _disturbs(
            "heat", f"Android limits clocks because of heat (status {status} of 6)", "let the phone cool down"
        )
    if facts.value("phone.screen") == "off":
        yield _may_disturb(
            "screen", "the screen is off: the phone may sleep", "keep the screen on (Stay awake in developer options)"
        )
    services = facts.value("phone.services")
    if services:
        yield _may_disturb(
            "services",
            f"{', '.join(services)}: may change clocks, governors and limits during a run",
            "stop a service as root if it writes your settings, which a trial reads back after each run",
        )


def _steal(facts: FactBook, readings: Readings) -> Iterator[Confounder]:
    """Yield the CPU time that the hypervisor gave to other guests, and the fact that this machine is a guest."""
    text = _text(readings, "/proc/stat")
    found = re.match(r"cpu\s+(.*)", text) if text else None
    ticks = [int(word) for word in found[1].split() if word.isdigit()] if found else []
    if len(ticks) >= 8 and sum(ticks[:8]) > 0 and ticks[7] / sum(ticks[:8]) > STEAL_SHARE:
        yield _disturbs(
            "steal",
            f"{ticks[7] / sum(ticks[:8]):.1%} of CPU time since boot went to other guests",
            "measure on a dedicated host, or in a trial, which alternates the settings",
        )
    virtual = facts.value("virtualisation.kind")
    if virtual not in (None, "none"):
        yield _may_disturb(
            "guest",
            f"a {virtual} guest: the host's load and scheduler are part of every number",
            "repeat the measurement on bare metal before you claim more than an effect in this guest",
        )


def _load(facts: FactBook, readings: Readings) -> Iterator[Confounder]:
    text = _text(readings, "/proc/loadavg")
    threads = facts.value("cpu.threads")
    load = re.match(r"\d+\.\d+", text) if text else None
    if load is not None and isinstance(threads, int) and float(load[0]) > max(LOAD_SHARE * threads, 0.5):
        yield _disturbs(
            "load",
            f"load {load[0]} on {threads} threads",
            "stop background work (indexing, updates, browsers) and wait a minute",
        )
    for kind in ("cpu", "memory", "io"):
        pressure = _text(readings, f"/proc/pressure/{kind}")
        some = re.search(r"some avg10=(\d+\.\d+)", pressure) if pressure else None
        if some is not None and float(some[1]) > PRESSURE_PERCENT:
            yield _disturbs(
                f"{kind} pressure",
                f"tasks waited for {kind} {float(some[1]):.1f} % of the last 10 s",
                "wait until the machine is idle",
            )


def _memory(facts: FactBook, readings: Readings) -> Iterator[Confounder]:
    total, available, used = (facts.value(name) for name in ("memory.total", "memory.available", "swap.used"))
    if isinstance(total, int) and isinstance(available, int) and available < total * SCARCE_MEMORY_SHARE:
        yield _disturbs(
            "memory",
            f"only {available / total:.0%} of memory is available",
            "close programs: otherwise memory reclaim is part of every run",
        )
    if isinstance(used, int) and isinstance(total, int) and used > total // 100:
        yield _may_disturb(
            "swap",
            f"{used / (1 << 20):.0f} MiB are swapped out: the first run that touches them is slowed down",
            "run `swapoff -a && swapon -a` before measuring",
        )


def _others(facts: FactBook, readings: Readings) -> Iterator[Confounder]:
    """Yield other programs that tune the machine, and schedulers loaded from user space."""
    services = facts.value("services.active")
    if isinstance(services, list | tuple) and services:
        yield _disturbs(
            "other tuners",
            f"running: {', '.join(map(str, services))}",
            "run either all measurements or none with these services, which may change knobs",
        )
    if facts.value("kernel.sched_ext_state") == "enabled":
        name = facts.value("kernel.sched_ext_name") or "a scheduler"
        yield _disturbs(
            "sched_ext",
            f"{name} replaces the kernel's own scheduler",
            "stop this scheduler to measure the kernel's own, whose knobs have no effect now",
        )


def _uptime(facts: FactBook, readings: Readings) -> Iterator[Confounder]:
    uptime_s = facts.value("boot.uptime")
    if isinstance(uptime_s, int | float) and uptime_s < SETTLED_AFTER_S:
        yield _may_disturb(
            "uptime",
            f"started {uptime_s:.0f} s ago: services are still settling",
            f"wait until {SETTLED_AFTER_S / 60:.0f} minutes after boot",
        )


def _text(readings: Readings, path: str) -> str | None:
    reading = readings.get(path)
    return None if reading is None else reading.text


def _disturbs(name: str, found: str, advice: str) -> Confounder:
    return Confounder(name=name, weight="disturbs", found=found, advice=advice)


def _may_disturb(name: str, found: str, advice: str) -> Confounder:
    return Confounder(name=name, weight="may-disturb", found=found, advice=advice)
