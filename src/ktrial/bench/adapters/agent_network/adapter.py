# SPDX-License-Identifier: Apache-2.0
"""The agent's `tcp`: a stream, and requests with responses, between two network namespaces with a link of its own."""

from __future__ import annotations

from ktrial.bench.adapters._agent_load import LoadBenchmark, latency, per_second, time_of
from ktrial.bench.adapters._agent_load_reply import LoadReply
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Measurement, Outcome

_BLIND = (
    "Both ends are on this machine and share its CPUs; no network card, driver or interrupt takes part. Without delay, "
    "loss or rate it shows what the CPU costs, and says nothing of congestion control."
)
_BLIND_REQUEST = (
    "At a rate it counts from the moment at which the request was due, so that waiting behind others is in it. "
    + _BLIND
)
#: A window that is shorter than this share of what was asked for ended early.
_WHOLE = 0.99
_LINK = {
    "congestion": None,
    "qdisc": None,
    "delay_us": 0,
    "loss_ppm": 0,
    "rate_bytes_per_s": 0,
    "limit_packets": 1000,
}
_COMMON = {"connections": 1, "duration_s": 10.0, "ramp_s": 1, **_LINK}
_QUANTILES = {
    "response-p50": ("p50_ns", "the typical request"),
    "response-p99": ("p99_ns", "the latest request in a hundred"),
    "response-p999": ("p99_9_ns", "the latest request in a thousand"),
}


def _retransmits(when: str) -> Outcome:
    return Outcome(
        name="retransmits",
        unit="count",
        direction="lower",
        kind="count",
        resolution=1,
        low=0,
        high=1e12,
        better="Fewer segments had to be sent again.",
        worse="More segments had to be sent again.",
        blind_spots=f"Counted by the kernel of all connections {when}; grows with the bytes sent, and holds segments "
        "that were sent again although they had arrived.",
    )


_GOODPUT = Outcome(
    name="goodput",
    unit="B/s",
    direction="higher",
    kind="rate",
    low=1.0,
    high=1e12,
    better="More bytes a second arrived.",
    worse="Fewer bytes a second arrived.",
    blind_spots="Bytes that the receiver took, without headers, after the ramp. One number for all connections: "
    "fairness and the delay of a full queue are not seen. " + _BLIND,
    headline=True,
)


def _again(reply: LoadReply) -> Measurement:
    count = reply.number("retransmits") or 0
    return Measurement(outcome="retransmits", value=count, original=str(count))


def _read_stream(reply: LoadReply) -> tuple[Measurement | None, ...]:
    if reply.positive("window_ns") < reply.parameters["duration_s"] * 1e9 * _WHOLE:
        raise BadRun("a connection ended before the time was over")
    return (per_second(reply, "goodput", "received_bytes", "window_ns"), _again(reply))


def _read_requests(reply: LoadReply) -> tuple[Measurement | None, ...]:
    planned, answered = reply.number("planned"), reply.number("count")
    if planned is not None and planned != answered:
        raise BadRun(f"{planned} requests were to be answered, but {answered} were")
    found = [time_of(reply, outcome, name) for outcome, (name, _) in _QUANTILES.items()]
    return (*found, time_of(reply, "response-max", "max_ns"), _again(reply))


BENCHMARKS = (
    LoadBenchmark(
        name="agent-tcp-stream",
        what="Bytes a second that arrive over TCP at the other end of a link, which may delay, lose and slow down.",
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
                latency(
                    outcome,
                    f"The response to {which} came sooner.",
                    f"The response to {which} came later.",
                    _BLIND_REQUEST,
                    headline=outcome == "response-p99",
                )
                for outcome, (_, which) in _QUANTILES.items()
            ),
            latency(
                "response-max",
                "The response that took longest came sooner.",
                "The response that took longest came later.",
                f"Grows with the number of requests. {_BLIND_REQUEST}",
            ),
            _retransmits("from the first request on"),
        ),
        reader=_read_requests,
        fixed={"mode": "request-response"},
        parameters={**_COMMON, "rate_per_s": 1000, "request_bytes": 64, "response_bytes": 64},
    ),
)
