# SPDX-License-Identifier: Apache-2.0
"""The agent's loads for real: every benchmark runs, and agrees with the tool that measures the same."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from ktrial.benchmarks import all_benchmarks
from ktrial.benchmarks.own_load import LoadBenchmark
from ktrial.domain.benchmark import RawOutput, check_measurements
from ktrial.domain.facts import FactBook
from ktrial.host.agent import AgentSession
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
    assert reference.program is not None, f"{reference.argv[0]} is not installed: ./check as root installs it"
    assert not reference.needs_root or os.geteuid() == 0, f"{reference.argv[0]} wants real-time priorities: run as root"
    pairs = [(ours(reference, session), theirs(reference, session)) for _ in range(ROUNDS)]
    own, others = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    apart = statistics.median(own) / statistics.median(others)
    noise = spread(own) * spread(others)
    allowed = reference.factor * noise
    said = f"{apart:.3g} times {reference.argv[0]}'s, allowed {allowed:.3g} (noise {noise:.3g}): {own} and {others}"
    assert 1 / allowed <= apart <= allowed, said
