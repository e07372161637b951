# SPDX-License-Identifier: Apache-2.0
"""redis-benchmark: how many commands per second redis carries out over a Unix socket, in a closed loop."""

from __future__ import annotations

import msgspec

from ktrial.bench.adapters._servers import (
    APART,
    REDIS_PACKAGES,
    REDIS_SOCKET,
    SHARED,
    redis,
    redis_for_generator,
)
from ktrial.bench.adapters._tool import Program, RemoteLoad, ToolBenchmark, one_measurement, whole
from ktrial.bench.adapters.redis_benchmark.output import read_redis_benchmark
from ktrial.bench.benchmark import (
    ADDRESS,
    PORT,
    SECRET,
    GeneratorPart,
    Invocation,
    Parameters,
    ParsedRun,
    RawOutput,
    Step,
)
from ktrial.bench.outcomes import latency, rate
from ktrial.kit.errors import BadRun
from ktrial.kit.outcome import Outcome

_CLOSED = (
    "A closed loop: each client sends its next command when the last one is answered. A server that stalls gets "
    "fewer commands, which hides most of the stall. redis itself has one thread. "
)
_LATENCIES = {
    "latency-p50": "A typical command takes",
    "latency-p95": "The slowest 5 % of commands take",
    "latency-p99": "The slowest 1 % of commands take",
    "latency-max": "The slowest command takes",
}
#: This many writes to random keys for each key leave less than 1 % of them unset.
_WRITES_PER_KEY = 5
_BENCHMARK = ("redis-benchmark", "-s", REDIS_SOCKET)
_REMOTE = ("redis-benchmark", "-h", ADDRESS, "-p", PORT, "-a", SECRET)


def _outcomes(where: str) -> tuple[Outcome, ...]:
    blind = _CLOSED + where
    return (
        rate(
            "command-rate", "1/s", "[More|Fewer] commands per second are carried out.", blind, (1.0, 1e9), headline=True
        ),
        *(
            latency(name, f"{which} [less|more] time.", blind, high=600.0, resolution=8e-6)
            for name, which in _LATENCIES.items()
        ),
    )


def _command(command: str, parameters: Parameters) -> Invocation:
    commands, keys = whole(parameters, "commands"), whole(parameters, "keys", 1, 10_000_000)
    value_bytes = whole(parameters, "value_bytes", 1, 1_000_000)
    to = (*_BENCHMARK, "-r", str(keys), "-d", str(value_bytes))
    filled = (*to, "-t", "set", "-n", str(_WRITES_PER_KEY * keys), "-P", "16", "-q")
    argv = (*to, "-t", command, "-n", str(commands), "-c", str(whole(parameters, "clients", 1, 10_000)), "--csv")
    return Invocation(
        argv=(*argv, "--threads", str(whole(parameters, "threads", 1, 500))),
        # redis-benchmark 7.0 waits for ever if the server ends while it connects; only the limit stops it.
        limit_s=60 + commands / 5000,
        steps=(redis(), Step(argv=filled, limit_s=60 + keys / 100)),
    )


def _remote_command(command: str, parameters: Parameters) -> Invocation:
    here = _command(command, parameters)
    filled = here.steps[-1]
    return msgspec.structs.replace(
        here,
        argv=_over_network(here.argv),
        steps=redis_for_generator(),
        generator=GeneratorPart(
            reach=(*_REMOTE, "-t", "ping_inline", "-n", "1", "-c", "1", "-q"),
            threads=whole(parameters, "threads"),
            steps=(msgspec.structs.replace(filled, argv=_over_network(filled.argv)),),
        ),
    )


def _over_network(argv: tuple[str, ...]) -> tuple[str, ...]:
    return (*_REMOTE, *argv[len(_BENCHMARK) :])


def _read(command: str, raw: RawOutput) -> ParsedRun:
    tests = read_redis_benchmark(raw.stdout)
    if [test.command for test in tests] != [command.upper()]:
        raise BadRun(
            f"asked for {command.upper()}, but redis-benchmark reports {', '.join(t.command for t in tests)}",
            hint="use another version of redis-benchmark",
        )
    (test,) = tests
    return ParsedRun(
        measurements=(
            *one_measurement("command-rate", test.rate),
            *one_measurement("latency-p50", test.latency_p50),
            *one_measurement("latency-p95", test.latency_p95),
            *one_measurement("latency-p99", test.latency_p99),
            *one_measurement("latency-max", test.latency_max),
        )
    )


def _benchmark(command: str, does: str) -> ToolBenchmark:
    return ToolBenchmark(
        name=f"redis-benchmark-{command}",
        what=f"{does} random keys of redis over a Unix socket, in a closed loop.",
        program=Program(
            needs=("redis-benchmark", "redis-server", "redis-cli"),
            packages=REDIS_PACKAGES,
            version=("redis-benchmark", "--version"),
            version_pattern=r"redis-benchmark (\S+)",
        ),
        outcomes=_outcomes(SHARED),
        parameters={"commands": 500_000, "clients": 50, "threads": 1, "keys": 100_000, "value_bytes": 64},
        command=lambda parameters: _command(command, parameters),
        reader=lambda raw, _: _read(command, raw),
        remote=RemoteLoad(
            what=f"{does} random keys of redis over TCP from another machine, in a closed loop.",
            server=Program(
                needs=("redis-server", "redis-cli"),
                packages=REDIS_PACKAGES,
                version=("redis-server", "--version"),
                version_pattern=r"v=(\S+)",
            ),
            generator=Program(
                needs=("redis-benchmark",),
                packages={**REDIS_PACKAGES, "apt": "redis-tools"},
                version=("redis-benchmark", "--version"),
                version_pattern=r"(redis-benchmark \S+)",
            ),
            outcomes=_outcomes(APART),
            command=lambda parameters: _remote_command(command, parameters),
        ),
    )


BENCHMARKS = (_benchmark("get", "Reads"), _benchmark("set", "Writes"))
