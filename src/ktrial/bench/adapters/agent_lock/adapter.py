# SPDX-License-Identifier: Apache-2.0
"""The agent's `lock`: threads that contend for a few locks and yield the CPU while they hold one."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, evenness, latency, per_second, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.kit.outcome import Measurement, Outcome

_BLIND = (
    "What yielding means is the scheduler's policy: much of this is that policy, not the cost of locks. The rate and "
    "the mean latency are one effect, seen twice."
)
_OUTCOMES = (
    Outcome(
        name="event-rate",
        unit="1/s",
        direction="higher",
        kind="rate",
        low=0.01,
        high=1e9,
        better="More events of contended locking were done in a second.",
        worse="Fewer events of contended locking were done in a second.",
        blind_spots=_BLIND,
        headline=True,
    ),
    latency("event-p50", "A typical event took less time.", "A typical event took more time.", _BLIND),
    latency(
        "event-p99",
        "The slowest event in a hundred took less time.",
        "The slowest event in a hundred took more time.",
        _BLIND,
    ),
    Outcome(
        name="evenness",
        unit="ratio",
        direction="higher",
        kind="score",
        low=0.0,
        high=1.0,
        better="The threads got on more evenly.",
        worse="Some threads got on less than others.",
        blind_spots="Only the thread that did least and the one that did most are compared, over the whole run.",
    ),
)


def _read(reply: LoadReply) -> tuple[Measurement | None, ...]:
    return (
        per_second(reply, "event-rate", "count"),
        time_of(reply, "event-p50", "p50_ns"),
        time_of(reply, "event-p99", "p99_ns"),
        evenness(reply, "evenness"),
    )


BENCHMARK = LoadBenchmark(
    name="agent-lock",
    what="Events per second of threads that take contended locks and yield the CPU while they hold them.",
    load="lock",
    outcomes=_OUTCOMES,
    reader=_read,
    parameters={"threads": 4, "locks": 8, "yields": 1000, "duration_s": 5.0},
)
