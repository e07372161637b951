# SPDX-License-Identifier: Apache-2.0
"""The agent's `tcp`: a stream, and requests with responses, over a link between two network namespaces."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, per_second, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.bench.outcomes import latency, outcome, rate
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement, Outcome

_BLIND = (
    "Both ends are on this machine and share its CPUs; no network card, driver or interrupt takes part. Without delay, "
    "loss or rate it shows the cost in CPU time, and nothing about congestion control."
)
_BLIND_REQUEST = (
    "At a fixed rate, time counts from when the request was due, so it includes waiting behind other requests. "
    + _BLIND
)
#: A measurement shorter than this share of the requested time ended early.
_WHOLE = 0.99
_LINK = {"congestion": None, "qdisc": None, "delay_us": 0, "loss_ppm": 0, "rate_bytes_per_s": 0, "limit_packets": 1000}
_COMMON = {"connections": 1, "duration_s": 10.0, "ramp_s": 1, **_LINK}
_QUANTILES = {
    "response-p50": ("p50_ns", "A typical response takes"),
    "response-p99": ("p99_ns", "The slowest 1 % of responses take"),
    "response-p999": ("p99_9_ns", "The slowest 0.1 % of responses take"),
}


def _retransmits(when: str) -> Outcome:
    return outcome(
        "retransmits",
        "count",
        "count",
        "[Fewer|More] segments have to be sent again.",
        f"The kernel's count for all connections {when}; grows with the bytes sent, and includes segments "
        "that were sent again although they had arrived.",
        (0, 1e12),
        resolution=1,
    )


_GOODPUT = rate(
    "goodput",
    "B/s",
    "[More|Fewer] bytes arrive per second.",
    "Bytes that the receiver got, without headers, after the ramp. One number for all connections: it shows neither "
    "fairness nor the delay of a full queue. " + _BLIND,
    (1.0, 1e12),
    headline=True,
)


def _again(reply: LoadReply) -> Measurement:
    count = reply.number("retransmits") or 0
    return Measurement(outcome="retransmits", value=count, original=str(count))


def _read_stream(reply: LoadReply) -> tuple[Measurement | None, ...]:
    if reply.positive("window_ns") < reply.parameters["duration_s"] * 1e9 * _WHOLE:
        hint = "lower loss_ppm" if reply.parameters.get("loss_ppm") else "run the benchmark again"
        raise BadRun("a connection ended before the end of the run", hint=hint)
    return (per_second(reply, "goodput", "received_bytes", "window_ns"), _again(reply))


def _read_requests(reply: LoadReply) -> tuple[Measurement | None, ...]:
    planned, answered = reply.number("planned"), reply.number("count")
    if planned is not None and planned != answered:
        raise BadRun(f"the load planned {planned} requests, but got {answered} answers", hint="lower rate_per_s")
    found = [time_of(reply, outcome, name) for outcome, (name, _) in _QUANTILES.items()]
    return (*found, time_of(reply, "response-max", "max_ns"), _again(reply))


BENCHMARKS = (
    LoadBenchmark(
        name="agent-tcp-stream",
        what="Bytes per second that arrive over TCP at the other end of a link with delay, loss and a limited rate.",
        load="tcp",
        outcomes=(_GOODPUT, _retransmits("after the ramp")),
        reader=_read_stream,
        fixed={"mode": "stream"},
        parameters={**_COMMON, "message_bytes": 131072},
    ),
    LoadBenchmark(
        name="agent-tcp-request",
        what="Time to the response to a small request over TCP, at a fixed rate or one after the other (rate 0).",
        load="tcp",
        outcomes=(
            *(
                latency(outcome, f"{which} [less|more] time.", _BLIND_REQUEST, headline=outcome == "response-p99")
                for outcome, (_, which) in _QUANTILES.items()
            ),
            latency(
                "response-max",
                "The slowest response takes [less|more] time.",
                f"Grows with the number of requests. {_BLIND_REQUEST}",
            ),
            _retransmits("from the first request on"),
        ),
        reader=_read_requests,
        fixed={"mode": "request-response"},
        parameters={**_COMMON, "rate_per_s": 1000, "request_bytes": 64, "response_bytes": 64},
    ),
)
