# SPDX-License-Identifier: Apache-2.0
"""pgbench: transactions of a PostgreSQL server at a fixed rate, in an open loop."""

from __future__ import annotations

import math
from functools import partial

import msgspec

from ktrial.bench.adapters._servers import APART, SHARED
from ktrial.bench.adapters._tool import (
    Program,
    RemoteLoad,
    ToolBenchmark,
    agree,
    flag,
    one_measurement,
    one_of,
    whole,
)
from ktrial.bench.adapters.pgbench.output import PgbenchLog, PgbenchRun, read_log, read_pgbench
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
from ktrial.bench.outcomes import latency, outcome, rate
from ktrial.kit.errors import BadInput, BadRun
from ktrial.kit.formats.tool_output import Quantity, in_base, nearest_rank
from ktrial.kit.outcome import Measurement, Outcome

_LOG = "transactions."
_PACKAGES = {
    "apt": "postgresql",
    "dnf": "postgresql-server postgresql-contrib",
    "pacman": "postgresql",
    "zypper": "postgresql-server postgresql-contrib",
}
_USER = "ktrial"
#: The socket's path must stay short however deep the run's folder lies: the limit is 107 bytes. The clients run in that
#: folder, the server in the data folder below it.
_SOCKET = ("-h", "/proc/self/cwd", "-U", _USER)
_REMOTE = ("-h", ADDRESS, "-p", PORT, "-U", _USER)
_SERVER_FOLDER = ".."
_DATABASE = "postgres"
#: Every transaction is logged, and the log must not exceed the limit of collected files.
_MOST_TRANSACTIONS = 1_000_000
#: Below this share of the requested rate, a note says that it was not reached, unless that may be chance.
_HELD = 0.95
_CHANCE = 4.0
_QUANTILES = {
    "latency-p50": (0.5, "half"),
    "latency-p99": (0.99, "all but 1 %"),
    "latency-p999": (0.999, "all but 0.1 %"),
}
_FEW_ABOVE = 5
_SCRIPTS = ("tpcb-like", "simple-update", "select-only")
_BLIND = (
    "From the moment at which a transaction was due to its end, including the wait for a free client. If the server "
    "cannot keep up with the rate, the queue and the latency grow with the length of the run. PostgreSQL has its "
    "default settings. "
)
_latency = partial(latency, high=3600.0, resolution=1e-6)


def _outcomes(where: str) -> tuple[Outcome, ...]:
    blind = _BLIND + where
    return (
        *(
            _latency(
                name,
                f"The server completes {share} of the transactions within a [shorter|longer] time.",
                blind,
                headline=name == "latency-p99",
            )
            for name, (_, share) in _QUANTILES.items()
        ),
        _latency("latency-mean", "Transactions take [less|more] time on average.", blind),
        _latency("latency-max", "The slowest transaction takes [less|more] time.", blind),
        _latency(
            "lag-mean",
            "Transactions begin [sooner|later] after the moment at which they were due.",
            "How late the clients are; a part of the latency. Grows with the run if the server cannot keep up.",
        ),
        rate(
            "transaction-rate",
            "1/s",
            "[More|Fewer] transactions per second are completed.",
            "Cannot exceed the requested rate, around which it varies: transactions come at random times.",
            (0.01, 1e7),
        ),
        outcome(
            "late-share",
            "ratio",
            "score",
            "[Fewer|More] transactions exceed the time limit, or are skipped because they are too late already.",
            "Measured only if latency_limit_ms is set.",
            (0.0, 1.0),
        ),
    )


def _command(parameters: Parameters) -> Invocation:
    scale, fsync = whole(parameters, "scale", 1, 10_000), flag(parameters, "fsync")
    cluster = ("initdb", "-D", "data", "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-locale")
    filled = _filling(_SOCKET, scale)
    server = Step(argv=_server(fsync, "-c", "listen_addresses="), ready=("pg_isready", "-q", *_SOCKET, "-d", _DATABASE))
    steps = (Step(argv=(*cluster, *(() if fsync else ("--no-sync",))), limit_s=300), server, *filled)
    return msgspec.structs.replace(_client(parameters, _SOCKET), steps=steps)


