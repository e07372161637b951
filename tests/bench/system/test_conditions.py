# SPDX-License-Identifier: Apache-2.0
"""Conditions of whole measurements: the real agent on a folder that stands for a machine, and real stores."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ktrial.agent.binary import find_agent
from ktrial.agent.clock import SystemClock
from ktrial.agent.session import AgentSession
from ktrial.agent.transport import DetachedTransport, ProcessTransport
from ktrial.bench.around.around_run import Around
from ktrial.bench.around.start_gate import StartGates
from ktrial.bench.benchmark import RawOutput
from ktrial.bench.events import Result
from ktrial.bench.measure import measure
from ktrial.bench.record import RunRecord
from ktrial.bench.run.ports import RunStore
from ktrial.bench.run.sampling import AgentSampling
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Task
from ktrial.kit.errors import KtrialError
from ktrial.machine.facts import FactBook
from ktrial.machine.watch_run import TELEMETRY, ConditionWatch
from ktrial.results.store.database import Database
from ktrial.results.store.recorder import Recorder
from ktrial.results.store.runs import Store
from ktrial.results.store.telemetry import from_parquet, to_parquet
from tests.results.system.test_database import mounted
from tests.support.bench import FakeBenchmark, FakeExecutor, FakeStore, answer
from tests.support.stores import postgresql
from tests.support.tree import FakeRoot

ZONE = "/sys/class/thermal/thermal_zone"
NAMED = "temperature.unnamed.thermal_zone"


class Rig:
    """A machine made of a folder, and measurements on it; `between` is what happens during each run."""

    def __init__(self, root: FakeRoot) -> None:
        argv = [str(find_agent()), "serve", "--role", "user", "--root", str(root.folder)]
        self.agents: list[DetachedTransport] = []
        self.machine = AgentSession(ProcessTransport(argv))
        self.sampling = AgentSampling(lambda: self._start(argv))
        self.clock = SystemClock()

    def _start(self, argv: list[str]) -> DetachedTransport:
        self.agents.append(DetachedTransport(argv))
        return self.agents[-1]

    def run(
        self, between: Callable[[int], None], rounds: int = 3, store: RunStore | None = None
    ) -> tuple[Result, tuple[RunRecord, ...]]:
        watch = ConditionWatch(self.machine, self.sampling, self.clock, "/home", to_parquet, 0.1)
        executor = FakeExecutor()

        def reply(argv: tuple[str, ...]) -> RawOutput:
            between(len(executor.log))
            return answer()

        executor._reply = reply
        task = Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 1})
        order = Order(suite="own", tasks=(task,), rounds=rounds, seed=1, label="stock", sample_period_s=0.1)
        around = Around(self.machine, self.clock, gates=StartGates(watch, self.clock))
        kept = store if store is not None else FakeStore()
        return measure(order, executor, kept, self.clock, FactBook({}), lambda event: None, around)

    def close(self) -> None:
        self.sampling.close()
        self.machine.close()


@pytest.fixture
def rig(root: FakeRoot) -> Iterator[Rig]:
    made = Rig(root)
    yield made
    made.close()


def starts(records: tuple[RunRecord, ...]) -> list[Any]:
    return [one.conditions and one.conditions.readings_before["temperature_c"] for one in records]


def sentences(result: Result) -> dict[str, str]:
    return {one.kind: f"{one.level}: {one.sentence}" for one in result.findings}


def test_sensors_that_lie_are_named_and_count_for_nothing(root: FakeRoot, rig: Rig) -> None:
    for number, shown in enumerate(("0", "255000", "48000")):
        root.write(f"{ZONE}{number}/temp", f"{shown}\n")
    result, records = rig.run(lambda number: None)
    assert starts(records) == [48.0] * 3
    first = records[0].conditions
    assert first is not None
    assert first.telemetry is not None
    assert set(first.telemetry.lies) == {f"{NAMED}0", f"{NAMED}1"}
    assert first.telemetry.columns[f"{NAMED}0"].n == 0
    assert [one.value for one in (*first.before, *first.after)] == [48.0, 48.0]
    said = sentences(result)
    assert said["sensor-lied"] == f"note: {NAMED}0, {NAMED}1 showed impossible values (3 of 3 runs)"
    assert "start_temperature" not in said


def test_where_every_sensor_lies_nothing_is_known_and_nothing_is_void(root: FakeRoot, rig: Rig) -> None:
    root.write(f"{ZONE}0/temp", "48000\n")
    result, records = rig.run(lambda number: root.write(f"{ZONE}0/temp", "255000\n"))
    assert starts(records) == [48.0, None, None]
    assert not any(record.void for record in records)
    assert sentences(result)["start_temperature"].startswith("note: temperature at the start is unknown")


def test_a_sensor_that_appears_is_told_and_not_compared(root: FakeRoot, rig: Rig) -> None:
    root.write(f"{ZONE}0/temp", "48000\n")
    result, records = rig.run(lambda number: root.write(f"{ZONE}1/temp", "90000\n"))
    assert starts(records) == [48.0] * 3
    assert not any(record.void for record in records)
    assert sentences(result)["sensor-appeared"] == f"note: {NAMED}1 appeared during a run (1 of 3 runs)"
    later = records[2].conditions
    assert later is not None
    assert later.telemetry is not None
    assert later.telemetry.columns[f"{NAMED}1"].maximum == 90.0


def test_the_hottest_sensor_that_disappears_leaves_the_start_unknown(root: FakeRoot, rig: Rig) -> None:
    root.write(f"{ZONE}0/temp", "48000\n")
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        # A number of a process: reading it fails once that has ended, as that of a device that is pulled out.
        (root.folder / f"{ZONE}1".lstrip("/")).mkdir(parents=True)
        temp = root.folder / f"{ZONE}1/temp".lstrip("/")
        temp.symlink_to(f"/proc/{process.pid}/oom_score")

        def between(number: int) -> None:
            if number == 2:
                process.kill()
                process.wait()
                temp.unlink()

        root.write(f"{ZONE}0/temp", "100\n")
        result, records = rig.run(between)
    assert not any(record.void for record in records)
    first, second, third = starts(records)
    assert first == second != 0.1
    assert third is None, "the cooler sensor is not taken in its place"
    told = sentences(result)
    assert told["sensor-gone"] == f"note: {ZONE}1/temp vanished during a run (1 of 3 runs)"
    assert "unknown in 1 of 3 runs of stock" in told["start_temperature"]


def test_a_setting_that_others_undo_makes_the_run_void(root: FakeRoot, rig: Rig) -> None:
    swappiness = "/proc/sys/vm/swappiness"
    assert root.run("apply", "-y", "vm.swappiness=10").status == 0

    def between(number: int) -> None:
        if number in {2, 3}:
            root.write(swappiness, "60\n" if number == 2 else "10\n")

    result, records = rig.run(between)
    why = (f"{swappiness} no longer has the value that ktrial set",)
    assert [record.void for record in records] == [(), why, (), ()]
    assert (result.complete, result.summaries[0].n) == (1, 3)


def store_in(folder: Path) -> Store:
    return Store(Database.open(str(folder / "results.db")))


def test_an_error_of_the_disk_of_a_store_that_has_no_space_says_so(tmp_path: Path) -> None:
    failed = sa.exc.OperationalError("", {}, sqlite3.OperationalError("disk I/O error"))
    with mounted(tmp_path / "small", "size=512k") as folder:
        store = Database.open(str(folder / "results.db"))
        with pytest.raises(KtrialError, match="disk I/O error"), store.writing():
            raise failed
        with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        with pytest.raises(KtrialError, match="No space left on device") as caught, store.reading():
            raise failed
        store.close()
    assert caught.value.hint == "free some space; everything recorded before is safe"


def test_a_full_disk_keeps_the_samples_of_every_run_that_it_keeps(root: FakeRoot, rig: Rig, tmp_path: Path) -> None:
    root.write(f"{ZONE}0/temp", "48000\n")
    with mounted(tmp_path / "small", "size=1m") as folder:
        store = store_in(folder)
        filler = folder / "filler"
        kept: RunStore = Recorder(lambda: store, SystemClock().unix_ms)

        def between(number: int) -> None:
            if number == 3:
                with contextlib.suppress(OSError), filler.open("wb") as file:
                    while True:
                        file.write(b"x" * 4096)
                        file.flush()

        with pytest.raises(KtrialError, match=r"full|No space"):
            rig.run(between, rounds=5, store=kept)
        filler.unlink()
        (session,) = store.sessions()
        runs = list(store.runs(session.session))
        assert [run.state for run in runs][:2] == ["ok", "ok"]
        assert all(run.document is None for run in runs[2:])
        for run in runs[:2]:
            samples = from_parquet(store.raw(run.raw[TELEMETRY]))
            assert samples.values(f"{NAMED}0")[-1] == 48.0
        store.close()
    assert all(one.answered() for one in rig.agents), "no agent samples on"


def test_a_server_that_is_killed_ends_the_measurement_and_its_sampling(root: FakeRoot, rig: Rig) -> None:
    with contextlib.ExitStack() as stack:
        store = Store(Database.open(stack.enter_context(postgresql())))

        def between(number: int) -> None:
            if number == 2:
                stack.close()

        with pytest.raises(KtrialError) as caught:
            rig.run(between, store=Recorder(lambda: store, SystemClock().unix_ms))
        assert "cannot write" in caught.value.message
        store.close()
    assert all(one.answered() for one in rig.agents), "no agent samples on"


def test_a_sampling_agent_that_is_killed_costs_its_samples_alone(root: FakeRoot, rig: Rig) -> None:
    root.write(f"{ZONE}0/temp", "48000\n")

    def between(number: int) -> None:
        if number == 2:
            os.kill(rig.agents[-1]._process.pid, 9)

    result, records = rig.run(between)
    assert [TELEMETRY in record.raw for record in records] == [True, False, True]
    assert all(record.ok for record in records)
    assert sentences(result)["samples-lost"].startswith("note: the samples of 1 of 3 runs were lost: lost the agent")


def test_bench_keeps_samples_and_show_tells_what_they_cost(
    root: FakeRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    from tests.bench.system.test_bench import run

    ran = run("bench", "-n", "2", "--label", "stock", "--gate", "uptime=off", "--", "sleep", "0.01")
    assert ran.status == 0, ran.err
    (session,) = json.loads(run("runs", "--json").out)["sessions"]
    name = session["session"]
    assert session["document"]["gates"]["uptime"] == {"suspect": None, "refuse": None, "same": None}
    shown = run("show", f"{name}/1")
    assert "ms of CPU time per sample" in shown.out or "us of CPU time per sample" in shown.out, shown.out
    document = json.loads(run("show", f"{name}/1", "--json").out)["runs"][0]["document"]
    columns = document["conditions"]["telemetry"]["columns"]
    assert columns["uptime.since_boot"]["n"] >= 2
    assert document["conditions"]["readings_before"]["uptime_s"] > 0
    assert TELEMETRY in document["raw"]


def test_a_gate_of_one_command_knows_both_limits(root: FakeRoot, tmp_path: Path) -> None:
    from tests.bench.system.test_bench import run

    ran = run("bench", "-n", "1", "--gate", 'swap={ suspect = "1MiB", refuse = "10MiB" }', "--", "true")
    assert ran.status == 0, ran.err
    (session,) = json.loads(run("runs", "--json").out)["sessions"]
    assert session["document"]["gates"]["swap"] == {"suspect": 1 << 20, "refuse": 10 << 20, "same": None}


def test_show_tells_the_doubts_that_bench_told(root: FakeRoot, tmp_path: Path) -> None:
    from tests.bench.system.test_bench import run

    ran = run("bench", "-n", "2", "-o", str(tmp_path / "x.json"), "--gate", "uptime=1x", "--", "sleep", "0.1")
    told = json.loads((tmp_path / "x.json").read_text())["findings"]
    assert "uptime" in {one["kind"] for one in told}, ran.err
    (session,) = json.loads(run("runs", "--json").out)["sessions"]
    assert json.loads(run("show", session["session"], "--json").out)["findings"] == told
    assert "doubt: 1 of 2 runs began in another state than the first" in run("show", session["session"]).out


@pytest.mark.parametrize(
    "argv, said",
    [
        (("--gate", "heat=8C"), "unknown gate: 'heat'"),
        (("--gate", "swap"), "cannot read --gate 'swap'"),
        (("--gate", "swap=hot"), "'hot' is not a limit"),
        (("--gate", "swap={ refuse = 1MiB }"), "expected a TOML table"),
        (("--gate", 'swap={ stop = "1MiB" }'), "unknown level of gate swap: 'stop'"),
        (("--settle=soon",), "--settle soon: not a duration"),
    ],
)
def test_wrong_limits_are_said_before_anything_runs(
    root: FakeRoot, tmp_path: Path, argv: tuple[str, ...], said: str
) -> None:
    from tests.bench.system.test_bench import run

    ran = run("bench", *argv, "--", "true")
    assert ran.status == 2
    assert said in ran.err
    assert not (tmp_path / "home/.local/state/ktrial/results.db").exists()


def test_settle_takes_no_word_that_is_not_its_own(root: FakeRoot) -> None:
    from tests.bench.system.test_bench import run

    ran = run("bench", "--settle", "quikc")
    assert "did you mean quick?" in ran.err


def test_a_suite_with_a_wrong_limit_is_named_with_its_line(root: FakeRoot, tmp_path: Path) -> None:
    from tests.bench.system.test_bench import own, run

    home = tmp_path / "home"
    text = "name = 'x'\nsummary = 'x'\nsample_period = {}\n[[benchmark]]\nuse = 'agent-memcpy'\n[gates]\nsteal = {}\n"
    own(home, "suites", "x", text.format("'1s'", "'much'"))
    assert "x.toml:7:1: gate steal: 'much' is not a limit" in run("bench", "x").err
    own(home, "suites", "x", text.format("'1ms'", "'2%'"))
    assert "x.toml:3:1: expected a sample period, got '1ms'" in run("bench", "x").err
