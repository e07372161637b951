# SPDX-License-Identifier: Apache-2.0
"""Runs in a network of their own, through the real agent and on this machine."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.transport import DetachedTransport
from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.benchmark import DIRECTORY, Invocation, Network, check_exit, check_measurements
from ktrial.bench.run.executor import AgentExecutor
from ktrial.machine.facts import FactBook

pytestmark = pytest.mark.xdist_group("network")
SHORT = {
    "iperf3": {"seconds": 1, "omit_seconds": 0, "congestion": "reno"},
    "agent-tcp-stream": {"duration_s": 0.5, "ramp_s": 0.2, "congestion": "reno"},
    "agent-tcp-request": {"duration_s": 0.5, "ramp_s": 0.2, "rate_per_s": 400, "congestion": "reno"},
}


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[AgentExecutor]:
    work = tmp_path / "work"
    found = AgentExecutor(lambda: DetachedTransport([str(find_agent()), "serve", "--role", "user"]), work, None)
    yield found
    found.close()


@pytest.mark.parametrize("name", SHORT)
def test_it_measures_and_tells_what_was_in_force(executor: AgentExecutor, name: str) -> None:
    benchmark = all_benchmarks()[name]
    done = executor.run(benchmark.invocation({**benchmark.parameters, **SHORT[name]}, FactBook({})))
    check_exit(done.raw)
    run = benchmark.parse(done.raw, {**benchmark.parameters, **SHORT[name]})
    check_measurements(benchmark.outcomes, run)
    assert done.raw.network is not None
    assert done.raw.network["congestion"] == "reno"
    assert done.raw.network["client_qdisc"]["kind"] == "noqueue"
    assert done.raw.network["wire"] is None
    assert done.steps == ((("/usr/bin/iperf3", "-s", "-1", "-p", "5201"),) if name == "iperf3" else ())


def test_a_server_that_does_not_come_up_is_named_with_its_word(executor: AgentExecutor) -> None:
    network = Network(server=("sh", "-c", "echo no {directory} >&2; exit 3"), port=7)
    done = executor.run(Invocation(argv=("true",), limit_s=10, network=network))
    assert done.raw.failed is not None
    assert "the server /usr/bin/sh exited (exit status: 3) before it listened on port 7" in done.raw.failed
    assert done.raw.stderr.decode() == f"no {done.directory}\n"
    assert done.steps == (("/usr/bin/sh", "-c", f"echo no {DIRECTORY} >&2; exit 3"),)


def test_where_namespaces_are_forbidden_it_says_what_to_do(tmp_path: Path) -> None:
    request = tmp_path / "request"
    request.write_text(json.dumps({"id": 1, "do": "load", "load": "tcp", "limit_s": 5}))
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --inh-caps=-all --bounding-set=-all "
    script = forbid + f"{find_agent()} batch --role user {request}"
    done = subprocess.run(["unshare", "--map-root-user", "sh", "-c", script], capture_output=True, check=True)
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "privilege"
    assert "cannot create a network namespace: the limit user.max_user_namespaces" in error["message"]
    assert "sysctl user.max_user_namespaces=10000" in error["hint"]


def test_the_next_step_of_a_refused_load_is_told(executor: AgentExecutor) -> None:
    benchmark = all_benchmarks()["agent-tcp-stream"]
    done = executor.run(benchmark.invocation({**benchmark.parameters, "qdisc": "nobodys"}, FactBook({})))
    assert done.raw.failed is not None
    assert "modprobe sch_nobodys" in done.raw.failed
