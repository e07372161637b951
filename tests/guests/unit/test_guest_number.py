# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import UnreadableOutput
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
    with pytest.raises(UnreadableOutput):
        read_number(output, outcome)


@settings(max_examples=50)
@given(st.binary(max_size=80))
def test_any_bytes_are_a_number_or_an_error(data: bytes) -> None:
    with suppress(UnreadableOutput):
        assert math.isfinite(read_number(data, "x"))
