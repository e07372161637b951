# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest

from ktrial.bench.command_benchmark import Metric, OwnBenchmark, parse_metric
from ktrial.kit.errors import BadInput, BadRun
from tests.support.bench import answer


def own(*metrics: str, **fields: object) -> OwnBenchmark:
    made = OwnBenchmark(name="own", what="own", argv=("true",), metric=tuple(map(parse_metric, metrics)))
    made.check()
    return made


@pytest.mark.parametrize(
    "name, outcome, unit, printed, value",
    [
        ("p99_ms", "p99", "s", "12.5", 0.0125),
        ("wake_us", "wake", "s", "3", 3e-6),
        ("build_s", "build", "s", "1e2", 100.0),
        ("requests_per_s", "requests", "1/s", "250", 250.0),
        ("copy_mb_per_s", "copy", "B/s", "2", 2e6),
        ("heap_bytes", "heap", "B", "17", 17.0),
        ("stutter_count", "stutter", "count", "0", 0.0),
        ("low_percent", "low", "ratio", "1", 0.01),
        ("points", "points", "score", "-4", -4.0),
    ],
)
def test_the_name_of_a_metric_says_its_unit(name: str, outcome: str, unit: str, printed: str, value: float) -> None:
    benchmark = own(f"{name}:higher=value: (\\S+)")
    parsed = benchmark.parse(answer(f"value: {printed}\n".encode()), {})
    assert benchmark.outcomes[0].name == parsed.measurements[0].outcome == outcome
    assert (benchmark.outcomes[0].unit, benchmark.outcomes[0].headline) == (unit, True)
    assert parsed.measurements[0].value == pytest.approx(value)
    assert printed in parsed.measurements[0].original


def test_what_the_command_uses_is_measured_too() -> None:
    raw = answer(b"", user_us=2_000_000, system_us=500_000, max_rss_bytes=4096)
    values = {measured.outcome: measured.value for measured in own().parse(raw, {}).measurements}
    assert values == {"wall": 0.001, "user": 2.0, "system": 0.5, "peak_memory": 4096}
    assert [outcome.name for outcome in own().outcomes if outcome.headline] == ["wall"]


@pytest.mark.parametrize(
    "printed, why",
    [
        (b"", "matches nowhere"),
        (b"p99: 1\np99: 2\n", "matches 2 times"),
        (b"p99: 1,5\n", "expected a number such as 12.5"),
        (b"p99: nan\n", "expected a number such as 12.5"),
        (b"p99: \xff\xfe\n", "expected a number such as 12.5"),
    ],
)
def test_a_number_that_is_not_there_once_fails_the_run(printed: bytes, why: str) -> None:
    with pytest.raises(BadRun, match=why):
        own(r"p99_ms:lower=^p99: (.*)$").parse(answer(printed), {})


@pytest.mark.parametrize(
    "expression, printed, whole",
    [
        ("p99: ([0-9.]+)", "p99: 1,5 ms", "1,5"),
        ("p99: ([0-9.]+)", "p99: 1.234,5 ms", "1.234,5"),
        ("p99: ([0-9]+)", "p99: 12.5 ms", "12.5"),
        ("p99: ([0-9.]+)", "p99: 1e3", "1e3"),
        ("p99: ([0-9.]+)", "p99: 1\u202f234,5", "1\\u202f234,5"),
        ("p99: ([0-9.]+)", "p99: 1'234.5", "1'234.5"),
        ("([0-9.]+) ms", "1,234 ms", "1,234"),
        ("([0-9.]+) ms", "p99: -3 ms", "-3"),
        ("p99.*([0-9.]+)", "p99: 12.5", "12.5"),
        ("p99.*([0-9.]+)", "p99: 125", "125"),
    ],
)
def test_a_part_of_a_number_fails_the_run(expression: str, printed: str, whole: str) -> None:
    with pytest.raises(BadRun) as caught:
        own(f"p99_ms:lower={expression}").parse(answer(printed.encode()), {})
    assert "is only part of " in caught.value.message
    assert whole in caught.value.message


