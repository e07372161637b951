# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.bench.energy import EnergyCounter, consumed, counters, measurements, outcomes
from ktrial.kit.errors import BadRun

PACKAGE = "/sys/class/powercap/intel-rapl:0"
BATTERY = "/sys/class/power_supply/BAT0"
RAPL = EnergyCounter(domain="package-0", kind="rapl", path=f"{PACKAGE}/energy_uj", range_uj=262_143_328_850)


def zone(folder: str, name: str) -> dict[str, str | None]:
    return {f"{folder}/name": name, f"{folder}/energy_uj": "5", f"{folder}/max_energy_range_uj": "262143328850"}


def test_zones_are_named_after_their_package_and_counted_once() -> None:
    files = {
        **zone("/sys/class/powercap/intel-rapl-mmio:0", "package-0"),
        **zone(PACKAGE, "package-0"),
        **zone(f"{PACKAGE}:0", "core"),
        **zone(f"{PACKAGE}:1", "dram"),
        **zone("/sys/class/powercap/intel-rapl:1", "psys"),
    }
    found = counters(files)
    assert [counter.domain for counter in found] == ["package-0", "package-0-core", "package-0-dram", "psys"]
    assert found[0] == RAPL


def test_hwmon_and_batteries() -> None:
    files: dict[str, str | None] = {
        "/sys/class/hwmon/hwmon3/name": "amd_energy",
        "/sys/class/hwmon/hwmon3/energy1_input": "1",
        "/sys/class/hwmon/hwmon3/energy1_label": "Ecore000",
        "/sys/class/hwmon/hwmon3/energy9_input": "1",
        "/sys/class/hwmon/hwmon3/energy9_label": "Esocket0",
        f"{BATTERY}/type": "Battery",
        f"{BATTERY}/status": "Discharging",
        f"{BATTERY}/charge_now": "1",
        f"{BATTERY}/voltage_now": "1",
        "/sys/class/power_supply/mouse/type": "Battery",
        "/sys/class/power_supply/mouse/scope": "Device",
        "/sys/class/power_supply/mouse/status": "Discharging",
        "/sys/class/power_supply/mouse/energy_now": "1",
        "/sys/class/power_supply/AC/type": "Mains",
    }
    assert [(counter.domain, counter.kind) for counter in counters(files)] == [
        ("amd-energy-esocket0", "hwmon"),
        ("battery-bat0", "battery-charge"),
    ]


def test_joules_and_mean_watts() -> None:
    used = consumed(RAPL, {RAPL.path: "1000000"}, {RAPL.path: "51000000"}, 10.0)
    (energy, _), (power, _) = measurements(RAPL, used, 10.0)
    assert (energy.outcome, energy.value, energy.original) == ("energy.package-0", 50.0, "1000000 to 51000000 uJ")
    assert (power.outcome, power.value) == ("power.package-0", 5.0)


def test_a_counter_that_begins_anew() -> None:
    used = consumed(RAPL, {RAPL.path: "262143000000"}, {RAPL.path: "9671150"}, 10.0)
    assert used.joules == pytest.approx(10.0, abs=1e-6)
    assert "wraps at 262143328850" in used.original


@given(first=st.integers(0, 262_143_328_849), step=st.integers(1, 10_000_000_000))
def test_what_was_added_comes_out_wherever_the_counter_stood(first: int, step: int) -> None:
    last = (first + step) % 262_143_328_850
    assert consumed(RAPL, {RAPL.path: str(first)}, {RAPL.path: str(last)}, 60).joules == step / 1e6


@pytest.mark.parametrize(
    "before, after, seconds, why",
    [
        ("5", "5", 0.0005, "did not move in 500 us"),
        ("5", "6", 500.0, "more than once in 500 s"),
        (None, "6", 1.0, "cannot read "),
        ("5", None, 1.0, "cannot read "),
        ("5", "x", 1.0, "expected a number in .*, got 'x'"),
        ("-5", "1", 1.0, "expected a number in .*, got '-5'"),
    ],
)
def test_what_does_not_tell_is_no_zero(before: str | None, after: str | None, seconds: float, why: str) -> None:
    with pytest.raises(BadRun, match=why):
        consumed(RAPL, {RAPL.path: before}, {RAPL.path: after}, seconds)


def test_a_counter_without_a_range_does_not_go_backwards() -> None:
    counter = EnergyCounter(domain="x", kind="hwmon", path="/sys/class/hwmon/hwmon0/energy1_input")
    with pytest.raises(BadRun, match="went backwards"):
        consumed(counter, {counter.path: "7"}, {counter.path: "5"}, 1.0)


def battery(now: int, status: str = "Discharging", **more: str) -> dict[str, str | None]:
    return {
        f"{BATTERY}/energy_now": str(now),
        f"{BATTERY}/status": status,
        **{f"{BATTERY}/{k}": v for k, v in more.items()},
    }


def test_a_battery_tells_watt_hours_or_ampere_hours() -> None:
    energy = EnergyCounter(domain="b", kind="battery-energy", path=f"{BATTERY}/energy_now")
    assert consumed(energy, battery(50_000_000), battery(49_990_000), 60).joules == pytest.approx(36.0)
    charge = EnergyCounter(domain="b", kind="battery-charge", path=f"{BATTERY}/energy_now")
    looks = battery(4_000_000, voltage_now="12000000"), battery(3_999_000, voltage_now="11000000")
    assert consumed(charge, *looks, 60).joules == pytest.approx(0.001 * 11.5 * 3600)


@pytest.mark.parametrize(
    "before, after, why",
    [
        (battery(5), battery(5), "did not move"),
        (battery(5), battery(6), "went up"),
        (battery(6, "Full"), battery(5), r"not discharging \(Full\)"),
        (battery(6), battery(5, "Charging"), r"not discharging \(Charging\)"),
    ],
)
def test_a_battery_counts_only_while_it_discharges(
    before: dict[str, str | None], after: dict[str, str | None], why: str
) -> None:
    counter = EnergyCounter(domain="b", kind="battery-energy", path=f"{BATTERY}/energy_now")
    with pytest.raises(BadRun, match=why):
        consumed(counter, before, after, 60)


def test_its_outcomes_are_declared_like_others() -> None:
    for outcome in outcomes("psys"):
        assert outcome.direction == "lower"
        assert all(text.endswith(".") for text in (outcome.better, outcome.worse, outcome.blind_spots))
