# SPDX-License-Identifier: Apache-2.0
"""The agent's `messaging`: time in which groups of tasks pass messages from every sender to every receiver."""

from __future__ import annotations

from itertools import product

from ktrial.bench.adapters._agent_load import LoadBenchmark, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.bench.outcomes import outcome
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement

_TIME = outcome(
    "time",
    "s",
    "time",
    "All messages take [less|more] wall time: waking and switching tasks in a crowd costs [less|more].",
    "One number for the whole crowd: it shows neither latency nor fairness, and settings that let tasks run longer "
    "undisturbed improve it while they hurt latency. Pipes and sockets are different measures, and so are threads and "
    "processes: switching between processes also changes memory maps.",
    (0.0001, 3600.0),
    resolution=1e-9,
    headline=True,
)


def _read(reply: LoadReply) -> tuple[Measurement | None, ...]:
    wanted = 1
    for name in ("groups", "senders", "receivers", "messages"):
        wanted *= reply.parameters[name]
    if reply.number("messages") != wanted:
        raise BadRun(f"the load passed {reply.number('messages')} of {wanted} messages", hint="run the benchmark again")
    return (time_of(reply, "time", "elapsed_ns"),)


BENCHMARKS = tuple(
    LoadBenchmark(
        name=f"agent-messaging-{channel}" + ("-process" if tasks == "process" else ""),
        what=f"Wall time for groups of {plural} to pass messages of 100 bytes through {channel}s.",
        load="messaging",
        outcomes=(_TIME,),
        reader=_read,
        fixed={"channel": channel, "tasks": tasks},
        parameters={"groups": 10, "senders": 20, "receivers": 20, "messages": 400, "message_bytes": 100},
    )
    for (tasks, plural), channel in product((("thread", "threads"), ("process", "processes")), ("pipe", "socket"))
)
