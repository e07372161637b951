# SPDX-License-Identifier: Apache-2.0
"""The agent's `lock`: threads that contend for a few locks and yield the CPU while they hold one."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import EVENNESS, LoadBenchmark, evenness, per_second, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.bench.outcomes import latency, rate
from ktrial.kit.outcome import Measurement

_BLIND = (
    "The scheduler decides what yielding means: much of this is its policy, not the cost of locks. The rate and the "
    "mean latency are one effect, seen twice."
)
_OUTCOMES = (
    rate(
        "event-rate",
        "1/s",
        "The threads take [more|fewer] contended locks per second.",
        _BLIND,
        (0.01, 1e9),
        headline=True,
    ),
    latency("event-p50", "A typical event takes [less|more] time.", _BLIND),
    latency("event-p99", "The slowest 1 % of events take [less|more] time.", _BLIND),
    EVENNESS,
)


def _read(reply: LoadReply) -> tuple[Measurement | None, ...]:
    return (
        per_second(reply, "event-rate", "count"),
        time_of(reply, "event-p50", "p50_ns"),
        time_of(reply, "event-p99", "p99_ns"),
        evenness(reply),
    )


BENCHMARK = LoadBenchmark(
    name="agent-lock",
    what="Events per second of threads that take contended locks and yield the CPU while they hold them.",
    load="lock",
    outcomes=_OUTCOMES,
    reader=_read,
    parameters={"threads": 4, "locks": 8, "yields": 1000, "duration_s": 5.0},
)