def _remote_command(parameters: Parameters) -> Invocation:
    scale, fsync = whole(parameters, "scale", 1, 10_000), flag(parameters, "fsync")
    cluster = ("initdb", "-D", "data", "-U", _USER, "-A", "scram-sha-256", "--pwfile", "password")
    # The socket lies in the private folder of the run; connections from other machines need the password.
    allowed = "local all all trust\nhost all all 0.0.0.0/0 scram-sha-256\nhost all all ::/0 scram-sha-256\n"
    server = _server(fsync, "-c", f"listen_addresses={ADDRESS}", "-c", f"port={PORT}")
    return msgspec.structs.replace(
        _client(parameters, _REMOTE),
        steps=(
            Step(argv=("tee", "password"), stdin=f"{SECRET}\n".encode()),
            Step(argv=(*cluster, "-E", "UTF8", "--no-locale", *(() if fsync else ("--no-sync",))), limit_s=300),
            Step(argv=("tee", "data/pg_hba.conf"), stdin=allowed.encode()),
            Step(argv=server, ready=("pg_isready", "-q", *_SOCKET, "-p", PORT, "-d", _DATABASE)),
        ),
        generator=GeneratorPart(
            reach=("pg_isready", *_REMOTE, "-d", _DATABASE, "-t", "0"),
            threads=whole(parameters, "threads"),
            steps=_filling(_REMOTE, scale),
            environment={"PGPASSWORD": SECRET},
        ),
    )


def _client(parameters: Parameters, to: tuple[str, ...]) -> Invocation:
    seconds, rate = whole(parameters, "seconds", 1, 86_400), whole(parameters, "rate", 1, _MOST_TRANSACTIONS)
    scale, clients = whole(parameters, "scale", 1, 10_000), whole(parameters, "clients", 1, 90)
    limit_ms = whole(parameters, "latency_limit_ms", 0, 3_600_000)
    if rate * seconds > _MOST_TRANSACTIONS:
        raise BadInput(
            f"parameters rate and seconds give {rate * seconds} transactions; at most {_MOST_TRANSACTIONS} are allowed",
            hint="lower rate or seconds: pgbench logs every transaction",
        )
    argv = ["pgbench", *to, "-n", "-b", one_of(parameters, "script", _SCRIPTS), f"--rate={rate}"]
    argv += ["-T", str(seconds), "-c", str(clients), "-j", str(whole(parameters, "threads", 1, clients))]
    argv += ["--log", f"--log-prefix={_LOG.rstrip('.')}"]
    if limit_ms:
        argv.append(f"--latency-limit={limit_ms}")
    making = 10.0 + scale
    return Invocation(
        argv=(*argv, _DATABASE),
        limit_s=2.0 * seconds + 120,
        files=(f"{_LOG}*",),
        expected_s=seconds + making,
    )


def _server(fsync: bool, *more: str) -> tuple[str, ...]:
    # Nothing remains in /dev/shm if the server is killed.
    server = ("postgres", "-D", "data", "-k", _SERVER_FOLDER, *more, "-c", "dynamic_shared_memory_type=mmap")
    return (*server, "-c", f"fsync={'on' if fsync else 'off'}")


def _filling(to: tuple[str, ...], scale: int) -> tuple[Step, ...]:
    limit_s = 60 + 20.0 * scale
    return (
        Step(argv=("pgbench", *to, "-i", "-q", "-s", str(scale), _DATABASE), limit_s=limit_s),
        # Writes left over from creating the tables end before the run.
        Step(argv=("psql", *to, "-d", _DATABASE, "-q", "-c", "CHECKPOINT"), limit_s=limit_s),
    )


def _read(raw: RawOutput, parameters: Parameters) -> ParsedRun:
    run = read_pgbench(raw.stdout)
    asked = {name: parameters[name] for name in ("scale", "clients", "threads", "seconds")}
    found = {"scale": run.scale, "clients": run.clients, "threads": run.threads}
    agree(asked, {**found, "seconds": asked["seconds"] if run.seconds is None else run.seconds})
    if run.failed:
        raise BadRun(f"{run.failed} transaction{'s'[: run.failed != 1]} failed", hint="run the benchmark again")
    log = _whole_log(raw, run)
    measurements, notes = _latencies(run, log, whole(parameters, "latency_limit_ms", 0) * 1000)
    notes += _doubts(run, parameters)
    measurements += one_measurement("lag-mean", run.lag_mean) + one_measurement("transaction-rate", run.rate)
    if run.late is not None:
        late, total = run.late + log.skipped, run.transactions + log.skipped
        measurements += one_measurement("late-share", Quantity(late / total, f"{late} of {total}"))
    histogram = {str(key * 1000): count for key, count in sorted(log.histogram_us.items())}
    details = {"histogram_ns": histogram, "skipped": log.skipped}
    return ParsedRun(measurements=measurements, tool_version=run.version, details=details, notes=notes)


