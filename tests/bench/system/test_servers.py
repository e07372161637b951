# SPDX-License-Identifier: Apache-2.0
"""Benchmarks that start a server of their own are really run, with tiny parameters, by the user that may run them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.transport import DetachedTransport
from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import Invocation, ParsedRun, RawOutput, Step, check_exit, check_measurements
from ktrial.bench.run.executor import AgentExecutor
from ktrial.kit.errors import BadRun
from ktrial.machine.facts import FactBook
from tests.support.user import User, ordinary_user

pytestmark = [pytest.mark.root, pytest.mark.xdist_group("servers")]
#: Of this worker alone, and below those that the kernel gives out by itself.
PORT = 20_000 + os.getpid() % 10_000
TINY: dict[str, dict[str, Any]] = {
    "agent-requests-nginx": {"seconds": 1, "rate": 300, "connections": 4, "port": PORT},
    "agent-requests-redis": {"seconds": 1, "rate": 300, "connections": 4, "value_bytes": 3000},
    "pgbench": {"seconds": 2, "rate": 100, "clients": 4, "scale": 1},
    "redis-benchmark-get": {"commands": 5000, "keys": 100},
    "redis-benchmark-set": {"commands": 5000, "keys": 100},
    "wrk-nginx": {"seconds": 1, "connections": 4, "port": PORT, "page_bytes": 5000},
}
ROOT_RUNS = sorted(set(TINY) - {"pgbench"})
BENCHMARKS = all_benchmarks()
SERVERS = ("postgres", "redis-server", "nginx")


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[AgentExecutor]:
    argv = [str(find_agent()), "serve", "--role", "user"]
    executor = AgentExecutor(lambda: DetachedTransport(argv), tmp_path / "work", None)
    yield executor
    executor.close()


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    with ordinary_user("servers") as user:
        yield user


def servers(folder: Path) -> list[str]:
    """Servers that run in a folder below this one, or in one that was there."""
    found = subprocess.run(["pgrep", "-x", "|".join(SERVERS)], capture_output=True, check=False, text=True).stdout
    return [pid for pid in found.split() if working_folder(pid).startswith(str(folder))]


def working_folder(pid: str) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def invocation(name: str, **more: Any) -> Invocation:
    return BENCHMARKS[name].invocation({**TINY[name], **more}, FactBook({}))


def parsed(name: str, raw: RawOutput) -> ParsedRun:
    check_exit(raw)
    run = BENCHMARKS[name].parse(raw, TINY[name])
    check_measurements(BENCHMARKS[name].outcomes, run)
    return run


def test_every_benchmark_with_a_server_is_run_here() -> None:
    served = {name for name, benchmark in BENCHMARKS.items() if set(benchmark.needs) & {*SERVERS, "initdb"}}
    assert served == set(TINY)
    assert all(BENCHMARKS[name].invocation(BENCHMARKS[name].parameters, FactBook({})).steps for name in served)


@pytest.mark.parametrize("name", ROOT_RUNS)
def test_real_run(name: str, executor: AgentExecutor, tmp_path: Path) -> None:
    done = executor.run(invocation(name))
    run = parsed(name, done.raw)
    assert {measurement.outcome for measurement in run.measurements} >= {
        outcome.name for outcome in BENCHMARKS[name].outcomes if outcome.headline
    }
    assert servers(tmp_path) == []
    asked = BENCHMARKS[name].version_invocation()
    assert asked is not None
    told = BENCHMARKS[name].parse_version(executor.run(asked).raw)
    assert told is not None
    assert any(character.isdigit() for character in told)


def test_servers_of_a_run_are_seen(executor: AgentExecutor, tmp_path: Path) -> None:
    """What the other tests find none of."""
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(executor.run, invocation("agent-requests-redis"))
        while not (seen := servers(tmp_path)) and not done.done():
            time.sleep(0.01)
    assert len(seen) == 1


def test_what_the_server_answers_is_what_was_asked_for(executor: AgentExecutor) -> None:
    """A page that is not there, and a value that is another one, are no measurement."""
    asked = invocation("agent-requests-nginx")
    lost = msgspec.structs.replace(asked, steps=(asked.steps[0], asked.steps[2]))
    raw = executor.run(lost).raw
    assert "the reply is not as expected" in (raw.failed or "")
    assert "404 Not Found" in (raw.failed or "")
    asked = invocation("agent-requests-redis")
    raw = executor.run(msgspec.structs.replace(asked, steps=asked.steps[:1])).raw
    assert 'expected: \\"$-1' in json.dumps(raw.failed)


@pytest.mark.parametrize("name", ["wrk-nginx", "agent-requests-nginx"])
def test_a_port_that_is_taken_is_named(name: str, executor: AgentExecutor) -> None:
    with socket.create_server(("127.0.0.1", PORT)):
        raw = executor.run(invocation(name)).raw
    assert "nginx, which must run first, ended before it was ready: it ended with status 1" in (raw.failed or "")
    assert f"bind() to 127.0.0.1:{PORT} failed" in (raw.failed or "")
    assert "Address already in use" in (raw.failed or "")


def test_an_option_that_the_server_does_not_know_is_named(executor: AgentExecutor) -> None:
    asked = invocation("redis-benchmark-get")
    server = msgspec.structs.replace(asked.steps[0], argv=(*asked.steps[0].argv, "--no-such-option", "1"))
    raw = executor.run(msgspec.structs.replace(asked, steps=(server, *asked.steps[1:]))).raw
    assert "redis-server, which must run first, ended before it was ready: it ended with status 1" in (raw.failed or "")


@pytest.mark.parametrize(
    "name, more",
    [("agent-requests-redis", {"seconds": 3}), ("redis-benchmark-set", {"commands": 50_000_000})],
)
def test_a_server_that_ends_during_the_run_fails_it(
    name: str, more: dict[str, Any], executor: AgentExecutor, tmp_path: Path
) -> None:
    asked = invocation(name, **more)
    end = "(sleep 0.5; redis-cli -s redis.sock shutdown nosave) </dev/null >/dev/null 2>&1 &"
    killer = Step(argv=("sh", "-c", end))
    raw = executor.run(msgspec.structs.replace(asked, steps=(*asked.steps, killer), limit_s=20)).raw
    with pytest.raises(BadRun):
        parsed(name, raw)
    assert servers(tmp_path) == []


def test_postgresql_is_left_out_for_root(tmp_path: Path) -> None:
    assert os.geteuid() == 0
    checkout = Path(__file__).resolve().parents[3]
    ran = subprocess.run(
        [checkout / "ktrial", "bench", "pgbench", "-n", "1"],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "cannot run as root, because PostgreSQL refuses to run as root" in ran.stderr
    assert "next: run ktrial as an ordinary user, or through that user's sudo" in ran.stderr


@pytest.mark.parametrize("prefix", [(), ("sudo",)], ids=["user", "sudo"])
def test_an_ordinary_user_runs_all_of_them(user: User, prefix: tuple[str, ...]) -> None:
    """As a user in a folder whose path is longer than a socket's may be."""
    entries = [
        f'[[benchmark]]\nuse = "{name}"\n[benchmark.parameters]\n'
        + "".join(f"{key} = {value}\n" for key, value in parameters.items())
        for name, parameters in TINY.items()
    ]
    suites = user.home / ".config/ktrial/suites"
    suites.mkdir(parents=True, exist_ok=True)
    (suites / "servers.toml").write_text('name = "servers"\nsummary = "All."\n' + "\n".join(entries))
    subprocess.run(["chown", "--recursive", user.name, user.home / ".config"], check=True)
    result = user.home / f"result{len(prefix)}.json"
    deep = {} if prefix else {"XDG_STATE_HOME": str(user.home / ("d" * 120))}
    ran = user.start(*prefix, "./ktrial", "bench", "servers", "-n", "1", "-o", str(result), environment=deep)
    assert ran.returncode == 0, ran.stderr
    document = json.loads(result.read_text())
    assert document["complete"] == len(TINY)
    (record,) = [run for run in document["runs"] if run["tool"] == "pgbench"]
    assert {kept["outcome"] for kept in record["measurements"]} >= {"latency-p50", "transaction-rate", "lag-mean"}
    assert [argv[0].rpartition("/")[2] for argv in record["steps"]] == ["initdb", "postgres", "pgbench", "psql"]
    assert len({argv[0].rpartition("/")[0] for argv in [*record["steps"], record["argv"]]}) == 1, "of one version"
    assert all("{directory}" not in word and str(user.home) not in word for word in record["argv"])
    assert servers(user.home) == []
    assert user.files_of_others() == []
