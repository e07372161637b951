# SPDX-License-Identifier: Apache-2.0
"""From samples to what gates judge. The figures are worked out by hand from the documents of proc(5) and zram."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.gate_readings import FACTS, PHONE_READINGS, Thermometers, others_share, readings_at, readings_during
from ktrial.machine.gates import ABSENT, GATES, GENERATOR_BUSY, judge_groups
from ktrial.machine.kernel_log import KernelLine, KernelLogDelta
from ktrial.machine.sensors import Samples, Sensor, summarise
from tests.support.samples import LEVEL, NARROW, TICKS, document, samples

BYTES = Sensor(unit="B", per_unit=1, kind="level")
COUNT = Sensor(unit="count", per_unit=1, kind="level")
LOAD = Sensor(unit="count", per_unit=100, kind="level")
NOTHING = FactBook({})
HEAT = {"temperature.cpu": LEVEL, "temperature.nvme": LEVEL}
ABSENT_SOURCES = {"temperature": "none", "zram": "no zram device", "throttle": "no thermal_throttle"}


def at(columns: dict[str, Any], units: dict[str, Sensor], absent: dict[str, str] | None = None) -> dict[str, Any]:
    found = msgspec.convert(document(columns, units, absent=absent or {}), Samples)
    return dict(readings_at(found, NOTHING, "/home"))


def test_the_last_sample_counts() -> None:
    told = at(
        {
            "temperature.cpu": [70_000, 45_000],
            "temperature.nvme": [41_000, 51_500],
            "load.1min": [10, 225],
            "uptime.since_boot": [100, 200],
        },
        {**HEAT, "load.1min": LOAD, "uptime.since_boot": LOAD},
    )
    assert (told["temperature_c"], told["load"], told["uptime_s"]) == (51.5, 2.25, 2.0)


def test_high_orders_are_counted_in_pages() -> None:
    names = {f"fragmentation.free_blocks_order_{order}": COUNT for order in (0, 3, 4, 10)}
    columns = dict(zip(names, ([1000], [1000], [3], [2]), strict=True))
    # 3 blocks of 16 pages and 2 of 1024.
    assert at(columns, names)["free_high_order_pages"] == 3 * 16 + 2 * 1024
    assert at({**columns, "fragmentation.free_blocks_order_10": [None]}, names)["free_high_order_pages"] is None


@pytest.mark.parametrize(
    "total, free, used", [(2**30, 2**29, 2**29), (2**30, 2**30, 0), (0, 0, ABSENT), (None, 5, None), (5, 9, None)]
)
def test_swap(total: int | None, free: int | None, used: object) -> None:
    names = {"memory.SwapTotal": BYTES, "memory.SwapFree": BYTES}
    assert at({"memory.SwapTotal": [total], "memory.SwapFree": [free]}, names)["swap_used_bytes"] == used


@pytest.mark.parametrize(
    "devices, fill",
    [
        ([(2**30, 2**28)], 0.25),
        ([(2**30, 2**28), (2**20, 2**19)], 0.5),
        ([(0, 0)], ABSENT),
        ([(2**30, None)], None),
        ([(None, 1)], None),
        ([(2**30, 0)], 0.0),
    ],
)
def test_zram_is_as_full_as_its_fullest_device(devices: list[tuple[int | None, int | None]], fill: object) -> None:
    columns: dict[str, Any] = {}
    for number, (size, data) in enumerate(devices):
        columns |= {f"zram.zram{number}.disk": [size], f"zram.zram{number}.data": [data]}
    assert at(columns, dict.fromkeys(columns, BYTES))["zram_fill"] == fill


def test_what_is_absent_is_not_what_cannot_be_read() -> None:
    absent, silent = at({}, {}, ABSENT_SOURCES), at({}, {})
    assert (absent["temperature_c"], absent["zram_fill"]) == (ABSENT, ABSENT)
    assert (silent["temperature_c"], silent["zram_fill"], silent["load"]) == (None, None, None)
    during = [readings_during(samples({}, {}), {}, None, 0.0), readings_during(None, {}, None, None)]
    assert [one["throttled_share"] for one in during] == [None, None]
    lost = readings_at(None, NOTHING, "/", others=None)
    assert set(lost.values()) == {None}


def test_what_others_used_is_a_share_of_all_cpu_time() -> None:
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    units = {f"cpu.{name}": TICKS for name in names}

    def row(*ticks: int | None) -> Samples:
        return samples(dict(zip(units, ([tick] for tick in ticks), strict=True)), units)

    before, after = row(10, 0, 5, 100, 9, 1, 1, 0), row(30, 0, 15, 270, 9, 1, 1, 0)
    assert others_share(before, after) == pytest.approx(30 / 200)
    assert others_share(before, row(10, 0, 5, 200, 109, 1, 1, 300)) == 0.0, "waiting and steal are no use of a CPU"
    assert others_share(before, before) is None, "no tick passed"
    assert others_share(before, row(10, 0, 5, None, 9, 1, 1, 0)) is None
    assert others_share(before, row(9, 0, 5, 300, 9, 1, 1, 0)) is None, "a counter that fell tells nothing"
    assert others_share(None, after) is None


def test_sensors_are_compared_that_were_there_at_first() -> None:
    first = samples({"temperature.cpu": [45_000], "temperature.nvme": [41_000]}, HEAT)
    meters = Thermometers.of(first)

    def now(cpu: int | None, nvme: int | None, new: int | None = None) -> object:
        columns = {"temperature.cpu": [cpu], "temperature.nvme": [nvme], "temperature.new": [new]}
        found = samples(columns, {**HEAT, "temperature.new": LEVEL})
        return readings_at(found, NOTHING, "/", meters)["temperature_c"]

    assert now(46_000, 47_000) == 47.0
    assert now(46_000, None) == 46.0, "a cooler sensor that is silent changes nothing"
    assert now(None, 41_000) is None, "the rest says nothing on the hottest one"
    assert now(46_000, 41_000, 90_000) == 46.0, "one that appeared has nothing to be compared with"


def test_facts() -> None:
    book = FactBook(
        {
            "power.source": Fact(value="battery"),
            "battery.level": Fact(value=80),
            "cpufreq.governor": Fact(absent="no cpufreq"),
            "filesystems": Fact(
                value=[
                    {"mount": "/", "size_bytes": 100, "used_bytes": 50},
                    {"mount": "/home", "size_bytes": 100, "used_bytes": 95},
                    {"mount": "/homes", "size_bytes": 100, "used_bytes": 1},
                    {"mount": "/null", "size_bytes": None, "used_bytes": None},
                ]
            ),
        }
    )
    told = readings_at(None, book, "/home/me")
    assert (told["power_source"], told["battery_percent"], told["governor"]) == ("battery", 80.0, ABSENT)
    assert told["disk_full"] == 0.95
    assert readings_at(None, book, "/homestead")["disk_full"] == 0.5
    assert readings_at(None, book, "/null/x")["disk_full"] is None
    unknown = FactBook(dict.fromkeys(FACTS, Fact(unknown="no")))
    assert set(readings_at(None, unknown, "/", others=None).values()) == {None}


def during(columns: dict[str, list[int | None]], sensor: Sensor, log: KernelLogDelta | None = None) -> dict[str, Any]:
    found = samples(columns, dict.fromkeys(columns, sensor))
    return dict(readings_during(found, summarise(found), log, 0.0))


def test_stolen_time_is_a_share_of_all_time() -> None:
    # 100 ticks pass, 5 of them stolen; the ticks of guests are within `user`.
    told = during({"cpu.user": [0, 80], "cpu.idle": [7, 22], "cpu.steal": [3, 8], "cpu.guest": [0, 50]}, TICKS)
    assert told["steal_share"] == pytest.approx(0.05)
    assert during({"cpu.user": [5, 5], "cpu.steal": [3, 3]}, TICKS)["steal_share"] is None, "no tick passed"
    assert during({"cpu.user": [0, 80]}, TICKS)["steal_share"] is None


def test_throttling_is_a_share_of_the_time_between_samples() -> None:
    told = during({"throttle.cpu0.core_count": [1, 1, 2, 2, 3], "throttle.cpu1.core_count": [0, 0, 5, 5, 5]}, NARROW)
    assert told["throttled_share"] == 0.5
    assert during({"throttle.cpu0.core_count": [1, 1]}, NARROW)["throttled_share"] == 0.0
    assert during({"throttle.cpu0.core_count": [1, None]}, NARROW)["throttled_share"] is None


def test_the_clock_is_the_mean_of_all_policies_over_the_run() -> None:
    clocks: dict[str, list[int | None]] = {
        "frequency.policy0": [2 * 10**9, 4 * 10**9],
        "frequency.policy1": [10**9, 10**9],
    }
    assert during(clocks, Sensor(unit="Hz", per_unit=1, kind="level"))["frequency_hz"] == 2e9
    assert during({"frequency.policy0": [None, None]}, LEVEL)["frequency_hz"] is None
    gone = msgspec.convert(document({}, {}, absent={"frequency": "no cpufreq", "pressure": "no PSI"}), Samples)
    told = readings_during(gone, {}, None, 0.0)
    assert (told["frequency_hz"], told["pressure_io_share"]) == (ABSENT, ABSENT)


def test_pressure_is_the_share_of_time_that_a_task_waited() -> None:
    # One sample a second; a task waited 0.25 s and then 0.75 s.
    told = during({"pressure.memory.some": [0, 250_000, 1_000_000]}, Sensor(unit="s", per_unit=10**6, kind="counter"))
    assert told["pressure_memory_share"] == pytest.approx(0.5)
    assert told["pressure_cpu_share"] is None


def test_warnings_are_counted_where_the_log_could_be_read() -> None:
    line = KernelLine("warning", 1, 1, "x")
    assert during({}, TICKS, KernelLogDelta(lines=(line, line)))["kernel_warnings"] == 2.0
    assert during({}, TICKS, KernelLogDelta())["kernel_warnings"] == 0.0
    assert during({}, TICKS, KernelLogDelta(could_not_tell="no"))["kernel_warnings"] is None
    assert during({}, TICKS, KernelLogDelta(lines=(line,), could_not_tell="overwritten"))["kernel_warnings"] == 1.0


def test_every_gate_has_its_reading() -> None:
    phone = FactBook(dict.fromkeys(PHONE_READINGS.values(), Fact(unknown="refused")))
    told = {**readings_at(samples({}, {}), phone, "/"), **readings_during(None, {}, None, None)}
    # That one comes from another machine.
    assert {gate.reading for gate in GATES.values()} - {GENERATOR_BUSY} <= told.keys()


def test_a_phone_tells_more_and_others_tell_nothing_of_it() -> None:
    facts = {"phone.screen": "on", "phone.low_power": False, "phone.skin_temperature": 31.4, "phone.thermal_status": 0}
    book = FactBook({name: Fact(value=value) for name, value in facts.items()})
    told = readings_at(None, book, "/")
    assert {name: told[name] for name in PHONE_READINGS} == {
        "screen": "on",
        "battery_saver": "off",
        "skin_c": 31.4,
        "thermal_status": 0.0,
    }
    assert not set(PHONE_READINGS) & readings_at(None, NOTHING, "/").keys()


CELL = st.none() | st.integers(0, 2**40)
NAMES = (
    *("temperature.x", "zram.zram0.disk", "zram.zram0.data", "memory.SwapTotal", "memory.SwapFree", "load.1min"),
    *("cpu.user", "cpu.steal", "throttle.cpu0.core_count", "uptime.since_boot", "fragmentation.free_blocks_order_9"),
)


@given(st.dictionaries(st.sampled_from(NAMES), st.lists(CELL, min_size=2, max_size=2)))
def test_gates_take_whatever_was_read(columns: dict[str, list[int | None]]) -> None:
    found = samples(columns, {name: TICKS if name.startswith("cpu.") else COUNT for name in columns})
    run = {**readings_at(found, NOTHING, "/"), **readings_during(found, summarise(found), None, 0.0)}
    judge_groups({"a": [run], "b": [run]})
