# SPDX-License-Identifier: Apache-2.0
"""margine-bench-kernel/1: one flat object with the figures of one pass over the margine suite."""

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
#: The same of a run that was imported from such a file: outcome -> key, factor.
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
    """Return the median of each figure over the good runs of the one session."""
    if len(sessions) != 1:
        raise BadInput(f"{_SCHEMA} holds one session, not {len(sessions)}", hint="export each into a file of its own")
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
            f"{session.session} holds none of the figures of {_SCHEMA}", hint="it takes `ktrial bench margine`"
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
    left_out = [f"single runs: these are the medians of up to {most}"] if most > 1 else []
    left_out += [f"outcomes that it has no key for: {', '.join(left)}"] if left else []
    bad = sum(not counts(run) for run in runs)
    left_out += ["the name of the host, which ktrial does not keep"]
    left_out += [f"{bad} runs that failed or do not count"] if bad else []
    present = {key: value for key, value in document.items() if value is not None}
    return Exported(data=json.dumps(present, indent=2, sort_keys=True).encode() + b"\n", left_out=tuple(left_out))


def _figures(run: StoredRun) -> list[tuple[str, float]]:
    """(key, value); `BENCHMARK.OUTCOME` for what has no key."""
    tool = str((run.document or {}).get("tool") or run.benchmark)
    found = []
    for one in run.measurements:
        key, factor = _FIGURES.get((tool, one.outcome), (f"{run.benchmark}.{one.outcome}", 1))
        found.append((key, _times(one.value, factor)))
        if key == "sched_pipe_usecs_op" and one.value > 0:
            found.append(("sched_pipe_ops_sec", 1 / one.value))
    details = (run.document or {}).get("details") or {} if tool == "sysbench-threads" else {}
    return found + [(key, _times(details[name], factor)) for name, (key, factor) in _DETAILS.items() if name in details]


def _imported(run: StoredRun) -> list[tuple[str, float]]:
    found = []
    for one in run.measurements:
        key, factor = _IMPORTED.get(one.outcome, (one.outcome, 1))
        found.append((key, _times(one.value, factor)))
    return found


def _times(value: float, factor: int) -> float:
    """In the unit of the key, rounded once: what an importer makes of it is the value again."""
    return float(Decimal(repr(value)) * factor)


_KEYS = {key for key, _ in _IMPORTED.values()}


def _machine(document: Mapping[str, Any], kernel: str | None, runs: Sequence[StoredRun]) -> dict[str, Any]:
    facts = document.get("machine") or {}
    told = {key: (facts.get(name) or {}).get("value") for key, name in _FACTS.items()}
    if scheduler := (facts.get("kernel.scheduler") or {}).get("value"):
        told["bore"] = int(scheduler == "BORE")
    if kernel is not None:
        told["cachyos"] = int("cachyos" in kernel)
    began = [value for run in runs[:1] if (value := _temperature(run, "before")) is not None]
    ended = [value for run in runs[-1:] if (value := _temperature(run, "after")) is not None]
    return told | {"temp_start_c": began[0] if began else None, "temp_end_c": ended[0] if ended else None}


def _temperature(run: StoredRun, side: str) -> float | None:
    conditions = (run.document or {}).get("conditions") or {}
    return next((one["value"] for one in conditions.get(side) or () if one.get("name") == "temperature"), None)
