# SPDX-License-Identifier: Apache-2.0
"""Counters around runs, on a machine made of a dictionary."""

from __future__ import annotations

import json
from typing import Any

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.around.around_run import Around
from ktrial.bench.benchmark import RawOutput
from ktrial.bench.measure import measure
from ktrial.bench.record import RunRecord
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Task
from ktrial.machine.facts import FactBook
from ktrial.machine.reading import Reading
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor, FakeStore, answer
from tests.support.machine import FakeMachine

RAPL = "/sys/class/powercap/intel-rapl:0"
PATTERN = "/sys/class/powercap/*/energy_uj"
IDLE = "/sys/devices/system/cpu/cpu{}/cpuidle/state{}/{}"
FILES: dict[str, str | Reading] = {
    f"{RAPL}/name": "package-0\n",
    f"{RAPL}/energy_uj": "262143000000\n",
    f"{RAPL}/max_energy_range_uj": "262143328850\n",
    **{
        IDLE.format(cpu, number, file): text
        for cpu in (0, 1)
        for number, name in enumerate(("POLL", "C1", "C6"))
        for file, text in (("name", f"{name}\n"), ("time", "1000\n"), ("usage", "10\n"))
    },
}


class Heater:
    """An executor whose runs change the machine: 10 J, and two seconds of the deepest sleep."""

    def __init__(self, machine: FakeMachine, raw: RawOutput | None = None) -> None:
        self.machine = machine
        self.raw = raw or answer()
        self.executor = FakeExecutor(self._run, installed=("tool", "sleep", PATTERN))

    def _run(self, argv: tuple[str, ...]) -> RawOutput:
        changes = {
            f"{RAPL}/energy_uj": "9671150\n",
            IDLE.format(0, 2, "time"): "901000\n",
            IDLE.format(1, 2, "time"): "701000\n",
            IDLE.format(1, 1, "time"): "51000\n",
            IDLE.format(1, 1, "usage"): "25\n",
        }
        self.machine.files |= {path: text for path, text in changes.items() if path in self.machine.files}
        return self.raw


def run(heater: Heater, task: Task | None = None) -> tuple[RunRecord, tuple[str, ...]]:
    task = task or Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 10})
    order = Order(suite="own", tasks=(task,), rounds=1, seed=7)
    around = Around(heater.machine, FakeClock())
    events: list[Any] = []
    result, (record,) = measure(order, heater.executor, FakeStore(), FakeClock(), FactBook({}), events.append, around)
    return record, result.session.notes


def values(record: RunRecord) -> dict[str, float]:
    return {kept.outcome: round(kept.value, 6) for kept in record.measurements}


def test_energy_of_any_benchmark() -> None:
    record, notes = run(Heater(FakeMachine(FILES)))
    assert values(record) == {"time": 1.5, "energy.package-0": 10.0, "power.package-0": 10.0}
    assert {kept.outcome: kept.unit for kept in record.measurements}["power.package-0"] == "W"
    assert notes == ()
    assert record.conditions is None, "nobody was asked to look"


def test_where_there_is_nothing_it_is_said_once_and_nothing_is_zero() -> None:
    record, notes = run(Heater(FakeMachine({})))
    assert values(record) == {"time": 1.5}
    assert (record.conditions, record.notes) == (None, ())
    assert notes == ("energy is not measured: this machine has no RAPL, hwmon or battery counter",)


def test_what_only_root_may_read_is_said_once() -> None:
    files = {**FILES, f"{RAPL}/energy_uj": Reading(unreadable="read energy_uj: Permission denied", mode=0o400)}
    record, notes = run(Heater(FakeMachine(files)))
    assert values(record) == {"time": 1.5}
    assert notes == ("energy of package-0 is not measured: read energy_uj: Permission denied",)


def test_power_of_an_instant_is_not_taken_for_a_mean() -> None:
    _, notes = run(Heater(FakeMachine({"/sys/class/hwmon/hwmon2/power1_input": "15000000\n"})))
    assert "instantaneous power" in notes[1]


def test_a_counter_that_stood_still_is_noted_with_the_run() -> None:
    files = {**FILES, f"{RAPL}/energy_uj": "9671150\n"}
    record, _ = run(Heater(FakeMachine(files)))
    assert values(record) == {"time": 1.5}
    assert record.notes == ("energy of package-0 is unknown: the counter did not move in 1 s",)


