# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput, UnknownName
from ktrial.machine.gates import (
    ABSENT,
    DEFAULTS,
    GATES,
    LOAD_GENERATOR,
    OF_PHONES,
    GateFinding,
    GateLimits,
    Readings,
    judge_groups,
    judge_start,
    limit_text,
    parse_gates,
    why_void,
)

GOOD: Readings = {
    "temperature_c": 45.0,
    "power_source": "mains",
    "battery_percent": ABSENT,
    "governor": "performance",
    "uptime_s": 1000.0,
    "free_high_order_pages": 500.0,
    "swap_used_bytes": 0.0,
    "zram_fill": 0.1,
    "disk_full": 0.5,
    "others_share": 0.02,
    "steal_share": 0.0,
    "throttled_share": 0.0,
    "kernel_warnings": 0.0,
}
RANK = {None: 0, "suspect": 1, "refuse": 2}
FINITE = st.floats(0, 1e9, allow_nan=False)
READINGS = st.fixed_dictionaries(
    {
        "temperature_c": st.one_of(st.none(), st.floats(-30, 120)),
        "power_source": st.sampled_from([None, "mains", "battery"]),
        "battery_percent": st.one_of(st.none(), st.just(ABSENT), st.floats(0, 100)),
        "governor": st.sampled_from([None, "performance", "powersave", ABSENT]),
        "uptime_s": st.one_of(st.none(), FINITE),
        "free_high_order_pages": st.one_of(st.none(), FINITE),
        "swap_used_bytes": st.one_of(st.none(), FINITE),
        "others_share": st.one_of(st.none(), st.just(ABSENT), st.floats(0, 1)),
        "steal_share": st.one_of(st.none(), st.floats(0, 1)),
        "throttled_share": st.one_of(st.none(), st.floats(0, 1)),
    }
)
GROUPS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.lists(READINGS, max_size=3), min_size=1)


def of(
    gate: str, *groups: Sequence[Mapping[str, Any]], limits: Mapping[str, GateLimits] = DEFAULTS
) -> GateFinding | None:
    """The finding of one gate on groups a, b, … whose readings are GOOD but for these."""
    named = {name: [{**GOOD, **run} for run in runs] for name, runs in zip("abc", groups, strict=False)}
    found = [one for one in judge_groups(named, limits) if one.gate == gate]
    assert len(found) <= 1
    return found[0] if found else None


def level(gate: str, reading: str, left: object, right: object) -> str | None:
    found = of(gate, [{reading: left}], [{reading: right}])
    return found.level if found else None


def test_good_conditions_pass() -> None:
    assert judge_groups({"a": [GOOD, GOOD], "b": [GOOD]}) == ()


@pytest.mark.parametrize(
    "gate, reading, left, right, wanted",
    [
        ("start_temperature", "temperature_c", 45.0, 50.0, None),
        ("start_temperature", "temperature_c", 45.1, 50.1, None),
        ("start_temperature", "temperature_c", 45.0, 50.1, "suspect"),
        ("start_temperature", "temperature_c", 45.0, 53.0, "suspect"),
        ("start_temperature", "temperature_c", 53.1, 45.0, "refuse"),
        ("battery", "battery_percent", 80.0, 70.0, None),
        ("battery", "battery_percent", 80.0, 69.9, "refuse"),
        ("battery", "battery_percent", 80.0, ABSENT, "refuse"),
        ("on_ac", "power_source", "mains", "battery", "refuse"),
        ("governor", "governor", "performance", "schedutil", "suspect"),
        ("uptime", "uptime_s", 1000.0, 4000.0, None),
        ("uptime", "uptime_s", 4001.0, 1000.0, "suspect"),
        ("free_pages", "free_high_order_pages", 500.0, 2001.0, "suspect"),
        ("free_pages", "free_high_order_pages", 0.0, 1.0, "suspect"),
        ("free_pages", "free_high_order_pages", 0.0, 0.0, None),
        ("swap", "swap_used_bytes", 0.0, float(16 << 20), None),
        ("swap", "swap_used_bytes", 0.0, float((16 << 20) + 1), "suspect"),
        ("zram", "zram_fill", 0.1, 0.51, "suspect"),
        ("disk", "disk_full", 0.91, 0.1, "suspect"),
        ("steal", "steal_share", 0.0, 0.02, None),
        ("steal", "steal_share", 0.0, 0.021, "suspect"),
        ("throttling", "throttled_share", 0.0, 0.01, "suspect"),
        ("kernel_log", "kernel_warnings", 1.0, 0.0, "suspect"),
        ("screen", "screen", "on", "off", "refuse"),
        ("battery_saver", "battery_saver", "on", "off", "refuse"),
        ("skin", "skin_c", 30.0, 31.6, "suspect"),
        ("skin", "skin_c", 30.0, 33.1, "refuse"),
        ("thermal_status", "thermal_status", 0.0, 1.0, "suspect"),
        ("load_generator", "generator_busy", 0.8, 0.81, "suspect"),
    ],
)
def test_default_limits(gate: str, reading: str, left: object, right: object, wanted: str | None) -> None:
    assert level(gate, reading, left, right) == wanted


