# SPDX-License-Identifier: Apache-2.0
"""The agent's `memcpy`: the speed of copying memory."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, per_second
from ktrial.bench.outcomes import rate

_BANDWIDTH = rate(
    "bandwidth",
    "B/s",
    "[More|Fewer] bytes are copied per second.",
    "Each byte is counted once, though it is read and written. Buffers that fit a cache measure that "
    "cache. The copying routine is the one that the agent was built with; the kernel has its own.",
    (1e6, 1e13),
    headline=True,
)


BENCHMARK = LoadBenchmark(
    name="agent-memcpy",
    what="Bytes per second that threads copy between buffers of their own.",
    load="memcpy",
    outcomes=(_BANDWIDTH,),
    reader=lambda reply: (per_second(reply, "bandwidth", "copied_bytes"),),
    beyond_exact="the clock of such a guest does not count the time of caches and memory",
    parameters={"bytes": 64 << 20, "threads": 1, "duration_s": 3.0},
)
