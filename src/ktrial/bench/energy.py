# SPDX-License-Identifier: Apache-2.0
"""Energy counters (RAPL, hwmon, batteries): joules and watts from two readings and the time between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from ktrial.bench.outcomes import outcome
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement, Outcome
from ktrial.kit.units import show_seconds

RAPL = "/sys/class/powercap/*/energy_uj"
BATTERY = "/sys/class/power_supply/*/status"
#: All files from which ktrial computes energy.
PATTERNS = (
    RAPL,
    "/sys/class/powercap/*/name",
    "/sys/class/powercap/*/max_energy_range_uj",
    "/sys/class/hwmon/hwmon*/energy*_input",
    "/sys/class/hwmon/hwmon*/energy*_label",
    "/sys/class/hwmon/hwmon*/name",
    BATTERY,
    "/sys/class/power_supply/*/type",
    "/sys/class/power_supply/*/scope",
    "/sys/class/power_supply/*/energy_now",
    "/sys/class/power_supply/*/charge_now",
    "/sys/class/power_supply/*/voltage_now",
)
#: Files that show the power of one instant only.
INSTANTS = (
    "/sys/class/hwmon/hwmon*/power*_input",
    "/sys/class/hwmon/hwmon*/power*_average",
    "/sys/class/power_supply/*/power_now",
)
#: No RAPL domain draws more; together with a counter's range this gives the time after which it may have wrapped twice.
MOST_WATTS = 600.0
_JOULES_PER_WH = 3600.0
_HIGH = 1e9
_LONGER = "measure for more time"

#: The content of each file; None if it could not be read.
Look = Mapping[str, str | None]
CounterKind = Literal["rapl", "hwmon", "battery-energy", "battery-charge"]


class EnergyCounter(msgspec.Struct, frozen=True, kw_only=True):
    """The counter of a domain such as `package-0`; a RAPL counter wraps at `range_uj`."""

    domain: str
    kind: CounterKind
    path: str
    range_uj: int | None = None

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def files(self) -> tuple[str, ...]:
        if self.kind in {"rapl", "hwmon"}:
            return (self.path,)
        voltage = (f"{self.folder}/voltage_now",) if self.kind == "battery-charge" else ()
        return (self.path, f"{self.folder}/status", *voltage)


class Consumed(NamedTuple):
    """The energy used between two readings, and the counter values as text."""

    joules: float
    original: str


def counters(files: Look) -> tuple[EnergyCounter, ...]:
    found: dict[str, EnergyCounter] = {}
    for counter in (*_rapl(files), *_hwmon(files), *_batteries(files)):
        found.setdefault(counter.domain, counter)
    return tuple(found.values())


def consumed(counter: EnergyCounter, before: Look, after: Look, seconds: float) -> Consumed:
    """Return the energy used between two readings. Raise BadRun if the energy is unknown."""
    first, last = _number(counter.path, before), _number(counter.path, after)
    if counter.kind in {"battery-energy", "battery-charge"}:
        return _discharged(counter, first, last, before, after)
    original = f"{first} to {last} uJ"
    if last == first:
        raise BadRun(f"the counter did not move in {show_seconds(seconds)}", hint=_LONGER)
    if counter.range_uj is not None:
        if seconds * MOST_WATTS * 1e6 >= counter.range_uj:
            raise BadRun(
                f"the counter may have wrapped more than once in {seconds:.0f} s", hint="measure for less time"
            )
        if last < first:
            last += counter.range_uj
            original += f" (wraps at {counter.range_uj})"
    if last < first:
        raise BadRun(f"the counter went backwards, from {original}", hint="run the benchmark again")
    return Consumed((last - first) / 1e6, original)


def measurements(counter: EnergyCounter, used: Consumed, seconds: float) -> tuple[tuple[Measurement, Outcome], ...]:
    """Return the domain's joules and mean watts, each with its outcome."""
    energy, power = outcomes(counter.domain)
    said = f"{used.original} in {seconds:.6f} s"
    return (
        (Measurement(outcome=energy.name, value=used.joules, original=used.original), energy),
        (Measurement(outcome=power.name, value=used.joules / seconds, original=said), power),
    )