def test_a_finding_says_groups_values_and_limit() -> None:
    found = of("start_temperature", [{"temperature_c": 45.0}, {"temperature_c": 47.0}], [{"temperature_c": 55.0}])
    assert found == GateFinding(
        gate="start_temperature",
        level="refuse",
        groups=("a", "b"),
        values={"a": 46.0, "b": 55.0},
        limit="8.0 °C",
        sentence="temperature at the start: 46.0 °C in a and 55.0 °C in b, 9.0 °C apart (limit 8.0 °C)",
    )


@pytest.mark.parametrize(
    "gate, reading, left, right, limit, sentence",
    [
        (
            "uptime",
            "uptime_s",
            60.0,
            600.0,
            "4x",
            "time since boot: 60 s in a and 600 s in b, 10 times as much (limit 4x)",
        ),
        (
            "free_pages",
            "free_high_order_pages",
            0.0,
            7.0,
            "4x",
            "free high-order pages: 0 in a and 7 in b, all of it in one (limit 4x)",
        ),
        (
            "battery",
            "battery_percent",
            80.0,
            65.0,
            "10 %",
            "battery level: 80 % in a and 65 % in b, 15 points apart (limit 10 %)",
        ),
        ("battery", "battery_percent", 80.0, ABSENT, "10 %", "battery level: none in b, but some in a"),
        (
            "governor",
            "governor",
            "performance",
            "schedutil",
            "same",
            "cpufreq governor differs: performance in a, schedutil in b",
        ),
        ("kernel_log", "kernel_warnings", 0.0, 3.0, "0 %", "warnings of the kernel: runs 0/1 in a, 1/1 in b"),
    ],
)
def test_what_each_rule_says(gate: str, reading: str, left: object, right: object, limit: str, sentence: str) -> None:
    found = of(gate, [{reading: left}], [{reading: right}])
    assert found is not None
    assert (found.groups, found.limit, found.sentence) == (("a", "b"), limit, sentence)


def test_a_gate_without_a_limit_says_so() -> None:
    assert {limit_text(gate, GateLimits()) for gate in GATES.values()} == {"off"}


def test_what_is_known_to_be_absent_or_equal_is_no_doubt_at_any_limit() -> None:
    strict = parse_gates({"others": "0.5%", "uptime": "1.5x"})
    assert of("others", [{"others_share": ABSENT}], limits=strict) is None
    assert of("uptime", [{"uptime_s": 0.0}], [{"uptime_s": 0.0}], limits=strict) is None
    assert of("uptime", [{"uptime_s": 10.0}], [{"uptime_s": 16.0}], limits=strict) is not None


def test_throttling_is_told_with_its_share_and_never_refuses() -> None:
    hot = [{"throttled_share": 0.5}] * 4
    found = of("throttling", hot, hot)
    assert found is not None
    assert (found.level, found.sentence) == ("suspect", "thermally limited: runs 4/4 in a, 4/4 in b")
    assert why_void([found]) == ()


def test_steal_names_the_runs() -> None:
    found = of("steal", [{}, {"steal_share": 0.05}, {}], [{}])
    assert found is not None
    assert found.sentence == "CPU time taken by the hypervisor: up to 5 % in a (1/3 runs) (limit 2 %)"
    assert found.groups == ("a",)


