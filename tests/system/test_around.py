# SPDX-License-Identifier: Apache-2.0
"""What happens around a run, through the real agent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ktrial.domain.benchmark import RawOutput
from ktrial.domain.facts import FactBook
from ktrial.domain.suite import Task
from ktrial.host.agent import AgentSession
from ktrial.host.clock import SystemClock
from ktrial.host.find_agent import find_agent
from ktrial.host.transport import ProcessTransport
from ktrial.services.around import Around
from ktrial.services.measure import Order, measure
from tests.support.bench import FakeBenchmark, FakeExecutor, FakeStore, answer
from tests.support.tree import FakeRoot

RAPL = "/sys/class/powercap/intel-rapl:0"


@pytest.fixture
def machine(root: FakeRoot) -> Iterator[AgentSession]:
    session = AgentSession(ProcessTransport([str(find_agent()), "serve", "--role", "user", "--root", str(root.folder)]))
    yield session
    session.close()


def test_energy_and_heat_of_a_machine(root: FakeRoot, machine: AgentSession) -> None:
    root.write(f"{RAPL}/name", "package-0\n")
    root.write(f"{RAPL}/energy_uj", "262143000000\n")
    root.write(f"{RAPL}/max_energy_range_uj", "262143328850\n")
    root.write("/sys/class/thermal/thermal_zone0/temp", "48000\n")
    root.write("/sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n")
    root.write("/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "3000000\n")

    def reply(argv: tuple[str, ...]) -> RawOutput:
        root.write(f"{RAPL}/energy_uj", "9671150\n")
        return answer()

    task = Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 1})
    order = Order(suite="own", tasks=(task,), rounds=1, seed=1)
    clock = SystemClock()
    around = Around(machine, clock)
    _, (record,) = measure(order, FakeExecutor(reply), FakeStore(), clock, FactBook({}), lambda event: None, around)
    used = {kept.outcome: kept.value for kept in record.measurements}
    assert used["energy.package-0"] == pytest.approx(10.0)
    assert used["power.package-0"] > 10.0
    assert record.conditions is not None
    assert [one.value for one in record.conditions.after] == [48.0, 3e9]
