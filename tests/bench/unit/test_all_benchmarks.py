# SPDX-License-Identifier: Apache-2.0
"""What every benchmark must declare and refuse, whichever folder it lies in."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ktrial.bench import adapters
from ktrial.bench.benchmark import Benchmark, check_measurements
from ktrial.kit.errors import BadInput, BadRun
from ktrial.machine.facts import Fact, FactBook
from tests.support.bench import REQUIRED, answer

ALL = adapters.all_benchmarks()
FACTS = FactBook(
    {
        "cpu.architecture": Fact(value="x86_64"),
        "cpu.threads": Fact(value=8),
        "cpu.cores": Fact(value=8),
        "memory.total": Fact(value=2**34),
        "memory.available": Fact(value=2**33),
    }
)
KINDS_OF_UNITS = {
    "time": {"s"},
    "latency-quantile": {"s"},
    "rate": {"1/s", "B/s"},
    "count": {"count", "B", "1/s", "ratio"},
    "size": {"B"},
    "score": {"score", "ratio", "s", "count"},
    "energy": {"J"},
    "power": {"W"},
}


@pytest.fixture(params=sorted(ALL))
def benchmark_(request: pytest.FixtureRequest) -> Benchmark:
    return ALL[str(request.param)]


def whole(benchmark: Benchmark) -> dict[str, Any]:
    """All parameters, those too that have no default."""
    return {**benchmark.parameters, **REQUIRED.get(benchmark.name, {})}


def test_they_are_found_by_walking() -> None:
    assert {"hackbench", "perf_bench", "sysbench", "stress_ng", "fio"} <= set(adapters.tools())
    assert len(ALL) >= 20


def test_its_names_and_sentences(benchmark_: Benchmark) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", benchmark_.name)
    assert benchmark_.what.endswith(".")
    assert all("/" not in program or program.startswith(("/sys/", "/system/")) for program in benchmark_.needs)
    assert set(benchmark_.packages) <= {"apt", "dnf", "pacman", "zypper"}
    assert benchmark_.root_reason is None or benchmark_.root_reason
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) for name in benchmark_.parameters)
    assert benchmark_.user_reason is None or benchmark_.user_reason


def test_its_outcomes_say_what_they_are(benchmark_: Benchmark) -> None:
    names = [outcome.name for outcome in benchmark_.outcomes]
    assert len(set(names)) == len(names) > 0
    assert sum(outcome.headline for outcome in benchmark_.outcomes) == 1
    for outcome in benchmark_.outcomes:
        assert outcome.low < outcome.high, outcome.name
        assert outcome.unit in KINDS_OF_UNITS[outcome.kind], outcome.name
        assert outcome.resolution is None or outcome.resolution > 0, outcome.name
        for sentence in (outcome.better, outcome.worse, outcome.blind_spots):
            assert sentence.endswith("."), f"{outcome.name}: {sentence!r}"
        if outcome.kind in {"time", "latency-quantile"}:
            assert outcome.direction == "lower", outcome.name
        if outcome.kind != "score":
            assert outcome.low >= 0, outcome.name


def test_its_invocation_has_an_end_and_a_fixed_program(benchmark_: Benchmark) -> None:
    invocation = benchmark_.invocation(whole(benchmark_), FACTS)
    assert 0 < invocation.limit_s < 86_400
    assert (invocation.load is None) == bool(invocation.argv)
    if invocation.argv:
        assert invocation.argv[0] in benchmark_.needs
    assert all(not name.startswith("/") and ".." not in name for name in invocation.files)
    asked = benchmark_.version_invocation()
    assert asked is None or asked.argv[0] in benchmark_.needs


def is_refused(benchmark: Benchmark, printed: bytes) -> bool:
    invocation = benchmark.invocation(whole(benchmark), FACTS)
    raw = answer(printed, stderr=printed, files=dict.fromkeys(invocation.files, printed))
    try:
        check_measurements(benchmark.outcomes, benchmark.parse(raw, benchmark.parameters))
    except BadRun:
        return True
    return False


def test_what_it_does_not_know_fails(benchmark_: Benchmark) -> None:
    unknown = [
        b"",
        b"\n\n",
        b"nothing of this is known\n",
        b"{",
        b"\x00\xff\xfe\x80" * 64,
        b"Time: nan\nTotal time: -1\n",
    ]
    assert [printed for printed in unknown if not is_refused(benchmark_, printed)] == []


@pytest.mark.parametrize("program, fault", [("a 'b", "a quote is not closed"), ("a\\", "it ends with a backslash")])
def test_a_command_line_that_no_shell_can_split(program: str, fault: str) -> None:
    with pytest.raises(BadInput, match=f"cannot parse parameter program .*: {fault}$"):
        ALL["mangohud"].invocation({**ALL["mangohud"].parameters, "program": program}, FACTS)
