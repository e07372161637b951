# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.adapters._agent_load import LoadBenchmark
from ktrial.bench.benchmark import ParsedRun, RawOutput, check_measurements
from ktrial.kit.errors import BadInput, BadRun, UnknownName, UnreadableOutput
from ktrial.machine.facts import Fact, FactBook

BENCHMARKS = {name: found for name, found in all_benchmarks().items() if isinstance(found, LoadBenchmark)}
QUANTILES = {"count": 2000, "mean_ns": 6000, "p50_ns": 5000, "p90_ns": 8000, "p99_ns": 9000, "p99_9_ns": 10000}
LATENCY = {**QUANTILES, "max_ns": 20000, "elapsed_ns": 2_000_000_000}
#: Results of each load as the agent writes them.
RESULTS: dict[str, dict[str, Any]] = {
    "wakeup": {**LATENCY, **{f"ring_{name}": value // 2 for name, value in QUANTILES.items()}},
    "contextswitch": LATENCY,
    "messaging": {"elapsed_ns": 1_500_000_000, "messages": 10 * 20 * 20 * 400, "task_count": 400},
    "pagefault": {"elapsed_ns": 2_000_000_000, "faults": 1_000_000, "pages": 8_000_000, "passes": 3},
    "memcpy": {"elapsed_ns": 500_000_000, "copied_bytes": 4_000_000_000, "passes": 60},
    "lock": {**LATENCY, "least_of_a_thread": 30, "most_of_a_thread": 40},
    "spin": {"elapsed_ns": 5_000_000_000, "rounds": 100_000, "least_of_a_thread": 1, "most_of_a_thread": 4},
    "pressure": {
        **LATENCY,
        **{f"burst_{name}": value * 1000 for name, value in QUANTILES.items()},
        "late_frames": 300,
        "bursts_left_out": 0,
        "allocation_stalls": 12,
        "burst_bytes": 1 << 30,
        "read_bytes": 1_000_000_000,
    },
    "zram": {
        "data_bytes": 1 << 28,
        "stored_bytes": 1 << 28,
        "compressed_bytes": 1 << 27,
        "memory_bytes": 1 << 28,
        "same_pages": 0,
        "written_bytes": 1 << 28,
        "write_ns": 1 << 20,
        "read_bytes": 1 << 28,
        "read_ns": 1 << 19,
    },
    "tcp": {
        **LATENCY,
        "planned": 2000,
        "received_bytes": 15_000_000_000,
        "window_ns": 10_000_000_000,
        "retransmits": 3,
        "network": {"congestion": "bbr"},
    },
    "fileio": {**LATENCY, "moved_bytes": 1_000_000_000, "busy_ns": 500_000_000},
}
#: By hand from the results above.
VALUES: dict[str, dict[str, float]] = {
    "agent-wakeup-pipe": {"lateness-p99": 9e-6, "lateness-max": 2e-5, "wakeup-p50": 2.5e-6},
    "agent-wakeup-timer": {"lateness-p50": 5e-6, "lateness-p999": 1e-5},
    "agent-contextswitch-cross": {"round-trip-mean": 6e-6, "round-trip-p50": 5e-6, "round-trip-p99": 9e-6},
    "agent-messaging-socket": {"time": 1.5},
    "agent-messaging-pipe-process": {"time": 1.5},
    "zram-lz4": {"compression-ratio": 2, "memory-ratio": 1, "write-rate": 256e9, "read-rate": 512e9},
    "agent-pagefault": {"fault-rate": 500_000},
    "agent-pagefault-huge": {"page-rate": 4_000_000},
    "agent-memcpy": {"bandwidth": 8e9},
    "agent-lock": {"event-rate": 1000, "evenness": 0.75},
    "agent-spin": {"round-rate": 20_000, "evenness": 0.25},
    "agent-pressure": {
        "late-frames": 0.15,
        "allocation-stalls": 12,
        "frame-p99": 9e-6,
        "burst-p50": 5e-3,
        "read-rate": 5e8,
    },
    "agent-tcp-stream": {"goodput": 1.5e9, "retransmits": 3},
    "agent-tcp-request": {"response-p50": 5e-6, "response-p99": 9e-6, "response-max": 2e-5, "retransmits": 3},
    "agent-fileio-read-random-cold": {"bandwidth": 2e9, "block-p50": 5e-6},
}


def reply(benchmark: LoadBenchmark, **changes: Any) -> dict[str, Any]:
    """What the agent answers to an invocation with the defaults."""
    load = benchmark.invocation({}, FactBook({})).load
    assert load is not None
    whole = {
        "load": load.name,
        "parameters": {**load.parameters, "a_newer_one": 1},
        "started_ns": 5,
        "wall_ns": 3_000_000_000,
        "ended": "limit" if benchmark.until_told else "done",
        "results": RESULTS[load.name],
        "histogram": {"1023": 17},
    }
    return {**whole, **changes}


def parse(benchmark: LoadBenchmark, answer: dict[str, Any]) -> ParsedRun:
    return benchmark.parse(RawOutput(stdout=msgspec.json.encode(answer), exit_status=0), {})


@pytest.mark.parametrize("name", BENCHMARKS)
def test_contract(name: str) -> None:
    benchmark = BENCHMARKS[name]
    run = parse(benchmark, reply(benchmark))
    check_measurements(benchmark.outcomes, run)
    assert {measurement.outcome for measurement in run.measurements} == {outcome.name for outcome in benchmark.outcomes}
    assert sum(outcome.headline for outcome in benchmark.outcomes) == 1
    assert not run.notes
    assert run.details["histogram_ns"] == {"1023": 17}
    assert (benchmark.needs, benchmark.packages) == ((), {})
    invocation = benchmark.invocation({}, FactBook({}))
    assert invocation.load is not None
    assert invocation.load.as_root == (benchmark.root_reason is not None) == (benchmark.load == "zram")
    for outcome in benchmark.outcomes:
        assert outcome.better.endswith(".")
        assert outcome.worse.endswith(".")
        assert outcome.blind_spots.endswith(".")


@pytest.mark.parametrize("name", VALUES)
def test_values_are_in_base_units(name: str) -> None:
    benchmark = BENCHMARKS[name]
    found = {one.outcome: one.value for one in parse(benchmark, reply(benchmark)).measurements}
    for outcome, value in VALUES[name].items():
        assert found[outcome] == pytest.approx(value), outcome


def test_every_load_has_values_here() -> None:
    assert {BENCHMARKS[name].load for name in VALUES} == set(RESULTS)
    assert {benchmark.load for benchmark in BENCHMARKS.values()} == set(RESULTS)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_load_that_did_not_do_its_work_is_no_measurement(name: str) -> None:
    benchmark = BENCHMARKS[name]
    for ended in {"done", "limit", "told"} - {reply(benchmark)["ended"]}:
        with pytest.raises(BadRun, match="before its work was done"):
            parse(benchmark, reply(benchmark, ended=ended))


def test_another_work_than_asked_is_refused() -> None:
    benchmark = BENCHMARKS["agent-memcpy"]
    with pytest.raises(BadRun, match="threads 1"):
        parse(benchmark, reply(benchmark, parameters={"bytes": 64 << 20, "threads": 2, "duration_s": 3}))
    with pytest.raises(BadRun, match="load memcpy"):
        parse(benchmark, reply(benchmark, load="lock"))
    messaging = BENCHMARKS["agent-messaging-pipe"]
    short = {**RESULTS["messaging"], "messages": 7}
    with pytest.raises(BadRun, match="passed 7 of"):
        parse(messaging, reply(messaging, results=short))


@pytest.mark.parametrize(
    "changes,why",
    [({"compressed_bytes": 0}, "one repeated word"), ({"read_bytes": 1 << 20}, "but the agent read 1048576 bytes")],
)
def test_a_device_that_did_not_compress_all_of_the_data_is_no_measurement(changes: dict[str, int], why: str) -> None:
    benchmark = BENCHMARKS["zram-lz4"]
    with pytest.raises(BadRun, match=why):
        parse(benchmark, reply(benchmark, results={**RESULTS["zram"], **changes}))


def test_a_file_of_ones_own_is_handed_over() -> None:
    benchmark = BENCHMARKS["zram-compression"]
    invocation = benchmark.invocation({"algorithm": "zstd", "data": "/home/me/dump"}, FactBook({}))
    assert invocation.load is not None
    assert invocation.load.data == "/home/me/dump"
    assert invocation.load.parameters == {"algorithm": "zstd", "data": "given", "bytes": 256 << 20, "seed": 1}
    for bad in ({"data": "dump"}, {"data": ""}, {"data": 7}, {"bytes": "1"}, {"seed": -1}):
        with pytest.raises(BadInput, match=next(iter(bad))):
            benchmark.invocation(bad, FactBook({}))


def test_a_connection_that_broke_is_no_measurement() -> None:
    stream, requests = BENCHMARKS["agent-tcp-stream"], BENCHMARKS["agent-tcp-request"]
    with pytest.raises(BadRun, match="before the end of the run"):
        parse(stream, reply(stream, results={**RESULTS["tcp"], "window_ns": 9_000_000_000}))
    with pytest.raises(BadRun, match="planned 2000 requests, but got 1999 answers"):
        parse(requests, reply(requests, results={**RESULTS["tcp"], "count": 1999}))
    one_by_one = parse(requests, reply(requests, results={**RESULTS["tcp"], "planned": None}))
    assert len(one_by_one.measurements) == len(requests.outcomes)


def test_a_quantile_of_too_few_values_is_left_out_and_told() -> None:
    benchmark = BENCHMARKS["agent-wakeup-futex"]
    few = {**RESULTS["wakeup"], "p99_9_ns": None, "ring_p99_9_ns": None}
    run = parse(benchmark, reply(benchmark, results=few))
    assert len(run.measurements) == len(benchmark.outcomes) - 2
    assert run.notes == ("2 outcomes are left out: they need more values than this run has",)
    one = parse(benchmark, reply(benchmark, results={**few, "p99_9_ns": 9}))
    assert one.notes == ("1 outcome is left out: it needs more values than this run has",)


def test_a_load_that_got_no_time_says_so() -> None:
    benchmark = BENCHMARKS["agent-contextswitch-cross"]
    nothing = {name: 0 if name == "count" else None for name in RESULTS["contextswitch"]}
    with pytest.raises(BadRun, match="the load did nothing: its CPUs") as caught:
        parse(benchmark, reply(benchmark, results=nothing))
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\x00", b"[]", b"{}", b'{"load": "memcpy"', b'{"load": 1}'],
    ids=["empty", "binary", "list", "bare", "cut", "typed"],
)
def test_unreadable_replies(data: bytes) -> None:
    with pytest.raises(UnreadableOutput):
        BENCHMARKS["agent-memcpy"].parse(RawOutput(stdout=data, exit_status=0), {})


@pytest.mark.parametrize("value", [None, 0, -1, 1.5, True, "7"])
def test_results_must_be_counts(value: object) -> None:
    benchmark = BENCHMARKS["agent-memcpy"]
    broken = {**RESULTS["memcpy"], "copied_bytes": value}
    with pytest.raises(UnreadableOutput, match="copied_bytes"):
        parse(benchmark, reply(benchmark, results=broken))
    with pytest.raises(UnreadableOutput, match="results with copied_bytes"):
        parse(benchmark, reply(benchmark, results={"elapsed_ns": 5}))


def test_parameters() -> None:
    benchmark = BENCHMARKS["agent-wakeup-pipe"]
    invocation = benchmark.invocation({"pairs": 3, "duration_s": 30}, FactBook({}))
    assert invocation.load is not None
    assert invocation.load.parameters == {"kind": "pipe", "pairs": 3, "rate_per_s": 1000, "duration_s": 30}
    assert (invocation.limit_s, invocation.expected_s) == (150.0, 30)
    with pytest.raises(UnknownName):
        benchmark.invocation({"kind": "futex"}, FactBook({}))
    with pytest.raises(BadInput):
        benchmark.invocation({"duration_s": "long"}, FactBook({}))


@pytest.mark.parametrize(
    "parameters, said",
    [
        ({"duration_s": 0.0}, "duration_s: expected more than 0 and at most 3600 seconds, got 0"),
        ({"duration_s": 3601}, "at most 3600 seconds"),
        ({"duration_s": float("nan")}, "duration_s: expected a finite number of 0 or more, got nan"),
        ({"duration_s": float("inf")}, "duration_s: expected a finite number of 0 or more, got inf"),
        ({"threads": -2}, "threads: expected a finite number of 0 or more, got -2"),
    ],
)
def test_numbers_that_no_load_takes_are_refused_before_it_runs(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        BENCHMARKS["agent-memcpy"].invocation(parameters, FactBook({}))
    assert said in caught.value.message


@pytest.mark.parametrize(
    "available_bytes, parameters, expected_s",
    [
        (2 << 30, {}, 10),  # bursts of a quarter of a GiB keep up with their rhythm
        (200 << 30, {}, 10),  # larger ones are only made on demand
        (17 << 30, {"burst_bytes": 4 << 30}, 4 * (1 << 30) * 20 / 1e9),  # 20 bursts of 4 GiB at a GB a second
        (17 << 30, {"burst_bytes": 10**9, "bursts_per_s": 3, "duration_s": 20}, 60),
        (17 << 30, {"burst_bytes": 10**6}, 10),
        (None, {}, 10),
    ],
)
def test_pressure_takes_as_long_as_its_bursts(
    available_bytes: int | None, parameters: dict[str, Any], expected_s: float
) -> None:
    facts = {} if available_bytes is None else {"memory.available": Fact(value=available_bytes)}
    invocation = BENCHMARKS["agent-pressure"].invocation(parameters, FactBook(facts))
    assert invocation.expected_s == pytest.approx(expected_s)


def test_a_load_without_end_is_ended_by_its_limit() -> None:
    invocation = BENCHMARKS["agent-spin"].invocation({"duration_s": 2}, FactBook({}))
    assert invocation.load is not None
    assert (invocation.limit_s, dict(invocation.load.parameters)) == (2, {})
