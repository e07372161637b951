# SPDX-License-Identifier: Apache-2.0
"""The agent's `requests`: how long servers take to answer at a fixed rate, in an open loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ktrial.bench.adapters._agent_load import check_reply, left_out_note, per_second, time_of
from ktrial.bench.adapters._agent_load_reply import read_load
from ktrial.bench.adapters._servers import LAST_WORDS, NGINX_PACKAGES, PAGE, REDIS_PACKAGES, REDIS_SOCKET, nginx, redis
from ktrial.bench.adapters._tool import Program, ToolBenchmark, whole
from ktrial.bench.benchmark import DIRECTORY, AgentLoad, Invocation, Parameters, ParsedRun, RawOutput, Step
from ktrial.bench.outcomes import latency, rate
from ktrial.kit.errors import BadRun

_KEY = "ktrial"
#: Above this share of unanswered requests, a note says that the rate was not reached.
_LEFT_OVER = 0.001
_BLIND = (
    "From the moment at which a request was due to the whole answer, including the wait for a free connection and the "
    "lateness of the client's own timer. If the server cannot keep up with the rate, the queue and the latency grow "
    "with the length of the run. Server and client share the CPUs. The request is always the same."
)
_QUANTILES = {
    "latency-p50": ("p50_ns", "half"),
    "latency-p99": ("p99_ns", "all but 1 %"),
    "latency-p999": ("p99_9_ns", "all but 0.1 %"),
}
_OUTCOMES = (
    *(
        latency(
            name,
            f"The server answers {share} of the requests within a [shorter|longer] time.",
            _BLIND,
            headline=name == "latency-p99",
        )
        for name, (_, share) in _QUANTILES.items()
    ),
    latency("latency-max", "The slowest answer takes [less|more] time.", _BLIND),
    rate(
        "answer-rate",
        "1/s",
        "[More|Fewer] requests per second are answered.",
        "Cannot exceed the requested rate: it only says whether the server kept up.",
        (0.0, 1e6),
    ),
)


def _load(parameters: Parameters, asks: Mapping[str, str]) -> AgentLoad:
    rate, seconds = whole(parameters, "rate", 1, 1_000_000), whole(parameters, "seconds", 1, 3600)
    connections = whole(parameters, "connections", 1, min(rate, 1000))
    own = {"connections": connections, "rate_per_s": rate, "duration_s": seconds}
    return AgentLoad(name="requests", parameters={**asks, **own})


def _invocation(load: AgentLoad, steps: tuple[Step, ...]) -> Invocation:
    seconds = load.parameters["duration_s"]
    return Invocation(load=load, limit_s=min(seconds + 60.0, 3600.0), expected_s=seconds, steps=steps)


def _nginx_load(parameters: Parameters) -> AgentLoad:
    port = whole(parameters, "port", 1024, 65_535)
    return _load(
        parameters,
        {
            "address": f"tcp:127.0.0.1:{port}",
            "request": f"GET /{PAGE} HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "begins": "HTTP/1.1 200 OK\r\n",
            "ends": LAST_WORDS,
        },
    )


def _nginx(parameters: Parameters) -> Invocation:
    page_bytes = whole(parameters, "page_bytes", len(LAST_WORDS), 1_000_000)
    at = f"127.0.0.1:{whole(parameters, 'port', 1024, 65_535)}"
    steps = nginx(at, whole(parameters, "workers", 1, 1024), page_bytes)
    return _invocation(_nginx_load(parameters), steps)


def _redis_load(parameters: Parameters) -> AgentLoad:
    value_bytes = whole(parameters, "value_bytes", len(LAST_WORDS), 1_000_000)
    return _load(
        parameters,
        {
            "address": f"unix:{DIRECTORY}/{REDIS_SOCKET}",
            "request": f"GET {_KEY}\r\n",
            "begins": f"${value_bytes}\r\n",
            "ends": f"{LAST_WORDS}\r\n",
        },
    )


def _redis(parameters: Parameters) -> Invocation:
    value = LAST_WORDS.rjust(whole(parameters, "value_bytes", len(LAST_WORDS), 1_000_000), "x")
    put = Step(argv=("redis-cli", "-s", REDIS_SOCKET, "-x", "set", _KEY), stdin=value.encode())
    return _invocation(_redis_load(parameters), (redis(), put))


def _read(raw: RawOutput, parameters: Parameters, load: Callable[[Parameters], AgentLoad]) -> ParsedRun:
    reply = read_load(raw.stdout)
    asked = load(parameters)
    # The address contains the run's folder, so it is not compared.
    check_reply(reply, asked.name, {name: value for name, value in asked.parameters.items() if name != "address"})
    planned, answered = reply.positive("planned"), reply.positive("answered")
    left_over = reply.number("left_over") or 0
    if answered + left_over != planned:
        raise BadRun(
            f"the agent planned {planned} requests, but reports {answered} answered and {left_over} unanswered",
            hint="run the benchmark again",
        )
    times = [time_of(reply, name, key) for name, (key, _) in _QUANTILES.items()]
    found = [*times, time_of(reply, "latency-max", "max_ns"), per_second(reply, "answer-rate", "answered")]
    notes: tuple[str, ...] = ()
    if left_over > _LEFT_OVER * planned:
        rate = asked.parameters["rate_per_s"]
        notes += (
            f"the server did not keep up with {rate} requests per second: {left_over} of {planned} were not answered",
        )
    if None in found:
        notes += (left_out_note(found.count(None)),)
    return ParsedRun(
        measurements=tuple(one for one in found if one is not None),
        details={"results": reply.results, **({"histogram_ns": reply.histogram} if reply.histogram else {})},
        notes=notes,
    )


_COMMON = {"rate": 2000, "seconds": 10, "connections": 16}
BENCHMARKS = (
    ToolBenchmark(
        name="agent-requests-nginx",
        what="Requests for one page of nginx over TCP on the loopback address at a fixed rate, in an open loop.",
        program=Program(
            needs=("nginx",), packages=NGINX_PACKAGES, version=("nginx", "-v"), version_pattern=r"(nginx/\S+)"
        ),
        outcomes=_OUTCOMES,
        parameters={**_COMMON, "workers": 1, "page_bytes": 1024, "port": 18_731},
        command=_nginx,
        reader=lambda raw, parameters: _read(raw, parameters, _nginx_load),
    ),
    ToolBenchmark(
        name="agent-requests-redis",
        what="Reads of one key of redis over a Unix socket at a fixed rate, in an open loop.",
        program=Program(
            needs=("redis-server", "redis-cli"),
            packages=REDIS_PACKAGES,
            version=("redis-server", "--version"),
            version_pattern=r"v=(\S+)",
        ),
        outcomes=_OUTCOMES,
        parameters={**_COMMON, "value_bytes": 64},
        command=_redis,
        reader=lambda raw, parameters: _read(raw, parameters, _redis_load),
    ),
)
