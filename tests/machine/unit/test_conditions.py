# SPDX-License-Identifier: Apache-2.0
"""Conditions of runs: what is read, sampled and judged around each, and which runs are void for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from ktrial.bench.around.around_run import Around
from ktrial.bench.around.start_gate import StartGates
from ktrial.bench.benchmark import RawOutput
from ktrial.bench.doubts import session_findings
from ktrial.bench.events import Event, Result, Settles
from ktrial.bench.measure import MOST_REPEATS, measure
from ktrial.bench.record import RunRecord
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Suite, SuiteEntry, Task, parse_sample_period
from ktrial.bench.text import findings_text, run_ends
from ktrial.kit.errors import AgentError, BadInput
from ktrial.machine.facts import FactBook
from ktrial.machine.gates import GATES, parse_gates
from ktrial.machine.sensors import Gone
from ktrial.machine.watch_run import TELEMETRY, ConditionWatch
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor, FakeSampling, FakeSleep, FakeStore, answer
from tests.support.machine import FakeMachine, step_told
from tests.support.samples import LEVEL, NARROW, TICKS

UNITS = {
    "temperature.cpu": LEVEL,
    "frequency.policy0": msgspec.structs.replace(LEVEL, unit="Hz", per_unit=1),
    "throttle.cpu0.core_count": NARROW,
    "cpu.user": TICKS,
    "cpu.steal": TICKS,
}
QUIET = {"oldest": 0, "newest": 5, "log": "", "truncated": False}


BUSY = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def test_what_others_do_while_it_waits_is_told_of_the_runs_that_follow() -> None:
    ticks = [dict.fromkeys((f"cpu.{name}" for name in BUSY), 0), {f"cpu.{name}": 0 for name in BUSY}]
    ticks[1] |= {"cpu.user": 60, "cpu.idle": 140}
    sampling, waited = FakeSampling(ticks, {f"cpu.{name}": TICKS for name in BUSY}), []
    watch = ConditionWatch(FakeMachine({}), sampling, FakeSleep(), "/", lambda samples: b"")
    watch.rest(lambda: waited.append(list(sampling.log)))
    assert waited == [["once"]], "one look before the wait, one after it"
    assert sampling.log == ["once", "once"]
    assert watch.look()["others_share"] == pytest.approx(0.3)
    found = StartGates(watch, FakeClock()).judge(counts=True).findings
    assert [(one.gate, one.level) for one in found if one.gate == "others"] == [("others", "suspect")]


def test_where_nobody_waits_others_are_looked_at_for_a_moment_and_not_before_every_run() -> None:
    names = [f"cpu.{name}" for name in BUSY]
    looks = [dict.fromkeys(names, 0), {**dict.fromkeys(names, 0), "cpu.user": 60, "cpu.idle": 140}]
    sampling, clock = FakeSampling(looks, dict.fromkeys(names, TICKS)), FakeClock()
    watch = ConditionWatch(FakeMachine({}), sampling, FakeSleep(), "/", lambda samples: b"")
    gates = StartGates(watch, clock, others_s=0.5)
    first = gates.judge(counts=True)
    assert first.readings["others_share"] == pytest.approx(0.3)
    assert sampling.log == ["once"] * 3, "two for the others, one for the run"
    gates.judge(counts=True)
    assert sampling.log == ["once"] * 4
    clock.now_ns += 10 * 10**9
    gates.judge(counts=True)
    assert sampling.log == ["once"] * 7


def test_without_a_thermometer_there_is_no_heat_to_wait_for_and_no_look() -> None:
    for looks, taken in ((heat(None), 1), (heat(45), 2)):
        sampling = FakeSampling(looks * 3, UNITS)
        watch = ConditionWatch(FakeMachine({}), sampling, FakeSleep(), "/", lambda samples: b"")
        gates = StartGates(watch, FakeClock())
        gates.judge(counts=True)
        assert gates.settle(lambda _: None) is None
        assert sampling.log == ["once"] * taken


def heat(*degrees: int | None) -> list[dict[str, int | None]]:
    """Looks at a machine that is as warm."""
    return [{"temperature.cpu": None if one is None else one * 1000} for one in degrees]


class Conditions:
    """One measurement of a benchmark and everything that was seen of it. A run takes three looks."""

    def __init__(self, rows: list[dict[str, int | None]], *, rounds: int = 2, label: str | None = "stock") -> None:
        self.sampling = FakeSampling(rows, UNITS)
        self.sleep = FakeSleep()
        self.machine = FakeMachine({}, {"power.source": "mains"})
        self.machine.answers["kernel_log"] = QUIET
        self.machine.answers["verify"] = {"transactions": []}
        self.executor = FakeExecutor()
        self.store = FakeStore()
        self.clock = FakeClock()
        self.events: list[Event] = []
        self.settle_s: float | None = None
        self.period_s: float | None = 1.0
        self.gates: Mapping[str, Any] = {}
        task = Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 1})
        self.order = Order(suite="own", tasks=(task,), rounds=rounds, seed=7, label=label)

    def run(self) -> tuple[Result, tuple[RunRecord, ...]]:
        limits = parse_gates(self.gates)
        watch = ConditionWatch(
            self.machine, self.sampling, self.sleep, "/home", lambda samples: b"PAR1%d" % samples.taken, self.period_s
        )
        gates = StartGates(watch, self.clock, limits, self.settle_s)
        order = msgspec.structs.replace(self.order, gates=limits, sample_period_s=self.period_s)
        around = Around(self.machine, self.clock, gates=gates)
        store, clock = self.store, self.clock
        return measure(order, self.executor, store, clock, FactBook({}), self.events.append, around)


def found(result: Result) -> dict[str, str]:
    return {one.kind: f"{one.level}: {one.sentence}" for one in result.findings}


def test_a_record_says_what_was_true_around_the_run() -> None:
    looks: list[dict[str, int | None]] = [
        {"temperature.cpu": 45_000, "frequency.policy0": 10**9, "throttle.cpu0.core_count": 7, "cpu.user": 0},
        {"temperature.cpu": 48_000, "frequency.policy0": 3 * 10**9, "throttle.cpu0.core_count": 7, "cpu.user": 0},
        {"temperature.cpu": 63_000, "frequency.policy0": 2 * 10**9, "throttle.cpu0.core_count": 9, "cpu.user": 95},
    ]
    for look, stolen in zip(looks, (0, 0, 5), strict=True):
        look["cpu.steal"] = stolen
    bench = Conditions(looks, rounds=1)
    bench.machine.answers["kernel_log"] = {**QUIET, "newest": 6, "log": "4,6,5,-;CPU0: something is wrong\n"}
    _, (record,) = bench.run()
    assert bench.sampling.log == ["once", "start 1", "stop"]
    assert bench.store.parts[0][TELEMETRY] == b"PAR12"
    assert record.raw[TELEMETRY].size_bytes == 5
    told = record.conditions
    assert told is not None
    assert [(one.value, one.unit) for one in told.before] == [(48.0, "C"), (1e9 * 3, "Hz")]
    assert [(one.value, one.of) for one in told.after] == [(63.0, "cpu"), (2e9, "mean of 1 policies")]
    assert (told.readings_before["temperature_c"], told.readings_after["temperature_c"]) == (45.0, 63.0)
    assert told.readings_before["power_source"] == "mains"
    during = told.readings_during
    assert (during["steal_share"], during["throttled_share"], during["slept_s"]) == (0.05, 1.0, 0.0)
    assert told.telemetry is not None
    column = told.telemetry.columns["temperature.cpu"]
    assert (column.first, column.last, column.mean, column.n) == (48.0, 63.0, 55.5, 2)
    assert (told.telemetry.taken, told.telemetry.cost.cpu_ns_per_sample) == (2, 1)
    assert run_ends(record, ()).endswith("; 48 to 63 C, 3 to 2 GHz")
    assert msgspec.json.decode(msgspec.json.encode(record), type=RunRecord) == record


def test_a_record_of_before_there_were_samples_is_still_read() -> None:
    _, (record,) = Conditions(heat(45), rounds=1).run()
    document = msgspec.to_builtins(record)
    one = {"name": "temperature", "value": 48.0, "unit": "C", "of": "thermal_zone0 x86_pkg_temp"}
    document["conditions"] = {"before": [one], "after": []}
    for name in ("findings", "void", "settled"):
        del document[name]
    for name in ("gates", "sample_period_s"):
        del document["session"][name]
    read = msgspec.convert(document, RunRecord)
    assert read.conditions is not None
    assert (read.conditions.before[0].value, read.conditions.telemetry, read.void) == (48.0, None, ())


def test_a_warm_up_is_neither_judged_nor_what_others_are_judged_by() -> None:
    bench = Conditions([*heat(30, 30, 30), *heat(45)], rounds=2)
    task = Task(label="a", benchmark=FakeBenchmark(name="a", warm_ups=1), parameters={"loops": 1})
    bench.order = msgspec.structs.replace(bench.order, tasks=(task,))
    _, records = bench.run()
    assert [record.round for record in records] == [0, 1, 2]
    assert records[0].findings == ()
    assert not any(record.void for record in records)


def test_a_run_that_would_begin_too_hot_is_void_and_made_at_the_end() -> None:
    # The first run takes three looks; both others are looked at, waited for in vain, looked at again and void.
    bench = Conditions([*heat(40, 40, 40), *heat(*[60] * 6), *heat(40)], rounds=3)
    bench.clock = ImpatientClock()
    result, records = bench.run()
    void = [record for record in records if record.void]
    assert [record.run for record in void] == [2, 3]
    assert all(record.failure == f"void: {record.void[0]}" for record in void)
    assert "temperature at the start: 40.0 °C in first run and 60.0 °C in this run" in void[0].void[0]
    assert all(record.measurements == () and record.repeated for record in void)
    assert len(bench.executor.log) == len(records) - len(void), "a void run is not begun"
    assert (result.complete, result.holes) == (1, ())
    last = [record for record in records if not record.void]
    assert [(record.round, record.position) for record in last] == [(1, 1), (2, 1), (3, 1)]
    assert "void and not counted" in found(result)["void"]
    assert result.summaries[0].n == 3


class ImpatientClock(FakeClock):
    """A minute passes with each look."""

    def monotonic_ns(self) -> int:
        self.now_ns += 59 * 10**9
        return super().monotonic_ns()


def test_void_runs_are_made_again_a_bounded_number_of_times() -> None:
    bench = Conditions([*heat(40, 40, 40), *heat(60)], rounds=2)
    bench.clock = ImpatientClock()
    result, records = bench.run()
    assert len(records) == 1 + 1 + MOST_REPEATS
    assert [bool(record.void) for record in records] == [False, True, True, True, True]
    assert [record.repeated for record in records] == [False, True, True, True, False]
    (hole,) = result.holes
    assert hole.why.startswith("1 of 2 runs are void, the last: temperature at the start")
    assert "--settle" in str(hole.next)
    assert found(result)["void"].startswith("suspect: 4 of 5")


def test_an_interrupted_session_goes_on_against_its_first_run() -> None:
    first = Conditions(heat(40), rounds=3)
    first.executor._reply = lambda argv: answer(interrupted=len(first.executor.log) == 2)
    first.run()
    second = Conditions(heat(46), rounds=3)
    second.store = first.store
    result, records = second.run()
    suspect = [[one.gate for one in record.findings if one.level == "suspect"] for record in records]
    assert suspect == [[], [], ["start_temperature"], ["start_temperature"]]
    (doubt,) = [one for one in result.findings if one.level == "suspect"]
    assert (doubt.kind, doubt.values) == ("start_temperature", {"stock": 2.0})
    assert doubt.sentence == (
        "2 of 3 runs began in another state than the first, the last: temperature at the start: 40.0 °C in first run"
        " and 46.0 °C in this run, 6.0 °C apart (limit 5.0 °C)"
    )


def test_a_hot_machine_is_waited_for_before_it_is_refused() -> None:
    bench = Conditions(heat(40, 40, 40, 60, 60, 50, 40), rounds=2)
    result, records = bench.run()
    assert not any(record.void for record in records)
    waits = [event.waiting for event in bench.events if isinstance(event, Settles)]
    assert len(waits) == 2
    assert waits[0].startswith("waiting for temperature 60.0 °C, wanted 41.0 °C")
    assert records[1].settled is not None
    assert records[1].settled.reached
    assert result.holes == ()


def test_settle_waits_for_heat_that_no_gate_refuses() -> None:
    rows = heat(40, 40, 40, 43, 40)
    bench = Conditions(rows, rounds=2)
    bench.settle_s = 600.0
    _, records = bench.run()
    assert sum(isinstance(event, Settles) for event in bench.events) == 1
    assert records[0].settled is None
    assert records[1].settled is not None
    assert records[1].settled.untold == ("load at the first run is unknown",)


def test_what_had_not_settled_at_the_limit_is_a_finding() -> None:
    bench = Conditions([*heat(40, 40, 40), *heat(44)], rounds=2)
    bench.settle_s, bench.clock = 30.0, ImpatientClock()
    result, _ = bench.run()
    assert found(result)["settle"] == (
        "note: 1 of 2 runs began before the machine had settled, the last: temperature 44.0 °C, wanted 41.0 °C"
    )


def test_a_suspend_makes_a_run_void() -> None:
    bench = Conditions(heat(40), rounds=2)
    bench.sleep = FakeSleep(0.0, 0.0, 10.0, 100.0, 100.0)
    result, records = bench.run()
    assert [record.void for record in records] == [(), ("the machine slept for 90 s during the run",), ()]
    assert records[1].measurements == ()
    assert "stdout" in records[1].raw, "what it printed is kept"
    assert result.holes == ()
    assert run_ends(records[1], ()) == " VOID: the machine slept for 90 s during the run"


def in_force(**outcomes: str) -> dict[str, Any]:
    """The reply to `verify` for one transaction: name -> outcome."""
    steps = [step_told(path=f"/proc/sys/vm/{name}", outcome=outcome) for name, outcome in outcomes.items()]
    return {"transactions": [{"transaction": 1, "steps": steps}]}


def test_a_knob_that_no_longer_reads_back_as_set_makes_a_run_void() -> None:
    bench = Conditions(heat(40), rounds=3)
    bench.machine.answers["verify"] = in_force(swappiness="in-force", page_cluster="drifted")

    def reply(argv: tuple[str, ...]) -> RawOutput:
        wrong = len(bench.executor.log) == 2
        bench.machine.answers["verify"] = in_force(
            swappiness="drifted" if wrong else "in-force", page_cluster="in-force"
        )
        return answer()

    bench.executor._reply = reply
    result, records = bench.run()
    why = ("/proc/sys/vm/swappiness no longer has the value that ktrial set",)
    assert [record.void for record in records] == [(), why, (), ()]
    assert "stdout" in records[1].raw
    assert result.holes == ()


def test_an_ordinary_user_who_may_not_ask_for_transactions_measures_all_the_same() -> None:
    bench = Conditions(heat(40), rounds=1)
    request: Callable[..., dict[str, Any]] = bench.machine.request

    def refused(do: str, **fields: Any) -> dict[str, Any]:
        if do == "verify":
            raise AgentError("privilege", "the journal can be read by root alone")
        return request(do, **fields)

    bench.machine.request = refused  # type: ignore[method-assign]
    assert bench.run()[0].complete == 1


def test_throttling_and_warnings_are_findings_and_void_nothing() -> None:
    rows: list[dict[str, int | None]] = [
        {"temperature.cpu": 40_000, "throttle.cpu0.core_count": count} for count in range(15)
    ]
    bench = Conditions(rows, rounds=4)
    bench.machine.answers["kernel_log"] = {**QUIET, "newest": 6, "log": "4,6,5,-;CPU0: something is wrong\n"}
    watch_log(bench)
    result, records = bench.run()
    assert not any(record.void for record in records)
    assert found(result)["throttling"] == "suspect: thermally limited: runs 4/4 in stock"
    assert found(result)["kernel_log"] == "suspect: warnings of the kernel: runs 4/4 in stock"
    text = findings_text(result.findings, width=100)
    assert text.splitlines()[0].startswith("doubt: ")
    assert records[0].conditions is not None
    assert records[0].conditions.kernel_log is not None
    assert [line.text for line in records[0].conditions.kernel_log.lines] == ["CPU0: something is wrong"]


def test_findings_are_of_the_runs_that_count() -> None:
    rows: list[dict[str, int | None]] = [
        {"temperature.cpu": 40_000, "throttle.cpu0.core_count": count} for count in range(20)
    ]
    bench = Conditions(rows, rounds=4, label=None)
    bench.executor._reply = lambda argv: answer(interrupted=len(bench.executor.log) == 4)
    bench.sleep = FakeSleep(0.0, 0.0, 0.0, 0.0, 0.0, 50.0, 50.0)
    task = Task(label="a", benchmark=FakeBenchmark(name="a", warm_ups=1), parameters={"loops": 1})
    bench.order = msgspec.structs.replace(bench.order, tasks=(task,))
    result, records = bench.run()
    # A warm-up, a good run, one that slept, one that Ctrl-C ended.
    assert [(record.round, bool(record.void), record.exit.interrupted) for record in records] == [
        (0, False, False),
        (1, False, False),
        (2, True, False),
        (3, False, True),
    ]
    assert found(result)["throttling"] == "suspect: thermally limited: runs 1/1 in this session"
    assert found(result)["void"].startswith("suspect: 1 of 2 runs of this session is void")


def watch_log(bench: Conditions) -> None:
    """Each second look at the log finds the line."""
    looks: list[int] = []
    whole = bench.machine.answers["kernel_log"]
    request: Callable[..., dict[str, Any]] = bench.machine.request

    def asked(do: str, **fields: Any) -> dict[str, Any]:
        if do == "kernel_log":
            looks.append(1)
            return whole if len(looks) % 2 == 0 else QUIET
        return request(do, **fields)

    bench.machine.request = asked  # type: ignore[method-assign]


def test_limits_are_those_of_the_suite() -> None:
    bench = Conditions([*heat(40, 40, 40), *heat(60)], rounds=2)
    bench.gates = {"start_temperature": "off"}
    _, records = bench.run()
    assert not any(record.void for record in records)
    assert records[0].session.gates["start_temperature"].is_off


def test_a_gate_on_the_run_itself_does_not_judge_the_first_one_again() -> None:
    """What was wrong with the first run is no doubt about the others."""
    bench = Conditions(heat(40), rounds=2)
    machine = bench.machine
    size = {"size_bytes": 100, "mount": "/"}
    facts = iter([{**size, "used_bytes": 99}, {**size, "used_bytes": 99}, {**size, "used_bytes": 10}])
    last = {**size, "used_bytes": 10}
    machine.facts = lambda only=(): FakeMachine({}, {"filesystems": [next(facts, last)]}).facts()  # type: ignore[method-assign]
    _, records = bench.run()
    assert [[one.gate for one in record.findings if one.level == "suspect"] for record in records] == [["disk"], []]


def test_an_agent_that_is_lost_takes_its_samples_and_nothing_else() -> None:
    bench = Conditions(heat(40), rounds=2)
    bench.sampling.lost = True
    result, records = bench.run()
    assert all(record.ok for record in records)
    assert records[0].conditions is not None
    assert records[0].conditions.lost == "the agent was lost during 'sample'"
    assert TELEMETRY not in records[0].raw
    assert found(result)["samples-lost"].startswith("note: the samples of 2 of 2 runs were lost")


def test_sensors_that_lie_vanish_or_appear_are_told() -> None:
    _, records = Conditions(heat(40), rounds=2).run()
    conditions = records[0].conditions
    assert conditions is not None
    assert conditions.telemetry is not None
    replace = msgspec.structs.replace
    telemetry = replace(
        conditions.telemetry,
        lies={"temperature.b": 1, "temperature.a": 2},
        gone={"power.x": Gone(at_ns=1, why="ENODEV")},
        appeared=("fan.y",),
    )
    wrong = replace(records[0], conditions=replace(conditions, telemetry=telemetry))
    told = session_findings([wrong, *records[1:]], parse_gates(dict.fromkeys(GATES, "off")), "stock")
    assert [(one.kind, one.level, one.sentence) for one in told] == [
        ("sensor-lied", "note", "temperature.a, temperature.b showed impossible values (1 of 2 runs)"),
        ("sensor-gone", "note", "power.x vanished during a run (1 of 2 runs)"),
        ("sensor-appeared", "note", "fan.y appeared during a run (1 of 2 runs)"),
    ]
    assert {tuple(one.values.items()) for one in told} == {(("stock", 1.0),)}


def test_an_interrupted_run_leaves_no_sampling() -> None:
    bench = Conditions(heat(40), rounds=2)
    bench.executor._reply = lambda argv: answer(interrupted=True)
    _, (record,) = bench.run()
    assert bench.sampling.log == ["once", "start 1", "stop"]
    assert record.conditions is not None
    assert (record.conditions.telemetry, dict(record.raw)) == (None, {"stdout": record.raw["stdout"]})


def test_what_breaks_a_run_ends_the_sampling_too() -> None:
    bench = Conditions(heat(40), rounds=2)

    def broken(argv: tuple[str, ...]) -> RawOutput:
        raise BadInput("no room")

    bench.executor._reply = broken
    with pytest.raises(BadInput):
        bench.run()
    assert bench.sampling.log[-1] == "stop"


def test_without_samples_only_both_ends_are_read() -> None:
    bench = Conditions(heat(40), rounds=1)
    bench.period_s = None
    _, (record,) = bench.run()
    assert bench.sampling.log == ["once", "once", "once"]
    assert record.conditions is not None
    assert record.conditions.telemetry is None
    assert record.conditions.before[0].value == 40.0
    assert TELEMETRY not in record.raw


@pytest.mark.parametrize("text, seconds", [("1s", 1.0), ("500ms", 0.5), ("off", None)])
def test_the_time_between_samples(text: str, seconds: float | None) -> None:
    assert Suite("own", "", (SuiteEntry("a"),), sample_period=text).sample_period_s == seconds


@pytest.mark.parametrize("text", ["", "fast", "10ms", "2min", "-1s", "1 parsec"])
def test_no_time_between_samples(text: str) -> None:
    with pytest.raises(BadInput, match="expected a sample period"):
        parse_sample_period(text)