def _latencies(run: PgbenchRun, log: PgbenchLog, limit_us: int) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """Return the known latencies, and notes on latencies left out for skipped or too few transactions."""
    measurements: tuple[Measurement, ...] = ()
    unknown: list[str] = []
    few: list[str] = []
    total = run.transactions + log.skipped
    for name, (fraction, _) in _QUANTILES.items():
        value = nearest_rank(log.histogram_us, fraction, log.skipped)
        if value is None or (log.skipped and value > limit_us):
            unknown.append(name)
        elif (1 - fraction) * total < _FEW_ABOVE:
            few.append(name)
        else:
            measurements += one_measurement(name, Quantity(in_base(value, "us"), f"{value} us"))
    if log.skipped:
        unknown += ["latency-mean", "latency-max"]
    else:
        largest = max(log.histogram_us)
        measurements += one_measurement("latency-max", Quantity(in_base(largest, "us"), f"{largest} us"))
        measurements += one_measurement("latency-mean", run.latency_mean)
    notes: tuple[str, ...] = ()
    if unknown:
        notes += (f"{log.skipped} transactions were skipped as too late: {', '.join(unknown)} unknown",)
    if few:
        notes += (f"{', '.join(few)} left out: the {total} transactions of this run are too few",)
    return measurements, notes


def _whole_log(raw: RawOutput, run: PgbenchRun) -> PgbenchLog:
    """Merge the logs of all threads. Raise BadRun without a log, or if the totals differ from the report."""
    logs = [read_log(data, name) for name, data in sorted(raw.files.items()) if name.startswith(_LOG) and data]
    if not logs:
        raise BadRun(f"pgbench wrote no log ({_LOG}*)", hint="run the benchmark again")
    histogram: dict[int, int] = {}
    for log in logs:
        for latency_us, count in log.histogram_us.items():
            histogram[latency_us] = histogram.get(latency_us, 0) + count
    whole_log = PgbenchLog(histogram_us=histogram, skipped=sum(log.skipped for log in logs))
    reported, logged = (run.transactions, run.skipped or 0), (sum(histogram.values()), whole_log.skipped)
    if reported != logged:
        raise BadRun(
            f"pgbench reports {reported[0]} transactions and {reported[1]} skipped ones, but its log has "
            f"{logged[0]} and {logged[1]}",
            hint="run the benchmark again",
        )
    return whole_log


def _doubts(run: PgbenchRun, parameters: Parameters) -> tuple[str, ...]:
    """Return notes on a rate that the server did not reach, and on missing fsync. The run still counts."""
    rate, seconds = whole(parameters, "rate"), whole(parameters, "seconds")
    notes: tuple[str, ...] = ()
    expected = rate * seconds
    least = min(_HELD, 1 - _CHANCE / math.sqrt(expected))
    if run.transactions < least * expected:
        notes += (f"the server did not keep up with {rate} transactions per second: {run.transactions} in {seconds} s",)
    if not flag(parameters, "fsync"):
        notes += ("without fsync, nothing waits for the disk and a power cut loses the database",)
    return notes


BENCHMARK = ToolBenchmark(
    name="pgbench",
    what="Transactions of a PostgreSQL server over a Unix socket at a fixed rate, in an open loop.",
    program=Program(
        needs=("initdb", "postgres", "pg_isready", "psql", "pgbench"),
        packages=_PACKAGES,
        version=("pgbench", "--version"),
        version_pattern=r"pgbench \(PostgreSQL\) (\S+)",
    ),
    outcomes=_outcomes(SHARED),
    parameters={
        "scale": 10,
        "rate": 200,
        "seconds": 20,
        "clients": 8,
        "threads": 2,
        "script": "tpcb-like",
        "latency_limit_ms": 0,
        "fsync": True,
    },
    command=_command,
    reader=_read,
    user_reason="PostgreSQL refuses to run as root",
    remote=RemoteLoad(
        what="Transactions of a PostgreSQL server over TCP from another machine at a fixed rate, in an open loop.",
        server=Program(
            needs=("initdb", "postgres", "pg_isready"),
            packages=_PACKAGES,
            version=("postgres", "--version"),
            version_pattern=r"postgres \(PostgreSQL\) (\S+)",
        ),
        generator=Program(
            needs=("pgbench", "psql", "pg_isready"),
            packages=_PACKAGES,
            version=("pgbench", "--version"),
            version_pattern=r"(pgbench \(PostgreSQL\) \S+)",
        ),
        outcomes=_outcomes(APART),
        command=_remote_command,
    ),
)
