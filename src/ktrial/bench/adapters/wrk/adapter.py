# SPDX-License-Identifier: Apache-2.0
"""wrk: how many requests per second nginx answers on the loopback address, in a closed loop."""

from __future__ import annotations

import msgspec

from ktrial.bench.adapters._servers import APART, LAST_WORDS, NGINX_PACKAGES, PAGE, SHARED, nginx
from ktrial.bench.adapters._tool import (
    Program,
    RemoteLoad,
    ToolBenchmark,
    agree,
    everywhere,
    one_measurement,
    whole,
)
from ktrial.bench.adapters.wrk.output import read_wrk
from ktrial.bench.benchmark import AUTHORITY, GeneratorPart, Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import latency, rate
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Outcome

_QUANTILES = {
    "latency-p50": ("50", "half"),
    "latency-p90": ("90", "all but 10 %"),
    "latency-p99": ("99", "all but 1 %"),
}
#: wrk prints a duration below this as given, and longer ones rounded.
_MINUTE_S = 60
_CLOSED = (
    "A closed loop: each connection sends its next request when the last one is answered. A server that stalls gets "
    "fewer requests, which hides most of the stall. "
)


def _outcomes(where: str) -> tuple[Outcome, ...]:
    blind = _CLOSED + where
    return (
        rate("request-rate", "1/s", "[More|Fewer] requests per second are answered.", blind, (0.1, 1e9), headline=True),
        *(
            latency(
                name,
                f"The server answers {share} of the requests within a [shorter|longer] time.",
                blind,
                high=60.0,
                resolution=1e-6,
            )
            for name, (_, share) in _QUANTILES.items()
        ),
    )


def _local_command(parameters: Parameters) -> Invocation:
    return _command(parameters, f"127.0.0.1:{whole(parameters, 'port', 1024, 65_535)}")


def _command(parameters: Parameters, at: str) -> Invocation:
    """Return how to run wrk once; `at` is the address and port of the server."""
    seconds = whole(parameters, "seconds", 1, 3600)
    connections = whole(parameters, "connections", 1, 4000)
    threads = whole(parameters, "threads", 1, connections)
    page_bytes = whole(parameters, "page_bytes", len(LAST_WORDS), 1_000_000)
    argv = ("wrk", "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s", "--latency")
    return Invocation(
        argv=(*argv, f"http://{at}/{PAGE}"),
        limit_s=2.0 * seconds + 30,
        expected_s=seconds,
        steps=nginx(at, whole(parameters, "workers", 1, 1024), page_bytes),
    )


def _remote_command(parameters: Parameters) -> Invocation:
    reach = ("wrk", "-t", "1", "-c", "1", "-d", "1s", f"http://{AUTHORITY}/{PAGE}")
    part = GeneratorPart(reach=reach, threads=whole(parameters, "threads"))
    return msgspec.structs.replace(_command(parameters, AUTHORITY), generator=part)


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_wrk(raw.stdout)
    asked = {name: parameters[name] for name in ("threads", "connections")}
    agree(asked, {"threads": run.threads, "connections": run.connections})
    seconds = whole(parameters, "seconds", 1, 3600)
    if run.duration is not None and seconds < _MINUTE_S:
        agree({"duration": f"{seconds}s"}, {"duration": run.duration})
    if any(run.errors.values()):
        listed = ", ".join(f"{kind} {count}" for kind, count in run.errors.items())
        raise BadRun(f"connections failed: {listed} (the timeout is 2 s)", hint="lower the parameter connections")
    if run.refused:
        raise BadRun(
            f"{run.refused} of {run.requests} responses were errors (neither 2xx nor 3xx)",
            hint="run the benchmark again",
        )
    measurements = one_measurement("request-rate", run.rate)
    for name, (percent, _) in _QUANTILES.items():
        measurements += one_measurement(name, run.quantiles[percent])
    return ParsedRun(measurements=measurements, details={"requests": run.requests})


BENCHMARK = ToolBenchmark(
    name="wrk-nginx",
    what="Requests for one page of nginx over TCP on the loopback address, in a closed loop.",
    program=Program(
        needs=("wrk", "nginx", "sh"),
        packages={tool: f"{package} wrk" for tool, package in NGINX_PACKAGES.items()},
        version=("sh", "-c", "wrk -v; nginx -v"),
        version_pattern=r"(?s)(wrk \S+).*(nginx/\S+)",
    ),
    outcomes=_outcomes(SHARED),
    parameters={"seconds": 10, "connections": 16, "threads": 2, "workers": 1, "page_bytes": 1024, "port": 18_731},
    command=_local_command,
    reader=_read,
    remote=RemoteLoad(
        what="Requests for one page of nginx over TCP from another machine, in a closed loop.",
        server=Program(
            needs=("nginx",), packages=NGINX_PACKAGES, version=("nginx", "-v"), version_pattern=r"(nginx/\S+)"
        ),
        generator=Program(
            needs=("wrk",), packages=everywhere("wrk"), version=("wrk", "-v"), version_pattern=r"(wrk \S+)"
        ),
        outcomes=_outcomes(APART),
        command=_remote_command,
        without=("port",),
    ),
)
