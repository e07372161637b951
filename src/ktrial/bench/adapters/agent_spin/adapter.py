# SPDX-License-Identifier: Apache-2.0
"""The agent's `spin`: threads that compute without pause."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, evenness, per_second
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.kit.outcome import Measurement, Outcome

_OUTCOMES = (
    Outcome(
        name="round-rate",
        unit="1/s",
        direction="higher",
        kind="rate",
        low=1.0,
        high=1e9,
        better="The threads computed more in a second.",
        worse="The threads computed less in a second.",
        blind_spots="Arithmetic in registers: neither memory nor the kernel is used. Clocks and CPU time decide.",
        headline=True,
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
    return (per_second(reply, "round-rate", "rounds"), evenness(reply, "evenness"))


BENCHMARK = LoadBenchmark(
    name="agent-spin",
    what="Rounds of arithmetic per second of threads that compute without pause.",
    load="spin",
    outcomes=_OUTCOMES,
    reader=_read,
    parameters={"threads": None, "duration_s": 5.0},
    until_told=True,
)
