# SPDX-License-Identifier: Apache-2.0
"""What happens around a run, through the real agent."""

from __future__ import annotations

import mmap
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktrial.agent.binary import find_agent
from ktrial.agent.clock import SystemClock
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import ProcessTransport
from ktrial.bench.around.around_run import Around
from ktrial.bench.around.resets import Resets
from ktrial.bench.benchmark import RawOutput
from ktrial.bench.measure import measure
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Between, Task
from ktrial.machine.facts import FactBook
from tests.support.bench import FakeBenchmark, FakeExecutor, FakeStore, answer
from tests.support.tree import FakeRoot

#: Of <asm-generic/mman-common.h>; the module mmap has no name for it.
MADV_PAGEOUT = 21
RAPL = "/sys/class/powercap/intel-rapl:0"


@pytest.fixture
def machine(root: FakeRoot) -> Iterator[AgentSession]:
    session = AgentSession(ProcessTransport([str(find_agent()), "serve", "--role", "user", "--root", str(root.folder)]))
    yield session
    session.close()


@pytest.fixture
def as_root(root: FakeRoot) -> Iterator[AgentSession]:
    argv = [str(find_agent()), "serve", "--role", "root", "--root", str(root.folder), "--state", "/var/lib/ktrial"]
    session = AgentSession(ProcessTransport(argv))
    yield session
    session.close()


@pytest.fixture
def real_root(tmp_path: Path, real_machine: None) -> Iterator[AgentSession]:
    session = AgentSession(
        ProcessTransport([str(find_agent()), "serve", "--role", "root", "--state", str(tmp_path / "state")])
    )
    yield session
    session.close()


def test_caches_are_dropped_through_the_root_agent(root: FakeRoot, as_root: AgentSession) -> None:
    between = Between(drop_caches=True)
    (failed,) = Resets(between, FakeExecutor(), as_root).carry_out()
    assert (failed.ok, "/proc/sys/vm/drop_caches" in failed.result) == (False, True)
    root.write("/proc/sys/vm/drop_caches", "0\n")
    (done,) = Resets(between, FakeExecutor(), as_root).carry_out()
    assert done.ok
    assert root.read("/proc/sys/vm/drop_caches") == "3\n"
    assert as_root.request("status")["transactions"] == []


def test_a_user_session_drops_nothing(root: FakeRoot, machine: AgentSession) -> None:
    root.write("/proc/sys/vm/drop_caches", "0\n")
    (failed,) = Resets(Between(drop_caches=True), FakeExecutor(), machine).carry_out()
    assert not failed.ok
    assert root.read("/proc/sys/vm/drop_caches") == "0\n"


def test_the_page_cache_of_this_machine_shrinks(real_root: AgentSession, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (256 << 20))
    (done,) = Resets(Between(drop_caches=True), FakeExecutor(), real_root).carry_out()
    found = re.fullmatch(r"page cache (\d+) kB, then (\d+) kB", done.result)
    assert found is not None, done
    assert int(found[1]) - int(found[2]) > 200 << 10


def swapped() -> list[list[str]]:
    return [line.split() for line in Path("/proc/swaps").read_text().splitlines()[1:]]


def test_swap_of_this_machine_comes_back_empty(real_root: AgentSession, disk_path: Path) -> None:
    area = disk_path / "swap"
    area.write_bytes(b"\0" * (64 << 20))
    area.chmod(0o600)
    subprocess.run(["mkswap", area], check=True, capture_output=True)
    subprocess.run(["swapon", "-p", "7", area], check=True)
    try:
        with mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            memory.write(b"x" * (16 << 20))
            memory.madvise(MADV_PAGEOUT)
            # Not all: the kernel passes over pages that have not reached its lists yet.
            assert [int(line[3]) >= 8 << 10 for line in swapped() if line[0] == str(area)] == [True]
            (done,) = Resets(Between(reset_swap=True), FakeExecutor(), real_root).carry_out()
            assert (done.ok, str(area) in done.result) == (True, True), done
            assert [(line[3], line[4]) for line in swapped() if line[0] == str(area)] == [("0", "7")]
    finally:
        subprocess.run(["swapoff", area], check=True)


def test_energy_of_a_machine(root: FakeRoot, machine: AgentSession) -> None:
    root.write(f"{RAPL}/name", "package-0\n")
    root.write(f"{RAPL}/energy_uj", "262143000000\n")
    root.write(f"{RAPL}/max_energy_range_uj", "262143328850\n")

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