def outcomes(domain: str) -> tuple[Outcome, Outcome]:
    blind = "Covers the whole domain, whatever ran in it, from directly before the run to directly after it."
    within = (0.0, _HIGH)
    used, drew = f"A run used [less|more] energy in {domain}.", f"{domain} drew [less|more] power on average."
    faster = f"{blind} A faster run may draw more power and still use less energy."
    energy = outcome(f"energy.{domain}", "J", "energy", used, blind, within)
    return energy, outcome(f"power.{domain}", "W", "power", drew, faster, within)


def _discharged(counter: EnergyCounter, first: int, last: int, before: Look, after: Look) -> Consumed:
    for look in (before, after):
        status = look.get(f"{counter.folder}/status")
        if status != "Discharging":
            raise BadRun(f"the battery is not discharging ({status or 'no status'})", hint="unplug the charger")
    if last == first:
        raise BadRun("the battery's counter did not move", hint=_LONGER)
    if last > first:
        raise BadRun(f"the battery's counter went up, from {first} to {last}", hint="unplug the charger")
    micro = first - last
    if counter.kind == "battery-energy":
        return Consumed(micro / 1e6 * _JOULES_PER_WH, f"{first} to {last} uWh")
    path = f"{counter.folder}/voltage_now"
    volts = (_number(path, before) + _number(path, after)) / 2e6
    return Consumed(micro / 1e6 * volts * _JOULES_PER_WH, f"{first} to {last} uAh at {volts:.3f} V")


def _rapl(files: Look) -> list[EnergyCounter]:
    """Return RAPL counters; memory-mapped zones come last, because they repeat the counters of other zones."""
    zones = [path for path in files if path.startswith("/sys/class/powercap/") and path.endswith("/energy_uj")]
    found = []
    for path in sorted(zones, key=lambda path: "mmio" in path):
        folder = path.rpartition("/")[0]
        name = files.get(f"{folder}/name")
        top, colon, _ = folder.rpartition(":")
        parent = files.get(f"{top}/name") if colon and top.count(":") else None
        range_uj = _parse_count(files.get(f"{folder}/max_energy_range_uj"))
        if name:
            domain = _plain(f"{parent}-{name}" if parent else name)
            found.append(EnergyCounter(domain=domain, kind="rapl", path=path, range_uj=range_uj))
    return found


def _hwmon(files: Look) -> list[EnergyCounter]:
    """Return the energy counters of hwmon chips, without the counters of single cores."""
    found = []
    for path in files:
        match = re.fullmatch(r"(/sys/class/hwmon/[^/]+)/energy(\d+)_input", path)
        if match is None:
            continue
        label = files.get(f"{match[1]}/energy{match[2]}_label")
        chip = files.get(f"{match[1]}/name")
        if chip and not (label or "").startswith("Ecore"):
            domain = _plain(f"{chip}-{label or match[2]}")
            found.append(EnergyCounter(domain=domain, kind="hwmon", path=path))
    return found


def _batteries(files: Look) -> list[EnergyCounter]:
    """Return the machine's own batteries, without batteries of mice and headsets."""
    found = []
    for path in files:
        folder, _, name = path.rpartition("/")
        if not folder.startswith("/sys/class/power_supply/") or name != "status":
            continue
        if files.get(f"{folder}/type") != "Battery" or files.get(f"{folder}/scope") == "Device":
            continue
        kinds: tuple[tuple[str, CounterKind], ...] = (
            ("energy_now", "battery-energy"),
            ("charge_now", "battery-charge"),
        )
        for file, kind in kinds:
            if f"{folder}/{file}" in files:
                domain = _plain(f"battery-{folder.rpartition('/')[2]}")
                found.append(EnergyCounter(domain=domain, kind=kind, path=f"{folder}/{file}"))
                break
    return found


def _number(path: str, look: Look) -> int:
    text = look.get(path)
    if text is None:
        raise BadRun(f"cannot read {path}", hint="start ktrial with sudo: the file may need root")
    number = _parse_count(text)
    if number is None:
        raise BadRun(f"expected a number in {path}, got {text[:40]!r}", hint="run the benchmark again")
    return number


def _parse_count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 25 else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