@pytest.mark.parametrize(
    "expression, printed, value",
    [
        ("p99,([0-9.]+),", "p99,1.5,2.5", 1.5),
        ("p99,[0-9.]+,([0-9.]+)$", "p99,1.5,2.5", 2.5),
        ("wake-([0-9.]+)", "wake-3.5", 3.5),
        ("took ([0-9.]+)", "took 3.5ms, then 4", 3.5),
        ("took ([0-9.]+)", "took 3, then 4", 3),
        ("range ([0-9]+)", "range 1-3", 1),
    ],
)
def test_what_stands_beside_a_number_is_none_of_it(expression: str, printed: str, value: float) -> None:
    found = own(f"p99_ms:lower={expression}").parse(answer(printed.encode()), {})
    assert found.measurements[0].value == pytest.approx(value / 1000)


@pytest.mark.parametrize(
    "text",
    [
        "p99",
        "p99_ms=x(.)",
        "p99_ms:less=(.)",
        "p99_ms:lower=",
        "p99_ms:lower=(",
        "p99_ms:lower=x",
        "P:lower=(.)",
        ":lower=(.)",
        "p99_ms:lower=$.a[*]",
        "P:lower=$.a",
    ],
)
def test_metrics_that_cannot_be_read(text: str) -> None:
    with pytest.raises(BadInput):
        parse_metric(text)


def test_a_number_in_a_json_document() -> None:
    printed = b'{"latency": [{"p99": 12.5, "max": 3e1}], "rate": 250}\n'
    benchmark = own("p99_ms:lower=$.latency[-1].p99", "max_us:lower=$.latency[0]['max']", "calls_per_s:higher=$.rate")
    found = benchmark.parse(answer(printed, stderr=b"not json"), {}).measurements[:3]
    assert [(one.outcome, one.value, one.original) for one in found] == [
        ("p99", 0.0125, "p99_ms 12.5"),
        ("max", pytest.approx(30e-6), "max_us 30.0"),
        ("calls", 250.0, "calls_per_s 250"),
    ]
    assert [outcome.name for outcome in benchmark.outcomes if outcome.headline] == ["p99"]


@pytest.mark.parametrize(
    "printed, why",
    [
        (b"", "p99_ms: stdout is empty"),
        (b"warming up\n{}", r"p99_ms: .* is not complete JSON .* in line 1 of stdout"),
        (b'{"p99": 1}\n{"p99": 2}', r"p99_ms: .* \(extra data\) in line 2 of stdout"),
        (b'{"p99": 1', "is not complete JSON"),
        (b'{"p99": 1, "p99": 2}', "'p99' is not the only key of this name"),
        (b'{"p99": NaN}', "'NaN' is not a finite number"),
        (b'{"p99": "1"}', "p99_ms: .* is the text '1', not a number"),
        (b'{"p98": 1}', "has no 'p99'; it has p98"),
        (b'{"p99": [1, 2]}', "is a list, not a number"),
        (b'"\xff"', "is not UTF-8"),
    ],
)
def test_a_place_that_holds_no_number_fails_the_run(printed: bytes, why: str) -> None:
    with pytest.raises(BadRun, match=why):
        own("p99_ms:lower=$.p99").parse(answer(printed), {})


def test_own_benchmarks_that_cannot_be_run() -> None:
    good = OwnBenchmark(name="own", what="own", argv=("true",))
    good.check()
    for bad in (
        OwnBenchmark(name="Own!", what="", argv=("true",)),
        OwnBenchmark(name="own", what="", argv=()),
        OwnBenchmark(name="own", what="", argv=("true",), directory="here"),
        OwnBenchmark(name="own", what="", argv=("true",), prepare=(("true",), ())),
        OwnBenchmark(name="own", what="", argv=("true",), warm_ups=-1),
        OwnBenchmark(name="own", what="", argv=("true",), warm_ups=1001),
        OwnBenchmark(name="own", what="", argv=("true",), limit_s=0),
        OwnBenchmark(name="own", what="", argv=("true",), limit_s=math.nan),
        OwnBenchmark(name="own", what="", argv=("true",), limit_s=math.inf),
        OwnBenchmark(name="own", what="", argv=("true",), metric=(Metric("wall_s", "lower", "(.)"),)),
    ):
        with pytest.raises(BadInput):
            bad.check()
