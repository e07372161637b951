# SPDX-License-Identifier: Apache-2.0
"""Output of `redis-benchmark --csv`: a line of column names, then one line per command."""

from __future__ import annotations

import csv

import msgspec

from ktrial.kit.formats.tool_output import Quantity, numbered, quantity, unreadable

_UNITS = {
    "rps": "1/s",
    "avg_latency_ms": "ms",
    "min_latency_ms": "ms",
    "p50_latency_ms": "ms",
    "p95_latency_ms": "ms",
    "p99_latency_ms": "ms",
    "max_latency_ms": "ms",
}
_COLUMNS = ["test", *_UNITS]


class RedisTest(msgspec.Struct, frozen=True):
    """The result of one redis command; the fields have the order of the columns."""

    command: str
    rate: Quantity
    latency_mean: Quantity
    latency_min: Quantity
    latency_p50: Quantity
    latency_p95: Quantity
    latency_p99: Quantity
    latency_max: Quantity


def read_redis_benchmark(data: bytes, source: str = "stdout") -> tuple[RedisTest, ...]:
    """Read the table, which must have at least one command."""
    tests: list[RedisTest] = []
    has_names = False
    for line, text in numbered(data, source):
        cells = _cells(text, source, line)
        if cells == _COLUMNS and not has_names:
            has_names = True
        elif not has_names:
            raise unreadable(source, line, text, f"the header {', '.join(_COLUMNS)}")
        elif cells:
            tests.append(_test(cells, source, line))
    if not tests:
        raise unreadable(source, None, "", "output of redis-benchmark: no line reports a command")
    return tuple(tests)


def _cells(text: str, source: str, line: int) -> list[str]:
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        raise unreadable(source, line, text, "a line of comma-separated values") from None


def _test(cells: list[str], source: str, line: int) -> RedisTest:
    if len(cells) != len(_COLUMNS):
        raise unreadable(source, line, ", ".join(cells), f"a command and its {len(_COLUMNS) - 1} values")
    values = [
        quantity(cell, unit, source, line, name) for cell, (name, unit) in zip(cells[1:], _UNITS.items(), strict=True)
    ]
    return RedisTest(cells[0], *values)
