# SPDX-License-Identifier: Apache-2.0
"""The agent's `memcpy`: how fast memory is copied."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, per_second
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.kit.outcome import Measurement, Outcome

_BANDWIDTH = Outcome(
    name="bandwidth",
    unit="B/s",
    direction="higher",
    kind="rate",
    low=1e6,
    high=1e13,
    better="More bytes were copied in a second.",
    worse="Fewer bytes were copied in a second.",
    blind_spots="Each byte is counted once, though it is read and written. Buffers that fit a cache measure that "
    "cache. The copying routine is the one that the agent was built with; the kernel has its own.",
    headline=True,
)


def _read(reply: LoadReply) -> tuple[Measurement | None, ...]:
    return (per_second(reply, "bandwidth", "copied_bytes"),)


BENCHMARK = LoadBenchmark(
    name="agent-memcpy",
    what="Bytes per second that threads copy between buffers of their own.",
    load="memcpy",
    outcomes=(_BANDWIDTH,),
    reader=_read,
    beyond_exact="it measures caches and memory, and there are none in its clock",
    parameters={"bytes": 64 << 20, "threads": 1, "duration_s": 3.0},
)
