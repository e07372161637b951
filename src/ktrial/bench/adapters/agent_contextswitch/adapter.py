# SPDX-License-Identifier: Apache-2.0
"""The agent's `contextswitch`: round trips between two threads over pipes, on one CPU and across two."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, latency, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.kit.outcome import Measurement

_BLIND = (
    "Two threads that are always ready to answer and hold no working set: what a switch does to caches is not seen. "
    "Each round trip holds two readings of the clock."
)
_NAMES = {
    "round-trip-mean": ("mean_ns", "A byte went to the other thread and back"),
    "round-trip-p50": ("p50_ns", "A typical round trip"),
    "round-trip-p99": ("p99_ns", "The slowest round trip in a hundred"),
}
_OUTCOMES = tuple(
    latency(
        name,
        f"{which} in less time: switching costs less.",
        f"{which} in more time: switching costs more.",
        _BLIND,
        headline=name == "round-trip-p50",
    )
    for name, (_, which) in _NAMES.items()
)


def _read(reply: LoadReply) -> tuple[Measurement | None, ...]:
    return tuple(time_of(reply, outcome, name) for outcome, (name, _) in _NAMES.items())


BENCHMARKS = tuple(
    LoadBenchmark(
        name=f"agent-contextswitch-{placement}",
        what=f"Time of a byte's round trip between two threads over pipes, {where}.",
        least_cpus=2 if placement == "cross" else 1,
        load="contextswitch",
        outcomes=_OUTCOMES,
        reader=_read,
        fixed={"placement": placement},
        parameters={"duration_s": 5.0},
    )
    for placement, where in {"same": "both on one CPU", "cross": "on two CPUs"}.items()
)