def test_an_interrupted_run_has_no_energy() -> None:
    heater = Heater(FakeMachine(FILES), answer(interrupted=True))
    record, _ = run(heater)
    assert record.measurements == ()
    assert record.conditions is None


def idle(files: dict[str, str | Reading], raw: RawOutput | None = None) -> RunRecord:
    benchmark = all_benchmarks()["idle-package"]
    task = Task(label="idle", benchmark=benchmark, parameters=dict(benchmark.parameters))
    return run(Heater(FakeMachine(files), raw), task)[0]


def test_the_machine_at_rest() -> None:
    record = idle(FILES, answer(b""))
    assert record.failure is None
    assert values(record) == {
        "power": 10.0,
        "idle-share": 0.825,
        "deepest-share": 0.8,
        "idle-entries": 15.0,
        "energy.package-0": 10.0,
        "power.package-0": 10.0,
    }
    assert record.details["residency"] == {"POLL": 0.0, "C1": 0.025, "C6": 0.8}
    assert record.argv[1:] == ("15",)
    assert "files/watched.json" in record.raw


def test_rest_without_idle_states_is_noted() -> None:
    record = idle({path: text for path, text in FILES.items() if "cpuidle" not in path}, answer(b""))
    assert values(record).keys() == {"power", "energy.package-0", "power.package-0"}
    assert record.notes == ("this machine does not report idle states of its CPUs",)


def test_rest_without_a_readable_counter_fails() -> None:
    record = idle({**FILES, f"{RAPL}/energy_uj": Reading(unreadable="no", mode=0o400)}, answer(b""))
    assert "start ktrial with sudo" in str(record.failure)


def test_rest_with_a_counter_that_stood_still_fails() -> None:
    record = idle({**FILES, f"{RAPL}/energy_uj": "9671150\n"}, answer(b""))
    assert record.failure == (
        "energy of package-0 is unknown: the counter did not move in 1 s; next: measure for more time"
    )


def test_a_counter_of_sleep_that_goes_backwards_fails() -> None:
    record = idle({**FILES, IDLE.format(0, 2, "time"): "99999999\n"}, answer(b""))
    assert "a counter that only rises" in str(record.failure)


def test_without_a_counter_of_the_package_the_hint_depends_on_what_is_missing() -> None:
    unreadable = {path: text for path, text in FILES.items() if not path.endswith("energy_uj")}
    assert "cannot read the RAPL counters" in str(idle(unreadable, answer(b"")).failure)
    other = {path: "psys\n" if text == "package-0\n" else text for path, text in FILES.items()}
    assert "RAPL has no counter for a processor package" in str(idle(other, answer(b"")).failure)


def test_what_was_watched_is_kept_as_it_was() -> None:
    machine = FakeMachine(FILES)
    benchmark = all_benchmarks()["idle-package"]
    watching = Around(machine, FakeClock()).watch(benchmark.invocation(benchmark.parameters, FactBook({})))
    watching.begin()
    machine.files[IDLE.format(0, 0, "time")] = "2000\n"
    watching.end()
    document = json.loads(watching.files["watched.json"])
    path = IDLE.format(0, 0, "time")
    assert (document["before"][path], document["after"][path], document["seconds"]) == ("1000", "2000", 1.0)


def test_the_state_of_the_machine_is_kept_at_begin_and_end() -> None:
    states = iter([b"first", b"second"])
    around = Around(FakeMachine({}), FakeClock(), take_state=lambda: next(states))
    store = FakeStore()
    task = Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 10})
    order = Order(suite="own", tasks=(task,), rounds=1, seed=7)
    measure(order, FakeExecutor(), store, FakeClock(), FactBook({}), lambda event: None, around)
    assert store.states == {"begin": b"first", "end": b"second"}


def test_an_interrupted_measurement_has_no_state_at_its_end() -> None:
    around = Around(FakeMachine({}), FakeClock(), take_state=lambda: b"state")
    store = FakeStore()
    task = Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 10})
    order = Order(suite="own", tasks=(task,), rounds=2, seed=7, drawn=True)
    executor = FakeExecutor(lambda argv: answer(interrupted=True))
    measure(order, executor, store, FakeClock(), FactBook({}), lambda event: None, around)
    assert set(store.states) == {"begin"}
    measure(order, FakeExecutor(), store, FakeClock(), FactBook({}), lambda event: None, around)
    assert set(store.states) == {"begin", "begin-2", "end"}
