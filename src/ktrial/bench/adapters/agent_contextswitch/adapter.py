# SPDX-License-Identifier: Apache-2.0
"""The agent's `contextswitch`: round trips between two threads over pipes, on one CPU and across two."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, time_of
from ktrial.bench.outcomes import latency

_BLIND = (
    "Two threads that are always ready to answer and have no working set: effects of a switch on caches are not seen. "
    "Each round trip includes two readings of the clock."
)
_TIMES = {
    "round-trip-mean": ("mean_ns", "On average, a round trip takes"),
    "round-trip-p50": ("p50_ns", "A typical round trip takes"),
    "round-trip-p99": ("p99_ns", "The slowest 1 % of round trips take"),
}
_OUTCOMES = tuple(
    latency(name, f"{which} [less|more] time: switching costs [less|more].", _BLIND, headline=name == "round-trip-p50")
    for name, (_, which) in _TIMES.items()
)


BENCHMARKS = tuple(
    LoadBenchmark(
        name=f"agent-contextswitch-{placement}",
        what=f"Time of a byte's round trip between two threads over pipes, {where}.",
        least_cpus=2 if placement == "cross" else 1,
        load="contextswitch",
        outcomes=_OUTCOMES,
        reader=lambda reply: tuple(time_of(reply, outcome, name) for outcome, (name, _) in _TIMES.items()),
        fixed={"placement": placement},
        parameters={"duration_s": 5.0},
    )
    for placement, where in {"same": "both on one CPU", "cross": "on two CPUs"}.items()
)
