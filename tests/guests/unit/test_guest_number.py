# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import BadRun
from ktrial.studies.bisect.measure import read_number

REPLY = json.dumps({"id": 1, "ok": {"load": "wakeup", "results": {"p99_ns": 1500, "p99_9_ns": None, "kind": "timer"}}})


@pytest.mark.parametrize("output, value", [(b"first\n 3.5 \n\n", 3.5), (b"7", 7.0), (f"x\n{REPLY}\n".encode(), 1500.0)])
def test_the_last_line_has_it(output: bytes, value: float) -> None:
    assert read_number(output, "p99_ns") == value


@pytest.mark.parametrize(
    "output, outcome",
    [
        (b"", "x"),
        (b"nan\n", "x"),
        (b"inf\n", "x"),
        (b"12 ms\n", "x"),
        (b"{}", "x"),
        (REPLY.encode(), "p50_ns"),
        (REPLY.encode(), "p99_9_ns"),
        (REPLY.encode(), "kind"),
        (b"\xff\n", "x"),
    ],
)
def test_what_is_no_number_is_an_error(output: bytes, outcome: str) -> None:
    with pytest.raises(BadRun):
        read_number(output, outcome)


@pytest.mark.parametrize("results, has", [({"p50": 1, "p99": 2}, "only the results p50, p99"), ({}, "no results")])
def test_a_missing_result_is_named_beside_those_that_exist(results: dict[str, int], has: str) -> None:
    output = json.dumps({"ok": {"results": results}}).encode()
    with pytest.raises(BadRun, match=f"^cannot read p999: the program's last line has {has}$"):
        read_number(output, "p999")


@settings(max_examples=50)
@given(st.binary(max_size=80))
def test_any_bytes_are_a_number_or_an_error(data: bytes) -> None:
    with suppress(BadRun):
        assert math.isfinite(read_number(data, "x"))