def test_what_others_used_is_a_doubt_and_voids_only_where_that_is_wanted() -> None:
    found = of("others", [{}, {"others_share": 0.45}], [{}])
    assert found is not None
    assert found.sentence == "CPU time that other programs used before the run: up to 45 % in a (1/2 runs) (limit 10 %)"
    busy = {**GOOD, "others_share": 0.45}
    assert [(one.gate, one.level, one.groups) for one in judge_start(GOOD, busy)] == [
        ("others", "suspect", ("this run",))
    ]
    assert judge_start(busy, GOOD) == (), "what others used before the first run is not a matter of this one"
    assert why_void(judge_start(GOOD, busy)) == ()
    assert why_void(judge_start(GOOD, busy, parse_gates({"others": {"refuse": "30%"}}))) != ()


@pytest.mark.parametrize("gate", GATES.values(), ids=lambda gate: gate.name)
def test_what_is_missing_is_told_and_never_zero(gate: Any) -> None:
    for groups in ([[{gate.reading: None}], [{}]], [[{}], [{gate.reading: None}]], [[{gate.reading: None}]] * 2):
        found = of(gate.name, *groups)
        assert found is not None
        assert found.level == "could-not-tell"
        assert (gate.unknown or gate.what) in found.sentence
    empty = judge_groups({"a": [{}]})
    later = {"others", *OF_PHONES, LOAD_GENERATOR}
    assert {one.gate for one in empty} == set(GATES) - later, "records of before these were looked at"
    assert {one.level for one in empty} == {"could-not-tell"}
    assert {one.level for one in judge_groups({"a": []})} == {"could-not-tell"}


def test_what_is_known_is_judged_although_some_is_missing() -> None:
    groups: dict[str, list[Readings]] = {
        "a": [{**GOOD, "temperature_c": None}, GOOD],
        "b": [{**GOOD, "temperature_c": 60.0}],
    }
    found = [one for one in judge_groups(groups) if one.gate == "start_temperature"]
    assert [one.level for one in found] == ["could-not-tell", "refuse"]
    assert found[0].sentence == "temperature at the start is unknown in 1 of 2 runs of a"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "hot"])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(BadInput, match="temperature_c"):
        of("start_temperature", [{"temperature_c": value}], [{}])


@pytest.mark.parametrize(
    "reading, value", [("steal_share", -0.1), ("uptime_s", -1.0), ("governor", 3.0), ("swap_used_bytes", -1)]
)
def test_impossible_readings_are_refused(reading: str, value: float) -> None:
    with pytest.raises(BadInput, match=reading):
        judge_groups({"a": [{reading: value}]})


@given(GROUPS)
def test_the_order_of_groups_does_not_matter(groups: dict[str, list[Readings]]) -> None:
    assert judge_groups(dict(reversed(groups.items()))) == judge_groups(groups)


@given(
    st.sampled_from([gate for gate in GATES.values() if gate.rule in {"distance", "ratio", "above"}]),
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(0, 100),
)
def test_more_distance_never_lowers_the_level(gate: Any, base: float, nearer: float, farther: float) -> None:
    near, far = sorted((nearer, farther))
    levels = [level(gate.name, gate.reading, base, base + more) for more in (near, far)]
    assert RANK[levels[0]] <= RANK[levels[1]]


@given(st.floats(0, 100), st.floats(0, 100), st.floats(-40, 120), st.floats(-40, 120))
def test_a_stricter_limit_never_lowers_the_level(one: float, other: float, left: float, right: float) -> None:
    strict, mild = sorted((one, other))
    levels = []
    for limit in (mild, strict):
        found = of(
            "start_temperature",
            [{"temperature_c": left}],
            [{"temperature_c": right}],
            limits=parse_gates({"start_temperature": limit}),
        )
        levels.append(found.level if found else None)
    assert RANK[levels[0]] <= RANK[levels[1]]


