# SPDX-License-Identifier: Apache-2.0
"""Sampling with the real agent: on a fake machine whose sensors lie, come and go, and on this one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.transport import DetachedTransport
from ktrial.bench.run.sampling import AgentSampling, read_samples
from ktrial.kit.errors import AgentError
from ktrial.machine.sensors import summarise
from tests.support.tree import FakeRoot

ZONE = "sys/class/thermal/thermal_zone"


def on(root: Path | str) -> partial[DetachedTransport]:
    return partial(DetachedTransport, [str(find_agent()), "serve", "--role", "user", "--root", str(root)])


def test_lies_are_marked_and_what_is_absent_has_no_column(tmp_path: Path) -> None:
    root = FakeRoot(tmp_path)
    for number, shown in enumerate(("0", "255000", "-1000", "151000", "61500")):
        root.write(f"{ZONE}{number}/type", "acpitz\n")
        root.write(f"{ZONE}{number}/temp", f"{shown}\n")
    sampling = AgentSampling(on(tmp_path), ["temperature", "frequency"])
    samples = sampling.once()
    sampling.close()
    names = [f"temperature.acpitz.thermal_zone{number}" for number in range(5)]
    assert list(samples.columns) == names
    assert [samples.values(name) for name in names] == [(None,), (None,), (None,), (None,), (61.5,)]
    assert samples.lies == dict.fromkeys(names[:4], 1)
    assert "no policy" in samples.absent["frequency"]
    assert samples.ended == "done"
    assert summarise(samples)[names[0]].n == 0


def test_a_sensor_that_vanishes_or_appears_meanwhile_is_told(tmp_path: Path) -> None:
    root = FakeRoot(tmp_path)
    sampling = AgentSampling(on(tmp_path))
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        # A number of a process: reading it fails once that has ended, as that of a device that is pulled out.
        (tmp_path / f"{ZONE}0").mkdir(parents=True)
        (tmp_path / f"{ZONE}0/temp").symlink_to(f"/proc/{process.pid}/oom_score")
        root.write(f"{ZONE}1/temp", "40000\n")
        sampling.start(period_s=0.1)
        time.sleep(0.35)
        process.kill()
    root.write(f"{ZONE}2/temp", "40000\n")
    root.write(f"{ZONE}1/temp", "0\n")
    time.sleep(0.35)
    samples = sampling.stop()
    pulled = samples.columns["temperature.unnamed.thermal_zone0"]
    assert pulled[0] is not None
    assert pulled[-1] is None
    assert "No such process" in samples.gone[f"/{ZONE}0/temp"].why
    assert samples.times_ns[0] < samples.gone[f"/{ZONE}0/temp"].at_ns < samples.times_ns[-1]
    began_to_lie = samples.columns["temperature.unnamed.thermal_zone1"]
    assert (began_to_lie[0], began_to_lie[-1]) == (40000, None)
    assert samples.lies["temperature.unnamed.thermal_zone1"] == sum(one is None for one in began_to_lie)
    assert samples.appeared == ("temperature.unnamed.thermal_zone2",)


def test_this_machine_is_sampled_beside_work() -> None:
    sampling = AgentSampling(on("/"), ["cpu", "memory", "load", "uptime"])
    sampling.start(period_s=0.1)
    began = time.process_time()
    while time.process_time() - began < 0.5:
        pass
    samples = sampling.stop()
    assert samples.ended == "told"
    assert len(samples.times_ns) >= 5
    told = summarise(samples)
    user, system, uptime = told["cpu.user"], told["cpu.system"], told["uptime.since_boot"]
    assert user.difference is not None
    assert system.difference is not None
    # Looking at the clock is the kernel's work.
    assert user.difference + system.difference >= 0.3
    assert uptime.first is not None
    assert uptime.last is not None
    elapsed_s = (samples.times_ns[-1] - samples.times_ns[0]) / 1e9
    assert uptime.last - uptime.first == pytest.approx(elapsed_s, abs=0.05)
    assert told["memory.MemAvailable"].minimum is not None
    assert 0 < samples.cost.cpu_ns_per_sample < 50_000_000


def test_one_can_be_started_again_but_not_twice() -> None:
    sampling = AgentSampling(on("/"), ["uptime"])
    for _ in range(2):
        sampling.start()
        with pytest.raises(RuntimeError, match="already"):
            sampling.start()
        with pytest.raises(RuntimeError, match="is running"):
            sampling.once()
        assert sampling.stop().columns
    with pytest.raises(RuntimeError, match="not running"):
        sampling.stop()


def test_the_agent_that_looked_once_is_the_one_that_samples() -> None:
    started: list[DetachedTransport] = []

    def connect() -> DetachedTransport:
        started.append(on("/")())
        return started[-1]

    sampling = AgentSampling(connect, ["uptime"])
    looked = sampling.once().times_ns[-1]
    sampling.start()
    assert sampling.stop().times_ns[0] > looked
    assert len(started) == 1
    sampling.once()
    sampling.close()
    assert len(started) == 2
    assert all(one.answered() for one in started), "every agent has ended"


def test_when_it_comes_back_the_first_sample_was_taken() -> None:
    sampling = AgentSampling(on("/"))
    for _ in range(5):
        sampling.start()
        begun_ns = time.monotonic_ns()
        assert sampling.stop().times_ns[0] < begun_ns


def test_samples_of_an_agent_that_was_killed_are_lost_and_the_next_ones_are_not() -> None:
    pids: list[int] = []

    def connect() -> DetachedTransport:
        transport = on("/")()
        pids.append(transport._process.pid)
        return transport

    sampling = AgentSampling(connect, ["uptime"])
    sampling.start()
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(AgentError, match="lost"):
        sampling.stop()
    assert sampling.once().columns
    sampling.close()


def test_a_source_that_is_unknown_is_refused() -> None:
    with pytest.raises(AgentError, match='unknown source "moon"'):
        AgentSampling(on("/"), ["moon"]).once()


def test_an_answer_that_is_not_as_agreed_is_named() -> None:
    with pytest.raises(AgentError, match=r"cannot read the agent's samples: .*times_ns"):
        read_samples({"columns": {}})
