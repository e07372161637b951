# SPDX-License-Identifier: Apache-2.0
"""The kernel's own counters and events of a process that must wait for its CPU, through real agents."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.clock import SystemClock, unix_ms
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import DetachedTransport, ProcessTransport
from ktrial.bench.benchmark import Invocation, RawOutput
from ktrial.bench.run.executor import AgentExecutor
from ktrial.kit.errors import BadInput
from ktrial.live.model import MetricSource, Stretch
from ktrial.live.parse import open_source, parse_metric
from ktrial.live.sources.world import LiveWorld


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    """One of two processes that share a CPU and always want it."""
    cpu = str(max(os.sched_getaffinity(0)))
    both = [subprocess.Popen(["taskset", "-c", cpu, "sh", "-c", "while :; do :; done"]) for _ in range(2)]
    time.sleep(0.2)
    yield both[0]
    for one in both:
        one.kill()
        one.wait()


def session(role: str, state: Path) -> AgentSession:
    words = [str(find_agent()), "serve", "--role", role]
    return AgentSession(ProcessTransport([*words, "--state", str(state)] if role == "root" else words))


def test_a_process_runs_or_waits(busy: subprocess.Popen[bytes], tmp_path: Path) -> None:
    with ExitStack() as stack:
        user = session("user", tmp_path)
        stack.callback(user.close)
        here = [str(find_agent()), "serve", "--role", "user"]
        executor = AgentExecutor(lambda: DetachedTransport(here), tmp_path / "work", None)
        stack.callback(executor.close)

        def run(words: Sequence[str], limit_s: float) -> RawOutput:
            return executor.run(Invocation(argv=tuple(words), limit_s=limit_s)).raw

        world = LiveWorld(
            clock=SystemClock(),
            machine=lambda: user,
            run=run,
            open_root=lambda: session("root", tmp_path / "state"),
        )
        number, log = tmp_path / "number", tmp_path / "log"
        number.write_text("12.5\n")
        log.touch()
        texts = {
            "run": f"pid:{busy.pid}?cpu",
            "wait": f"pid:{busy.pid}?delay",
            "event": f"events:run-delay?of={busy.pid}",
            "stall": "pressure:cpu",
            "number_ms": f"command:cat {number}",
            "log_ms": f"log:{log}?match=took ([0-9]+)",
        }
        sources: dict[str, MetricSource] = {}
        for name, text in texts.items():
            sources[name] = open_source(parse_metric(f"{name}:lower={text}"), world)
            stack.callback(sources[name].end)
            sources[name].begin()
        begin_ms = unix_ms()
        for _ in range(4):
            with log.open("a") as file:
                file.write("took 7 ms\n")
            time.sleep(1)
            for source in sources.values():
                source.poll()
        found = {name: source.over(Stretch(begin_ms, unix_ms())) for name, source in sources.items()}
        values = {name: reading.value or 0.0 for name, reading in found.items()}
        assert values["run"] + values["wait"] == pytest.approx(1, abs=0.1), found
        assert values["wait"] > 0.2
        # Events are reported up to a second later, while the other tests make the machine more or less busy.
        assert values["event"] == pytest.approx(values["wait"], abs=0.25), found
        assert 0.1 < values["stall"] <= 1.01
        assert values["number_ms"] == pytest.approx(0.0125)
        assert values["log_ms"] == pytest.approx(0.007)
        busy.kill()
        busy.wait()
        assert sources["run"].poll() == ()
        with pytest.raises(BadInput, match=f"/proc/{busy.pid}/stat does not exist"):
            open_source(parse_metric(texts["run"]), world).begin()
