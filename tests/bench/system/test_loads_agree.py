# SPDX-License-Identifier: Apache-2.0
"""The agent's loads for real: every benchmark runs, and agrees with the tool that measures the same."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.agent.session import AgentSession
from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.adapters._agent_load import LoadBenchmark
from ktrial.bench.benchmark import SERVER_ADDRESS, RawOutput, check_measurements
from ktrial.kit.json_bytes import read_bytes
from ktrial.machine.facts import FactBook
from tests.support.references import REFERENCES, ours, theirs, user_session

ROUNDS = 5
#: Those that need root are run in their own tests.
BENCHMARKS = {
    name: found
    for name, found in all_benchmarks().items()
    if isinstance(found, LoadBenchmark) and found.root_reason is None
}
#: Less work than a suite asks for.
SMALL: dict[str, Any] = {"duration_s": 0.2, "bytes": 4 << 20, "messages": 10, "groups": 2, "yields": 20}
SMALL |= {
    "file_bytes": 32 << 20,
    "burst_bytes": 8 << 20,
    "bursts_per_s": 50,
    "reserve_bytes": 64 << 20,
    "frames_per_s": 500,
}
# They share the machine's CPUs with nobody of this file.
pytestmark = pytest.mark.xdist_group("loads")


@pytest.fixture
def session() -> Iterator[AgentSession]:
    session = user_session()
    yield session
    session.close()


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_every_benchmark_runs(name: str, session: AgentSession) -> None:
    benchmark = BENCHMARKS[name]
    chosen = {key: value for key, value in SMALL.items() if key in benchmark.parameters}
    if name.startswith("agent-tcp"):
        # A connection may miss 1 % of the time at most: of 0.2 s a busy machine misses more by waking it late.
        chosen["duration_s"] = 2.0
    invocation = benchmark.invocation(chosen, FactBook({}))
    assert invocation.load is not None
    load = invocation.load
    answer = session.request("load", load=load.name, parameters=dict(load.parameters), limit_s=invocation.limit_s)
    run = benchmark.parse(RawOutput(stdout=msgspec.json.encode(answer), exit_status=0), chosen)
    check_measurements(benchmark.outcomes, run)
    headline = {outcome.name for outcome in benchmark.outcomes if outcome.headline}
    assert headline <= {measurement.outcome for measurement in run.measurements}


def spread(values: Sequence[float]) -> float:
    """How many times the largest is the smallest: what one machine at one time says of its own noise."""
    return max(values) / min(values)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_agrees_with_its_reference(name: str, session: AgentSession) -> None:
    reference = REFERENCES[name]
    assert reference.program is not None, f"{reference.name} is not installed: ./check as root installs it"
    assert not reference.needs_root or os.geteuid() == 0, f"{reference.name} wants real-time priorities: run as root"
    pairs = [(ours(reference, session), theirs(reference, session)) for _ in range(ROUNDS)]
    own, others = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    apart = statistics.median(own) / statistics.median(others)
    noise = spread(own) * spread(others)
    allowed = reference.factor * noise
    said = f"{apart:.3g} times {reference.name}'s, allowed {allowed:.3g} (noise {noise:.3g}): {own} and {others}"
    assert 1 / allowed <= apart <= allowed, said


def compiled(name: str, folder: Path) -> Path:
    """A program of tests/support."""
    source = Path(__file__).parents[2] / f"support/{name}.c"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", folder / name, source], check=True)
    return folder / name


def printed(argv: Sequence[object]) -> float:
    """The number that a program prints, on CPU 0."""
    words = ["taskset", "--cpu-list", "0", *map(str, argv)]
    return float(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout)


def check_agreement(ours: Callable[[], float], theirs: Callable[[], float], factor: float) -> None:
    """Both in turn."""
    own, others = [], []
    for _ in range(ROUNDS):
        own.append(ours())
        others.append(theirs())
    apart = statistics.median(own) / statistics.median(others)
    allowed = factor * spread(own) * spread(others)
    assert 1 / allowed <= apart <= allowed, f"{apart:.3g} times, allowed {allowed:.3g}: {own} and {others}"


@pytest.mark.parametrize(
    "order, kind, factor",
    [
        # The same order of events in another language.
        ("timer", "futex", 1.5),
        ("timer", "pipe", 1.5),
        ("timer", "eventfd", 1.5),
        # schbench's: the sleeper has just woken its waker, so that the way through the kernel is in the caches, and the
        # waker starts no timer after it. That takes some 0.4 times as long.
        ("closed", "futex", 4.0),
    ],
)
def test_wake_ups_take_as_long_as_those_of_a_program_in_c(
    order: str, kind: str, factor: float, session: AgentSession, tmp_path: Path
) -> None:
    def agents() -> float:
        parameters = {"kind": kind, "rate_per_s": 1000, "duration_s": 0.15}
        answer = session.request("load", load="wakeup", parameters=parameters, limit_s=60.0, cpus=[0])
        return float(answer["results"]["ring_p50_ns"])

    program = compiled("wakeup", tmp_path)
    check_agreement(agents, lambda: printed([program, order, kind]), factor)


@pytest.mark.parametrize("backing", ["anonymous", "huge", "file"])
def test_page_faults_are_as_fast_as_those_of_a_program_in_c(
    backing: str, session: AgentSession, tmp_path: Path
) -> None:
    kind = {"backing": "anonymous", "huge_pages": "always"} if backing == "huge" else {"backing": backing}

    def agents() -> float:
        parameters = {**kind, "bytes": 4 << 20, "duration_s": 0.1, "directory": "/var/tmp"}
        answer = session.request("load", load="pagefault", parameters=parameters, limit_s=60.0, cpus=[0])
        return float(answer["results"]["pages"] / answer["results"]["elapsed_ns"] * 1e9)

    program = compiled("pagefault", tmp_path)
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        names = [file.name] if backing == "file" else []
        check_agreement(agents, lambda: printed([program, backing, *names]), 1.5)


def test_arithmetic_is_as_fast_as_that_of_a_program_in_c(session: AgentSession, tmp_path: Path) -> None:
    def agents() -> float:
        answer = session.request("load", load="spin", parameters={"threads": 1}, limit_s=0.1, cpus=[0])
        assert answer["ended"] == "limit"
        return float(answer["results"]["rounds"] / answer["results"]["elapsed_ns"] * 1e9)

    program = compiled("spin", tmp_path)
    check_agreement(agents, lambda: printed([program]), 1.5)


@pytest.mark.parametrize(
    "what, result",
    [
        ("frames", lambda results: results["p50_ns"]),
        ("bursts", lambda results: results["burst_p50_ns"]),
        ("read", lambda results: results["read_bytes"] / results["elapsed_ns"] * 1e9),
    ],
)
def test_frames_beside_pressure_are_those_of_a_program_in_c(
    what: str, result: Callable[[dict[str, Any]], float], session: AgentSession, tmp_path: Path
) -> None:
    parameters = {
        "file_bytes": 32 << 20,
        "burst_bytes": 8 << 20,
        "bursts_per_s": 50,
        "readers": 1,
        "frames_per_s": 500,
        "reserve_bytes": 64 << 20,
        "duration_s": 0.3,
        "directory": "/var/tmp",
    }

    def agents() -> float:
        answer = session.request("load", load="pressure", parameters=parameters, limit_s=60.0, cpus=[0])
        assert answer["ended"] == "done"
        return float(result(answer["results"]))

    program = compiled("pressure", tmp_path)
    check_agreement(agents, lambda: printed([program, "/var/tmp", what]), 1.5)


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A program that answers on CPU 0, and its socket; every 200th answer keeps all others waiting for `param` ms."""
    program, socket = compiled("requests", tmp_path), tmp_path / "socket"
    words = ["taskset", "--cpu-list", "0", str(program), "serve", str(socket), str(request.param)]
    with subprocess.Popen(words) as process:
        while not socket.exists():
            assert process.poll() is None
        yield program, socket
        process.kill()


