# SPDX-License-Identifier: Apache-2.0
"""Counters of Google Benchmark, whose names and values the measured program chooses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadRun
from ktrial.results.importers.google_benchmark import read

RUN = {"name": "b", "run_type": "iteration", "real_time": 2.0, "cpu_time": 1.0, "time_unit": "ns"}


def outcomes(**counters: Any) -> dict[str, float]:
    data = json.dumps({"benchmarks": [{**RUN, **counters}]}).encode()
    (run,) = read(data, "f.json", ImportOptions()).runs
    return {one.outcome: one.value for one in run.measurements}


def test_a_counter_may_be_called_as_a_time() -> None:
    assert outcomes(time=3, length=-1) == {"time": 2e-9, "cpu-time": 1e-9, "counter-time": 3, "counter-length": -1}


def test_a_counter_that_no_number_holds_is_named() -> None:
    with pytest.raises(BadRun, match=r"is not a number below 1e30 \(benchmarks\[0\]\.huge\)"):
        outcomes(huge=10**400)
