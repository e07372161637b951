# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.bench.record import SessionSummary
from ktrial.bench.text import duration, holes_text, run_begins, show, summary_text


@pytest.mark.parametrize(
    "value, unit, text",
    [
        (0.0028, "s", "2.8 ms"),
        (0.0, "1/s", "0 /s"),
        (0.0, "B/s", "0 B/s"),
        (0.0, "ratio", "0 %"),
        (0.0, "s", "0 s"),
        (5e-10, "s", "0.5 ns"),
        (123456.0, "s", "123456 s"),
        (1.2345678e7, "1/s", "12.35 M/s"),
        (0.5, "1/s", "0.5 /s"),
        (2.5e9, "B/s", "2.5 GB/s"),
        (1536, "B", "1.5 KiB"),
        (3, "count", "3"),
        (0.125, "ratio", "12.5 %"),
        (-2.5, "score", "-2.5"),
    ],
)
def test_values_are_scaled_for_display(value: float, unit: str, text: str) -> None:
    assert show(value, unit) == text


@pytest.mark.parametrize("seconds, text", [(0.2, "1 s"), (75, "1 min 15 s"), (3700, "1 h 1 min")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_line_of_a_run() -> None:
    assert run_begins(3, 12, "fio", 80.0) == "[ 3/12] fio (1 min 20 s left):"
    assert run_begins(3, 12, "fio", 80.0, least=True) == "[ 3/12] fio (more than 1 min 20 s left):"
    assert run_begins(3, 12, "fio", None) == "[ 3/12] fio:"


def test_the_table_has_one_unit_per_row_and_fits() -> None:
    rows = (
        SessionSummary(
            benchmark="hackbench",
            outcome="time",
            unit="s",
            direction="lower",
            headline=True,
            n=3,
            median=0.9995,
            minimum=0.5,
            maximum=1.5,
            cv=0.1234,
        ),
        SessionSummary(
            benchmark="hackbench",
            outcome="load.throughput",
            unit="1/s",
            direction="higher",
            headline=False,
            n=1,
            median=0,
            minimum=0,
            maximum=0,
            cv=None,
        ),
    )
    text = summary_text(rows, width=80)
    lines = text.splitlines()
    assert lines[0].split() == ["benchmark", "outcome", "n", "median", "min", "max", "unit", "CV", "better"]
    assert lines[2].split() == ["hackbench", "time*", "3", "999.5", "500", "1500", "ms", "12.3%", "less"]
    assert lines[3].split()[0] == "load.throughput"
    assert all(len(line) <= 80 for line in lines)


def test_holes_are_named() -> None:
    assert holes_text(4, 4, [], width=80) == ""
    text = holes_text(4, 3, [("schbench", "schbench is not installed", "sudo apt install x")], width=80)
    assert text == "partial 3/4\n  schbench: schbench is not installed; next: sudo apt install x\n"