@pytest.mark.parametrize(
    "server, percent",
    [
        (0, 50),
        # The server answers nobody for a fifth of the time. A closed loop has four requests that wait for it, of 200.
        (80, 90),
    ],
    indirect=["server"],
)
def test_answers_take_as_long_as_a_program_in_c_says(
    server: tuple[Path, Path], percent: int, session: AgentSession
) -> None:
    program, socket = server
    asked = {"address": f"unix:{socket}", "request": "ask\n", "begins": "ok", "ends": "\n"}

    def agents() -> float:
        parameters = {**asked, "connections": 4, "rate_per_s": 1000, "duration_s": 0.4}
        answer = session.request("load", load="requests", parameters=parameters, limit_s=60.0, cpus=[0])
        assert answer["results"]["answered"] == 400
        return float(answer["results"][f"p{percent}_ns"])

    check_agreement(agents, lambda: printed([program, "ask", socket, percent]), 1.5)


def test_responses_over_tcp_take_as_long_as_those_of_a_program_in_c(session: AgentSession, tmp_path: Path) -> None:
    def agents() -> float:
        parameters = {"mode": "request-response", "rate_per_s": 0, "duration_s": 0.3, "ramp_s": 0}
        answer = session.request("load", load="tcp", parameters=parameters, limit_s=60.0)
        assert answer["ended"] == "done"
        return float(answer["results"]["p50_ns"])

    program = str(compiled("exchange", tmp_path))

    def programs() -> float:
        answer = session.request(
            "exec",
            argv=[program, "ask", SERVER_ADDRESS, "5202"],
            environment={},
            directory="/",
            limit_s=60.0,
            network={},
            server={"argv": [program, "serve", "5202"], "port": 5202},
        )
        assert answer["exit"] == {"status": 0}
        return float(read_bytes(answer["stdout"]))

    check_agreement(agents, programs, 1.5)
