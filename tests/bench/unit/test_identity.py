# SPDX-License-Identifier: Apache-2.0
"""What a tool says that it did is held against what it was asked for: something else is a failed run."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.kit.errors import BadRun
from tests.support.cases import CASES, expected, name, raw_output

BENCHMARKS = all_benchmarks()
BY_NAME = {name(case): case for case in CASES}


@pytest.mark.parametrize(
    "case, asked, told",
    [
        ("cyclictest/2.10-other", {"threads": 7}, "asked for threads 7, but the tool reports 2"),
        ("fio/3.25-seq-read", {"depth": 7}, "asked for iodepth 7, but the tool reports 8"),
        ("fio/3.33-rand-mixed", {"read_percent": 50}, "asked for rwmixread 50, but the tool reports 70"),
        ("fio/3.41-seq-read", {"size": "1g"}, "asked for size 1g, but the tool reports 16m"),
        ("glmark2/2023.01-software", {"size": "1280x720"}, "asked for size 1280x720, but the tool reports 800x600"),
        ("hackbench/2.10-thread-pipe", {"bytes": 7}, "asked for bytes 7"),
        ("iperf3/3.18-stream", {"streams": 7}, "asked for streams 7"),
        ("perf_bench/6.1-futex-hash", {"seconds": 7}, "asked for seconds 7, but the tool reports 1"),
        ("perf_bench/6.1-futex-hash", {"threads": 7}, "asked for threads 7, but the tool reports 2"),
        ("perf_bench/6.1-memcpy-default", {"size": "2MB"}, "asked for size 2MB, but the tool reports"),
        ("pgbench/15.18-held", {"seconds": 7}, "asked for seconds 7, but the tool reports 4"),
        ("schbench/2025-12", {"seconds": 30}, "asked for 30 s, but the tool reports 6 s"),
        ("schbench/2025-12-json", {"seconds": 30}, "asked for 30 s, but the tool reports 3 s"),
        ("stress_ng/0.22.01-pipe", {"instances": 7}, "asked for instances 7"),
        ("synthmark/1.27-latencymark", {"voices": 7}, "asked for num.voices 7, but the tool reports 10"),
        ("sysbench/1.0.20-cpu", {"max_prime": 7}, "asked for Prime numbers limit 7, but the tool reports 10000"),
        ("sysbench/1.0.20-memory", {"block": "4M"}, "asked for block size 4096KiB, but the tool reports 1KiB"),
        ("sysbench/1.0.20-memory", {"operation": "read"}, "asked for operation read, but the tool reports write"),
        ("sysbench/1.0.20-threads", {"threads": 7}, "asked for threads 7, but the tool reports 2"),
        ("sysbench/1.0.20-threads", {"seconds": 7}, "asked for 7 s, but the tool reports 2"),
        ("wrk/4.1.0-page", {"seconds": 7}, "asked for duration 7s, but the tool reports 1s"),
    ],
)
def test_another_measurement_than_was_asked_for_is_a_failed_run(case: str, asked: dict[str, Any], told: str) -> None:
    wanted = expected(BY_NAME[case])
    benchmark = BENCHMARKS[wanted.benchmark]
    raw = raw_output(BY_NAME[case])
    assert benchmark.parse(raw, wanted.parameters).measurements
    with pytest.raises(BadRun, match=told):
        benchmark.parse(raw, {**wanted.parameters, **asked})