def test_limits_of_a_protocol() -> None:
    limits = parse_gates({"start_temperature": "8C", "on_ac": "same", "governor": "same", "steal": "2%"})
    everywhere = {name: limit for name, limit in DEFAULTS.items() if name != LOAD_GENERATOR}
    assert limits == {name: limit for name, limit in everywhere.items() if name not in OF_PHONES}
    assert parse_gates({}, phone=True) == everywhere
    assert parse_gates({}, phone=True, has_generator=True) == DEFAULTS
    assert parse_gates({LOAD_GENERATOR: "90%"})[LOAD_GENERATOR] == GateLimits(90)
    assert parse_gates({"screen": "same"})["screen"] == GateLimits(same="refuse")
    assert parse_gates({"start_temperature": "3C"})["start_temperature"] == GateLimits(3, 3)
    assert parse_gates({"start_temperature": 12})["start_temperature"] == GateLimits(5, 12)
    assert parse_gates({"steal": {"suspect": "1%", "refuse": "5%"}})["steal"] == GateLimits(1, 5)
    assert parse_gates({"governor": {"refuse": "same"}})["governor"] == GateLimits(same="refuse")
    assert parse_gates({"governor": {"suspect": "same"}})["governor"] == GateLimits(same="suspect")
    assert parse_gates({"on_ac": {"suspect": "same"}})["on_ac"] == GateLimits(same="suspect")
    assert parse_gates({"uptime": "2x", "swap": "1GiB"})["uptime"] == GateLimits(2)
    assert parse_gates({"swap": "1GiB"})["swap"] == GateLimits(1 << 30)
    assert parse_gates({"steal": {"suspect": "5%", "refuse": "5%"}})["steal"] == GateLimits(5, 5)
    for name in ("throttling", "kernel_log"):
        assert parse_gates({name: {"refuse": "50%"}})[name] == GateLimits(None, 50)
    assert parse_gates({"thermal_status": "2"}, phone=True)["thermal_status"] == GateLimits(2)
    off = parse_gates(dict.fromkeys(GATES, "off"))
    assert judge_groups({"a": [{}], "b": [{"temperature_c": 90.0}]}, off) == ()


@pytest.mark.parametrize(
    "table, said",
    [
        ({"steal": "2C"}, "gate steal: '2C' is not a limit"),
        ({"throttling": "2C"}, "gate throttling: '2C' is not a limit"),
        ({"steal": "same"}, "not a limit"),
        ({"thermal_status": "two"}, "'two' is not a limit"),
        ({"steal": True}, "not a limit"),
        ({"steal": -1}, "not a limit"),
        ({"steal": float("nan")}, "not a limit"),
        ({"uptime": "0.5x"}, "not a limit"),
        ({"on_ac": "8C"}, "not a limit"),
        ({"on_ac": {"refuse": "other"}}, "not a limit"),
        ({"steal": {"suspect": "5%", "refuse": "1%"}}, "the limit `suspect` is above `refuse`"),
        ({"steal": {"warn": "5%"}}, "unknown level of gate steal: 'warn'"),
    ],
)
def test_bad_limits_say_so(table: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_gates(table)
    assert said in error.value.message
    assert error.value.hint


@pytest.mark.parametrize("gate, example", [("steal", "5%"), ("on_ac", "same"), ("uptime", "4x"), ("swap", "16MiB")])
def test_a_bad_limit_comes_with_an_example_that_is_one(gate: str, example: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_gates({gate: "much"})
    assert error.value.hint == f"write a limit such as {example}, or off"
    assert not parse_gates({gate: example})[gate].is_off


def test_an_unknown_gate_names_the_nearest() -> None:
    with pytest.raises(UnknownName) as error:
        parse_gates({"start_temprature": "8C"})
    assert error.value.message.startswith("unknown gate: 'start_temprature'")
    assert error.value.hint == "did you mean start_temperature?"


def test_only_a_sleep_a_knob_or_a_gate_before_the_run_voids() -> None:
    findings = judge_start(GOOD, {**GOOD, "temperature_c": 60.0, "throttled_share": 1.0, "steal_share": None})
    assert [(one.gate, one.level) for one in findings] == [("start_temperature", "refuse")]
    reasons = why_void(findings, suspended_s=3.5, misread=["vm.swappiness"])
    assert len(reasons) == 3
    assert reasons[1:] == (
        "the machine slept for 3.5 s during the run",
        "vm.swappiness no longer has the value that ktrial set",
    )
    assert why_void(judge_start(GOOD, {**GOOD, "temperature_c": 51.0})) == ()
    assert why_void() == ()
    assert why_void(suspended_s=0.5) == ("the machine slept for 500 ms during the run",)
    with pytest.raises(ValueError, match="suspend time"):
        why_void(suspended_s=float("nan"))
