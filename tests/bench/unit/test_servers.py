# SPDX-License-Identifier: Apache-2.0
"""How benchmarks with a server make their steps and command lines, and which parameters they refuse."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import Invocation, ParsedRun, RawOutput, check_measurements
from ktrial.kit.errors import BadInput, BadRun, UnreadableOutput
from ktrial.machine.facts import FactBook

ALL = all_benchmarks()
REPORT = b"""scaling factor: 10
query mode: simple
number of clients: 8
number of threads: 2
number of transactions actually processed: 3
number of failed transactions: 0 (0.000%)
latency average = 2.000 ms
rate limit schedule lag: avg 0.100 (max 0.200) ms
tps = 199.000000 (without initial connection time)
"""
LOG = b"0 1 1000 0 1795294386 437374 70\n1 1 2000 0 1795294386 440787 64\n0 2 3000 0 1795294386 477341 65\n"
REPLY: dict[str, Any] = {
    "load": "requests",
    "parameters": {
        "address": "unix:/run/somewhere/redis.sock",
        "request": "GET ktrial\r\n",
        "begins": "$64\r\n",
        "ends": "the end of it\n\r\n",
        "connections": 16,
        "rate_per_s": 2000,
        "duration_s": 10,
    },
    "started_ns": 1,
    "wall_ns": 10_000_000_000,
    "ended": "done",
    "results": {
        "p50_ns": 20_000,
        "p99_ns": 90_000,
        "p99_9_ns": 400_000,
        "max_ns": 800_000,
        "planned": 20_000,
        "answered": 20_000,
        "left_over": 0,
        "elapsed_ns": 10_000_000_000,
    },
    "histogram": {"1023": 17},
}


def invocation(name: str, **parameters: Any) -> Invocation:
    return ALL[name].invocation(parameters, FactBook({}))


def words(name: str, **parameters: Any) -> list[str]:
    """The command lines of the steps, and of the run."""
    made = invocation(name, **parameters)
    return [" ".join(argv) for argv in [*(step.argv for step in made.steps), made.argv]]


def test_pgbench_makes_a_database_of_its_own_and_asks_at_a_rate() -> None:
    assert words("pgbench", rate=50, seconds=4, latency_limit_ms=20) == [
        "initdb -D data -U ktrial -A trust -E UTF8 --no-locale",
        "postgres -D data -k .. -c listen_addresses= -c dynamic_shared_memory_type=mmap -c fsync=on",
        "pgbench -h /proc/self/cwd -U ktrial -i -q -s 10 postgres",
        "psql -h /proc/self/cwd -U ktrial -d postgres -q -c CHECKPOINT",
        (
            "pgbench -h /proc/self/cwd -U ktrial -n -b tpcb-like --rate=50 -T 4 -c 8 -j 2"
            " --log --log-prefix=transactions --latency-limit=20 postgres"
        ),
    ]
    assert [bool(step.ready) for step in invocation("pgbench").steps] == [False, True, False, False]


def test_fsync_is_off_only_where_asked_for() -> None:
    made, started, *_ = words("pgbench", fsync=False)
    assert made.endswith(" --no-sync")
    assert started.endswith(" -c fsync=off")


def test_servers_listen_for_this_machine_alone() -> None:
    for name in ("wrk-nginx", "agent-requests-nginx"):
        config = invocation(name, port=20_000).steps[0].stdin.decode()
        assert config.count("listen ") == 1
        assert "listen 127.0.0.1:20000 " in config
    for name in ("redis-benchmark-get", "agent-requests-redis"):
        assert "--port 0 --unixsocket redis.sock --unixsocketperm 700 --save  --appendonly no" in words(name)[0]


def test_the_page_and_the_value_have_the_size_asked_for() -> None:
    assert len(invocation("wrk-nginx", page_bytes=5000).steps[1].stdin) == 5000
    assert len(invocation("agent-requests-redis", value_bytes=100).steps[1].stdin) == 100
    load = invocation("agent-requests-redis", value_bytes=100).load
    assert load is not None
    assert load.parameters["begins"] == "$100\r\n"
    assert load.parameters["address"] == "unix:{directory}/redis.sock"


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("pgbench", {"rate": 0}),
        ("pgbench", {"rate": 100_000, "seconds": 11}),
        ("pgbench", {"clients": 91}),
        ("pgbench", {"clients": 2, "threads": 3}),
        ("pgbench", {"script": "-f/etc/passwd"}),
        ("pgbench", {"fsync": 1}),
        ("wrk-nginx", {"port": 80}),
        ("wrk-nginx", {"connections": 1}),
        ("wrk-nginx", {"page_bytes": 1}),
        ("redis-benchmark-get", {"keys": 0}),
        ("agent-requests-nginx", {"port": "80"}),
        ("agent-requests-redis", {"rate": 10, "connections": 11}),
        ("agent-requests-redis", {"value_bytes": 3}),
    ],
)
def test_parameters_that_cannot_be_are_refused(name: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="parameter"):
        invocation(name, **parameters)


def pgbench(report: bytes = REPORT, files: dict[str, bytes] | None = None, **parameters: Any) -> ParsedRun:
    raw = RawOutput(stdout=report, exit_status=0, files={"transactions.17": LOG} if files is None else files)
    return ALL["pgbench"].parse(raw, parameters)


def test_logs_of_all_threads_are_added_up() -> None:
    first, rest = LOG.splitlines(keepends=True)[:1], LOG.splitlines(keepends=True)[1:]
    files = {"transactions.17": b"".join(first), "transactions.17.1": b"".join(rest), "transactions.17.2": b""}
    assert pgbench(files=files) == pgbench()
    assert pgbench().details["histogram_ns"] == {"1000000": 1, "2000000": 1, "3000000": 1}


def test_a_log_that_is_not_whole_is_refused() -> None:
    with pytest.raises(BadRun, match="wrote no log"):
        pgbench(files={})
    with pytest.raises(BadRun, match=r"3 transactions and 0 skipped ones, but its log has 2 and 0"):
        pgbench(files={"transactions.17": LOG[: LOG.rindex(b"0 2")]})
    with pytest.raises(UnreadableOutput, match=r"transactions\.17:3: "):
        pgbench(files={"transactions.17": LOG.replace(b" 65", b"")})


def test_failed_transactions_and_other_settings_are_refused() -> None:
    with pytest.raises(BadRun, match="7 transactions failed"):
        pgbench(REPORT.replace(b"failed transactions: 0", b"failed transactions: 7"))
    with pytest.raises(BadRun, match="asked for scale 3"):
        pgbench(scale=3)


def test_a_rate_is_not_held_where_chance_cannot_explain_it() -> None:
    assert pgbench(rate=1, seconds=5).notes == (
        "latency-p50, latency-p99, latency-p999 left out: the 3 transactions of this run are too few",
    )
    assert pgbench().notes[-1] == "the server did not keep up with 200 transactions per second: 3 in 20 s"


def requests(**results: Any) -> ParsedRun:
    reply = {**REPLY, "results": {**REPLY["results"], **results}}
    benchmark = ALL["agent-requests-redis"]
    run = benchmark.parse(RawOutput(stdout=msgspec.json.encode(reply), exit_status=0), {})
    check_measurements(benchmark.outcomes, run)
    return run


def test_requests_in_base_units() -> None:
    run = requests()
    assert {one.outcome: one.value for one in run.measurements} == {
        "latency-p50": 2e-5,
        "latency-p99": 9e-5,
        "latency-p999": 4e-4,
        "latency-max": 8e-4,
        "answer-rate": 2000.0,
    }
    assert (run.notes, run.details["histogram_ns"]) == ((), {"1023": 17})


def test_requests_left_over_are_told_and_missing_ones_refused() -> None:
    assert requests(answered=19_000, left_over=1000).notes == (
        "the server did not keep up with 2000 requests per second: 1000 of 20000 were not answered",
    )
    assert requests(answered=19_990, left_over=10).notes == ()
    with pytest.raises(BadRun, match="but reports 19000 answered and 0 unanswered"):
        requests(answered=19_000)
    assert "left out" in requests(p99_9_ns=None).notes[0]


def test_another_load_than_asked_for_is_refused() -> None:
    for change in ({"ended": "limit"}, {"load": "spin"}, {"parameters": {**REPLY["parameters"], "rate_per_s": 1}}):
        raw = RawOutput(stdout=msgspec.json.encode({**REPLY, **change}), exit_status=0)
        with pytest.raises(BadRun):
            ALL["agent-requests-redis"].parse(raw, {})


def test_the_version_names_both_programs() -> None:
    told = RawOutput(
        stdout=b"wrk debian/4.1.0-3+b2 [epoll] Copyright\nUsage\n", stderr=b"nginx version: nginx/1.22.1\n"
    )
    assert ALL["wrk-nginx"].parse_version(told) == "wrk debian/4.1.0-3+b2, nginx/1.22.1"
    assert ALL["pgbench"].parse_version(RawOutput(stdout=b"pgbench (PostgreSQL) 15.18 (Debian)\n")) == "15.18"
