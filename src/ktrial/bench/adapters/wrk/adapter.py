# SPDX-License-Identifier: Apache-2.0
"""wrk: how many requests per second nginx answers on the loopback address, in a closed loop."""

from __future__ import annotations

from ktrial.bench.adapters._servers import LAST_WORDS, NGINX_PACKAGES, PAGE, nginx
from ktrial.bench.adapters._tool import Program, ToolBenchmark, agree, one_measurement, whole
from ktrial.bench.adapters.wrk.output import read_wrk
from ktrial.bench.benchmark import Invocation, Parameters, ParsedRun, RawOutput
from ktrial.bench.outcomes import latency, rate
from ktrial.kit.errors import BadRun

_QUANTILES = {
    "latency-p50": ("50", "half"),
    "latency-p90": ("90", "all but 10 %"),
    "latency-p99": ("99", "all but 1 %"),
}
#: wrk prints a duration below this as given, and longer ones rounded.
_MINUTE_S = 60
_CLOSED = (
    "A closed loop: each connection sends its next request when the last one is answered. A server that stalls gets "
    "fewer requests, which hides most of the stall. Server and clients share the CPUs."
)


_OUTCOMES = (
    rate("request-rate", "1/s", "[More|Fewer] requests per second are answered.", _CLOSED, (0.1, 1e9), headline=True),
    *(
        latency(
            name,
            f"The server answers {share} of the requests within a [shorter|longer] time.",
            _CLOSED,
            high=60.0,
            resolution=1e-6,
        )
        for name, (_, share) in _QUANTILES.items()
    ),
)


def _command(parameters: Parameters) -> Invocation:
    seconds, port = whole(parameters, "seconds", 1, 3600), whole(parameters, "port", 1024, 65_535)
    connections = whole(parameters, "connections", 1, 4000)
    threads = whole(parameters, "threads", 1, connections)
    page_bytes = whole(parameters, "page_bytes", len(LAST_WORDS), 1_000_000)
    argv = ("wrk", "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s", "--latency")
    return Invocation(
        argv=(*argv, f"http://127.0.0.1:{port}/{PAGE}"),
        limit_s=2.0 * seconds + 30,
        expected_s=seconds,
        steps=nginx(port, whole(parameters, "workers", 1, 1024), page_bytes),
    )


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_wrk(raw.stdout)
    asked = {name: parameters[name] for name in ("threads", "connections")}
    agree(asked, {"threads": run.threads, "connections": run.connections})
    seconds = whole(parameters, "seconds", 1, 3600)
    if run.duration is not None and seconds < _MINUTE_S:
        agree({"duration": f"{seconds}s"}, {"duration": run.duration})
    if any(run.errors.values()):
        listed = ", ".join(f"{kind} {count}" for kind, count in run.errors.items())
        raise BadRun(
            f"connections failed: {listed}", hint="check whether nginx ended during the run; the timeout is 2 s"
        )
    if run.refused:
        raise BadRun(f"{run.refused} of {run.requests} responses were errors (neither 2xx nor 3xx)")
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
    outcomes=_OUTCOMES,
    parameters={"seconds": 10, "connections": 16, "threads": 2, "workers": 1, "page_bytes": 1024, "port": 18_731},
    command=_command,
    reader=_read,
)
