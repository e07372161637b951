# SPDX-License-Identifier: Apache-2.0
"""margine-bench-kernel/1: a flat JSON object with the figures of one pass over the margine suite."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from ktrial.kit.errors import BadInput
from ktrial.results.model import Exported, SessionRuns, StoredRun, counts

NAME = "margine"
WHAT = "margine-bench-kernel/1 JSON: the medians of one session of the margine suite."
_SCHEMA = "margine-bench-kernel/1"
#: (tool, outcome) -> key, factor from the base unit. sched_pipe and messaging are perf's.
_FIGURES: Mapping[tuple[str, str], tuple[str, int]] = {
    ("schbench", "wakeup-p50"): ("schbench_p50_us", 10**6),
    ("schbench", "wakeup-p99"): ("schbench_p99_us", 10**6),
    ("perf-messaging", "time"): ("sched_messaging_total_s", 1),
    ("perf-pipe", "time"): ("sched_pipe_usecs_op", 10**6),
    ("sysbench-threads", "latency-p95"): ("sysbench_lat_95th_ms", 10**3),
}
#: Detail of a run of sysbench-threads -> key, factor from the base unit.
_DETAILS: Mapping[str, tuple[str, int]] = {
    "events": ("sysbench_events", 1),
    "total_time_s": ("sysbench_total_time_s", 1),
    "latency_mean_s": ("sysbench_lat_avg_ms", 10**3),
}
#: For runs that were imported from a file of this format: outcome -> key, factor.
_IMPORTED: Mapping[str, tuple[str, int]] = {
    "schbench-p50": ("schbench_p50_us", 10**6),
    "schbench-p99": ("schbench_p99_us", 10**6),
    "sched-messaging-total": ("sched_messaging_total_s", 1),
    "sched-pipe-time": ("sched_pipe_usecs_op", 10**6),
    "sched-pipe-rate": ("sched_pipe_ops_sec", 1),
    "sysbench-events": ("sysbench_events", 1),
    "sysbench-total-time": ("sysbench_total_time_s", 1),
    "sysbench-latency-mean": ("sysbench_lat_avg_ms", 10**3),
    "sysbench-latency-p95": ("sysbench_lat_95th_ms", 10**3),
}
#: key -> fact of the machine.
_FACTS = {
    "cpu_model": "cpu.model",
    "governor": "cpufreq.governor",
    "nproc": "cpu.threads",
    "scx_state": "kernel.sched_ext_state",
}


def write(sessions: Sequence[SessionRuns]) -> Exported:
    """Return the median of each figure over the good runs of a session.

    Raise BadInput for several sessions, or if the session has none of the figures.
    """
    if len(sessions) != 1:
        raise BadInput(f"{_SCHEMA} holds one session, not {len(sessions)}", hint="export each session to its own file")
    session, runs = sessions[0].session, sessions[0].runs
    values: dict[str, list[float]] = {}
    left: dict[str, None] = {}
    imported = session.origin == f"import:{NAME}"
    for run in (run for run in runs if counts(run)):
        for key, value in _imported(run) if imported else _figures(run):
            if key in _KEYS:
                values.setdefault(key, []).append(value)
            else:
                left[key] = None
    if not values:
        raise BadInput(
            f"{session.session} has none of the figures of {_SCHEMA}",
            hint="run `ktrial bench margine` to measure the figures",
        )
    document = {
        "schema": _SCHEMA,
        "label": session.label or session.session,
        "date": sessions[0].date,
        "kernel": session.kernel_release,
        **_machine(session.document, session.kernel_release, runs),
        **{key: statistics.median(found) for key, found in values.items()},
        "metrics_collected": len(values),
        "metrics_expected": len(_KEYS),
    }
    most = max(map(len, values.values()))
    left_out = [f"single runs: the figures are medians of up to {most}"] if most > 1 else []
    left_out += [f"outcomes without a key in this format: {', '.join(left)}"] if left else []
    bad = sum(not counts(run) for run in runs)
    left_out += ["the host name, which ktrial does not store"]
    left_out += [f"{bad} runs that failed or do not count"] if bad else []
    present = {key: value for key, value in document.items() if value is not None}
    return Exported(data=json.dumps(present, indent=2, sort_keys=True).encode() + b"\n", left_out=tuple(left_out))


def _figures(run: StoredRun) -> list[tuple[str, float]]:
    """Return (key, value) pairs. An outcome for which margine has no key gets `BENCHMARK.OUTCOME`."""
    tool = str((run.document or {}).get("tool") or run.benchmark)
    figures = []
    for one in run.measurements:
        key, factor = _FIGURES.get((tool, one.outcome), (f"{run.benchmark}.{one.outcome}", 1))
        figures.append((key, _times(one.value, factor)))
        if key == "sched_pipe_usecs_op" and one.value > 0:
            figures.append(("sched_pipe_ops_sec", 1 / one.value))
    details = (run.document or {}).get("details") or {} if tool == "sysbench-threads" else {}
    return figures + [
        (key, _times(details[name], factor)) for name, (key, factor) in _DETAILS.items() if name in details
    ]


def _imported(run: StoredRun) -> list[tuple[str, float]]:
    keys = [(*_IMPORTED.get(one.outcome, (one.outcome, 1)), one.value) for one in run.measurements]
    return [(key, _times(value, factor)) for key, factor, value in keys]


def _times(value: float, factor: int) -> float:
    """Return a value in the unit of its key, rounded once, so that importing it gives the same value again."""
    return float(Decimal(repr(value)) * factor)


_KEYS = {key for key, _ in _IMPORTED.values()}


def _machine(document: Mapping[str, Any], kernel: str | None, runs: Sequence[StoredRun]) -> dict[str, Any]:
    facts = document.get("machine") or {}
    about = {key: (facts.get(name) or {}).get("value") for key, name in _FACTS.items()}
    if scheduler := (facts.get("kernel.scheduler") or {}).get("value"):
        about["bore"] = int(scheduler == "BORE")
    if kernel is not None:
        about["cachyos"] = int("cachyos" in kernel)
    start, end = _temperature(runs[0], "before"), _temperature(runs[-1], "after")
    return about | {"temp_start_c": start, "temp_end_c": end}


def _temperature(run: StoredRun, side: str) -> float | None:
    conditions = (run.document or {}).get("conditions") or {}
    return next((one["value"] for one in conditions.get(side) or () if one.get("name") == "temperature"), None)
