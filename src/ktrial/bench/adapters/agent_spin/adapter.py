# SPDX-License-Identifier: Apache-2.0
"""The agent's `spin`: threads that compute without pause."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import EVENNESS, LoadBenchmark, evenness, per_second
from ktrial.bench.outcomes import rate

_OUTCOMES = (
    rate(
        "round-rate",
        "1/s",
        "The threads compute [more|less] per second.",
        "Arithmetic in registers, without memory or the kernel: clock rates and CPU time decide.",
        (1.0, 1e9),
        headline=True,
    ),
    EVENNESS,
)


BENCHMARK = LoadBenchmark(
    name="agent-spin",
    what="Rounds of arithmetic per second of threads that compute without pause.",
    load="spin",
    outcomes=_OUTCOMES,
    reader=lambda reply: (per_second(reply, "round-rate", "rounds"), evenness(reply)),
    parameters={"threads": None, "duration_s": 5.0},
    until_told=True,
)
