# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec

from ktrial.bench.conditions_text import told_conditions
from ktrial.machine.kernel_log import KernelLine, KernelLogDelta
from ktrial.machine.run_conditions import Conditions, Telemetry
from ktrial.machine.sensors import Cost

TELEMETRY = Telemetry(
    period_s=1.0,
    taken=30,
    missed=2,
    kept_of=2,
    cost=Cost(cpu_ns_per_sample=100_000, read_ns_p50=1, read_ns_p99=1, read_ns_max=2_500_000),
    absent={},
    unopened=(),
    lies={},
    failures={},
    gone={},
    appeared=(),
    columns={},
)


def document(**fields: Any) -> dict[str, Any]:
    found = Conditions(before=(), after=(), **fields)
    return {"conditions": msgspec.to_builtins(found)}


def test_what_is_absent_or_unknown_is_not_shown() -> None:
    readings = {"temperature_c": 45.25, "load": 0.5, "governor": "none", "swap_used_bytes": None, "disk_full": 0.225}
    told = dict(told_conditions(document(readings_before=readings)))
    assert told == {"before": "45.2 °C, load 0.50, disk full 22.5%"}


def test_the_cost_of_a_sample_is_told_per_sample_and_of_a_cpu() -> None:
    # One in two was kept, so that each took two seconds: 0.1 ms of them are 0.005 %.
    told = dict(told_conditions(document(telemetry=TELEMETRY)))
    assert told["sampled"] == (
        "30 times, 2 missed, every 2 s: 100 us of CPU time per sample (0.005% of one CPU), at most 2.5 ms per read"
    )


def test_of_many_lines_of_the_kernel_some_are_shown() -> None:
    lines = tuple(KernelLine("warning", number, 0, f"line {number}") for number in range(7))
    told = [
        text for name, text in told_conditions(document(kernel_log=KernelLogDelta(lines=lines))) if name == "kernel"
    ]
    assert (len(told), told[0], told[-1]) == (6, "warning: line 0", "2 more (--json shows all)")


def test_documents_of_other_programs_are_shown_without() -> None:
    for odd in ({}, {"conditions": None}, {"conditions": [1]}, {"conditions": {"before": 3}, "findings": "x"}):
        assert list(told_conditions(odd)) == []
    old = {"conditions": {"before": [{"name": "temperature", "value": 4.0, "unit": "C", "of": "x"}], "after": []}}
    assert list(told_conditions(old)) == []
