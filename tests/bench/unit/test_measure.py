# SPDX-License-Identifier: Apache-2.0
"""Whole measurements in milliseconds, with an executor made of memory."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.bench.command_benchmark import OwnBenchmark
from ktrial.bench.events import Began, BenchRunEnded, Event, Hole, Result, RunBegan
from ktrial.bench.measure import measure
from ktrial.bench.record import RunRecord
from ktrial.bench.schedule import Order, plan_of
from ktrial.bench.suite import Suite, SuiteEntry, SuiteLoad, Task, orders
from ktrial.bench.suites import find_suite, tasks_of, with_parameters
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.gates import GateLimits
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor, FakeStore, answer

#: The next step for a run that took too long, for output that cannot be parsed, and for a value that cannot be.
LESS = "; next: give the benchmark less work, or your own command a higher limit (--limit, limit_s)"
READ_IT = "; next: read the output with `ktrial show SESSION/RUN --raw NAME`"
PRINTED = "; next: check what the benchmark printed (`ktrial show SESSION/RUN --raw stdout`)"

FACTS = FactBook(
    {
        "cpu.threads": Fact(value=4),
        "kernel.release": Fact(value="6.18"),
        "boot.id": Fact(value="boot"),
        "power.source": Fact(absent="no power supply"),
    }
)


def task(name: str, **fields: Any) -> Task:
    return Task(label=name, benchmark=FakeBenchmark(name=name, **fields), parameters={"loops": 10})


class Bench:
    """One measurement and everything that was seen of it."""

    def __init__(self, *tasks: Task, rounds: int = 2, load: bool = False, executor: FakeExecutor | None = None) -> None:
        self.order = Order(
            suite="own",
            tasks=tasks or (task("a"), task("b"), task("c")),
            rounds=rounds,
            seed=7,
            label="stock",
            load=SuiteLoad() if load else None,
        )
        self.executor = executor or FakeExecutor()
        self.store = FakeStore()
        self.clock = FakeClock()
        self.events: list[Event] = []

    def run(self) -> tuple[Result, tuple[RunRecord, ...]]:
        return measure(self.order, self.executor, self.store, self.clock, FACTS, self.events.append)


def test_every_benchmark_runs_once_per_round_in_the_order_of_the_seed() -> None:
    bench = Bench(rounds=5)
    result, records = bench.run()
    expected = [label for labels in orders(["a", "b", "c"], 5, 7) for label in labels]
    assert [record.benchmark for record in records] == expected
    assert [(record.round, record.position) for record in records[:4]] == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert bench.executor.log == [f"tool {label} 10" for label in expected]
    assert (result.wanted, result.complete, result.holes, result.interrupted) == (3, 3, (), False)


def test_a_record_says_everything_that_the_numbers_depend_on() -> None:
    bench = Bench(task("a", asks_version=True), rounds=1)
    _, (record,) = bench.run()
    assert record.tool_version == "time 1.5"
    assert record.argv == ("/usr/bin/tool", "a", "10")
    assert (record.environment, record.directory) == ({"LC_ALL": "C"}, "/private")
    assert (record.parameters, record.round, record.position) == ({"loops": 10}, 1, 1)
    session = record.session
    assert (session.suite, session.label, session.seed, session.kernel_release) == ("own", "stock", 7, "6.18")
    assert session.machine["power.source"] == Fact(absent="no power supply")
    assert session.machine["cpu.model"].unknown is not None
    (kept,) = record.measurements
    assert (kept.outcome, kept.value, kept.unit, kept.direction, kept.original) == ("time", 1.5, "s", "lower", "1.5 s")
    assert record.raw["stdout"].size_bytes == len(bench.store.parts[0]["stdout"])
    assert msgspec.json.decode(msgspec.json.encode(record), type=RunRecord) == record


def test_each_run_is_saved_before_the_next_begins() -> None:
    bench = Bench()
    seen: list[tuple[str, int]] = []

    def listen(event: Event) -> None:
        seen.append((type(event).__name__, len(bench.store.records)))

    measure(bench.order, bench.executor, bench.store, bench.clock, FACTS, listen)
    assert seen[:5] == [("Began", 0), ("RunBegan", 0), ("BenchRunEnded", 1), ("RunBegan", 1), ("BenchRunEnded", 2)]
    assert seen[-1] == ("Result", 6)


@pytest.mark.parametrize(
    "raw, why",
    [
        (
            answer(exit_status=3, stderr=b"one\ntwo\nthree\nfour\n"),
            "ended with status 3; it said: one | two | three | four",
        ),
        (
            answer(exit_status=3, stderr=b"1\n2\n3\n4\n5\x1b[2J\n"),
            "ended with status 3; it said: 1 | … | 3 | 4 | 5\ufffd[2J",
        ),
        (
            answer(exit_status=2, stderr=b"***\n*** not clean\n***\nmake[1]: *** [x] Error 1\nmake: *** [x] Error 2\n"),
            "ended with status 2; it said: *** not clean",
        ),
        (
            answer(exit_status=2, stderr=b"make: *** no rule.  Stop.\n"),
            "ended with status 2; it said: make: *** no rule.  Stop.",
        ),
        (
            answer(
                exit_status=2, stderr=b"cc: x.s: No space left on device\n 9 | {\nterminated\nmake: *** [x] Error 1\n"
            ),
            "ended with status 2; no space left for its files; it said: cc: x.s: No space left on device",
        ),
        (
            answer(exit_status=1, stderr=b"a.c:1:1: error: no such type\n 1 | x\n1 error generated.\n"),
            "ended with status 1; it said: a.c:1:1: error: no such type",
        ),
        (
            answer(b'{\n\t"error": "refused"\n}\n', exit_status=1),
            'ended with status 1; it said: "error": "refused"',
        ),
        (answer(signal=9), "was killed by signal 9"),
        (
            answer(signal=9, timed_out=True),
            "exceeded its time limit and was killed" + LESS,
        ),
        (answer(failed="no such file"), "did not complete: no such file"),
        (answer(b"nonsense"), "stdout:1: 'nonsense' is not the word time" + READ_IT),
        (answer(b""), "stdout:1: '' is not the word time" + READ_IT),
        (answer(b"time nan"), "time: expected a finite number, got 'nan s'" + PRINTED),
        (answer(b"time inf"), "time: expected a finite number, got 'inf s'" + PRINTED),
        (answer(b"time -1"), "time: expected 0 or more, got '-1 s'" + PRINTED),
        (answer(b"time 1000"), "time: expected 0 to 100 s, got '1000 s'" + PRINTED),
        (
            answer(cut=True),
            "printed more than is captured, so its output may be incomplete; next: make the benchmark print less",
        ),
    ],
)
def test_a_failed_run_is_kept_with_its_reason_and_output(raw: Any, why: str) -> None:
    bench = Bench(task("a"), rounds=2, executor=FakeExecutor(lambda argv: raw))
    result, records = bench.run()
    assert [record.failure for record in records] == [why, why]
    assert all(record.measurements == () for record in records)
    assert bench.store.records == list(records)
    assert (result.complete, result.holes[0].benchmark) == (0, "a")
    assert result.holes[0].why == f"2 of 2 runs failed, the last: {why}"
    assert result.summaries == ()


def test_one_failed_run_leaves_the_others_and_a_hole() -> None:
    replies = iter([answer(), answer(exit_status=1), answer(b"time 2.5")])
    bench = Bench(task("a"), rounds=3, executor=FakeExecutor(lambda argv: next(replies)))
    result, _ = bench.run()
    (summary,) = result.summaries
    assert (summary.n, summary.median, summary.minimum, summary.maximum) == (2, 2.0, 1.5, 2.5)
    assert result.complete == 0


def test_what_cannot_run_on_the_cpus_asked_for_is_a_hole() -> None:
    bench = Bench(task("a"), rounds=1)
    bench.order = msgspec.structs.replace(
        bench.order, unplaced={"pipe": BadInput("it needs 2 CPUs, and '0' names 1", hint="name more CPUs")}
    )
    result, records = bench.run()
    assert [record.benchmark for record in records] == ["a"]
    assert (result.wanted, result.complete) == (2, 1)
    assert result.holes == (Hole(benchmark="pipe", why="it needs 2 CPUs, and '0' names 1", next="name more CPUs"),)
    assert result.session.missing == {"pipe": "it needs 2 CPUs, and '0' names 1"}


def test_a_missing_tool_is_a_hole_with_the_install_command() -> None:
    bench = Bench(task("a"), task("b", needs=("absent",)))
    result, records = bench.run()
    assert {record.benchmark for record in records} == {"a"}
    assert (result.wanted, result.complete) == (2, 1)
    (hole,) = result.holes
    assert (hole.benchmark, hole.why, hole.next) == ("b", "absent is not installed", "sudo apt install tools")
    began = bench.events[0]
    assert isinstance(began, Began)
    assert (began.missing, began.runs) == ((hole,), 2)


def test_what_needs_root_is_a_hole_for_a_user_and_runs_for_root() -> None:
    needy = task("b", root_reason="it asks for a real-time priority")
    result, _ = Bench(task("a"), needy).run()
    assert result.holes[0].why == "needs root, because it asks for a real-time priority"
    executor = FakeExecutor(has_root=True)
    result, _ = Bench(task("a"), needy, executor=executor).run()
    assert result.holes == ()
    assert executor.root_for == ["b (it asks for a real-time priority)"]


def test_a_benchmark_that_root_cannot_run_says_why_and_is_left_out_for_root() -> None:
    shy = task("b", user_reason="its server refuses to run as root")
    result, _ = Bench(task("a"), shy, executor=FakeExecutor(runs_as_root=True)).run()
    (hole,) = result.holes
    assert hole.why == "cannot run as root, because its server refuses to run as root"
    assert hole.next == "run ktrial as an ordinary user, or through that user's sudo"
    result, _ = Bench(task("a"), shy).run()
    assert result.holes == ()


def test_nothing_at_all_to_run_is_an_error() -> None:
    with pytest.raises(KtrialError, match=r"no benchmark of own can run here: a \(absent is not installed\)") as caught:
        Bench(task("a", needs=("absent",))).run()
    assert caught.value.hint == "sudo apt install tools"


def test_the_load_runs_around_each_run_and_is_an_outcome() -> None:
    bench = Bench(task("a"), rounds=2, load=True)
    result, records = bench.run()
    assert bench.executor.log == ["load starts", "tool a 10", "load stops"] * 2
    assert bench.clock.slept_s == [0.5, 0.5]
    assert [(kept.outcome, kept.value) for kept in records[0].measurements] == [
        ("time", 1.5),
        ("load.throughput", 50.0),
    ]
    assert records[0].background is not None
    assert records[0].background.workers == 2
    assert records[0].background.argv[:3] == ("/usr/bin/stress-ng", "--cpu", "2")
    assert "background/files/load.yaml" in records[0].raw
    assert [summary.outcome for summary in result.summaries] == ["time", "load.throughput"]


def test_the_agents_own_load_needs_no_program() -> None:
    bench = Bench(task("a"), executor=FakeExecutor(installed=("tool",)))
    bench.order = msgspec.structs.replace(bench.order, load=SuiteLoad(use="spin"))
    _, records = bench.run()
    assert records[0].measurements[-1].value == pytest.approx(200.0)
    assert records[0].measurements[-1].original == "0.2 rounds in the 1000000 ns of the benchmark"
    assert records[0].background is not None
    assert records[0].background.agent_load is not None


def test_a_load_that_died_fails_the_run() -> None:
    _, records = Bench(task("a"), load=True, executor=FakeExecutor(load_dies=True)).run()
    assert records[0].failure == "the background load ended before the benchmark; it said: stress-ng: killed"
    assert records[0].measurements == ()
    assert records[0].background is not None
    assert not records[0].background.alive_at_end


def test_a_load_without_figures_fails_the_run() -> None:
    _, records = Bench(task("a"), load=True, executor=FakeExecutor(load_yaml=b"")).run()
    assert "the background load gave no figures" in str(records[0].failure)


def test_a_suite_under_load_does_not_run_without_the_load() -> None:
    bench = Bench(task("a"), load=True, executor=FakeExecutor(installed=("tool", "pacman")))
    with pytest.raises(KtrialError, match="background load needs stress-ng") as caught:
        bench.run()
    assert caught.value.hint == "sudo pacman -S stress-ng"
    assert bench.executor.log == []


@pytest.mark.parametrize("load", [False, True])
def test_an_interruption_keeps_what_was_measured(load: bool) -> None:
    done: list[tuple[str, ...]] = []

    def reply(argv: tuple[str, ...]) -> Any:
        done.append(argv)
        if len(done) == 3:
            raise KeyboardInterrupt
        return answer()

    bench = Bench(task("a"), rounds=4, load=load, executor=FakeExecutor(reply))
    result, records = bench.run()
    assert result.interrupted
    assert len(records) == len(bench.store.records) == 3
    assert (records[2].failure, records[2].exit.interrupted) == ("interrupted after 3.2 s", True)
    assert records[2].measurements == ()
    assert result.holes[0].why == "interrupted after 2 of 4 runs"
    assert result.summaries[0].n == 2
    assert bench.executor.log.count("load stops") == bench.executor.log.count("load starts")


def test_a_full_disk_ends_it_and_names_the_place() -> None:
    bench = Bench(task("a"), rounds=4)
    bench.store = FakeStore(room=2)
    with pytest.raises(KtrialError, match="No space left"):
        bench.run()
    assert len(bench.store.records) == 2


def test_the_time_left_is_first_what_the_benchmarks_expect_then_what_they_took() -> None:
    bench = Bench(task("a", expected_s=10.0), rounds=3)
    bench.run()
    begun = [event for event in bench.events if isinstance(event, RunBegan)]
    assert [event.left_s for event in begun] == [30.0, 2.0, 1.0]
    assert isinstance(bench.events[0], Began)
    assert bench.events[0].expected_s == 30.0


def test_what_is_not_known_is_not_in_the_time_left() -> None:
    bench = Bench(task("a", expected_s=10.0), task("b"), rounds=2)
    bench.run()
    begun = [event for event in bench.events if isinstance(event, RunBegan)]
    assert (begun[0].left_s, begun[0].left_is_least) == (20.0, True)
    assert (begun[-1].left_s, begun[-1].left_is_least) == (1.0, False)
    alone = Bench(task("b"), rounds=1)
    alone.run()
    assert [event.left_s for event in alone.events if isinstance(event, RunBegan)] == [None]


def test_each_run_tells_the_spread_so_far() -> None:
    replies = iter([answer(b"time 1"), answer(b"time 3")])
    bench = Bench(task("a"), rounds=2, executor=FakeExecutor(lambda argv: next(replies)))
    bench.run()
    last = [event for event in bench.events if isinstance(event, BenchRunEnded)][-1]
    assert last.so_far[0].cv == pytest.approx(0.7071, rel=1e-3)


def test_cpus_of_the_command_line_pin_every_run() -> None:
    benchmark = FakeBenchmark(name="a")
    suite = Suite("own", "", (SuiteEntry("a", cpus="1"), SuiteEntry("a", name="again")))
    facts = FactBook({"cpu.efficiency_cores": Fact(value=[2, 3]), "cpu.performance_cores": Fact(absent="one kind")})
    assert [task.cpus for task in tasks_of(suite, {"a": benchmark}, facts, None)] == [(1,), None]
    assert [task.cpus for task in tasks_of(suite, {"a": benchmark}, facts, "little")] == [(2, 3), (2, 3)]
    with pytest.raises(BadInput, match="no big cores"):
        tasks_of(suite, {"a": benchmark}, facts, "big")
    bench = Bench(*tasks_of(suite, {"a": benchmark}, facts, "0"), rounds=1)
    _, records = bench.run()
    assert {invocation.cpus for invocation in bench.executor.invocations} == {(0,)}
    assert {record.cpus for record in records} == {(0,)}


def test_a_benchmark_alone_is_a_suite() -> None:
    assert find_suite("a", {}, {"a": FakeBenchmark(name="a")}).benchmark == (SuiteEntry("a"),)
    with pytest.raises(BadInput, match="unknown suite or benchmark: 'hackbench-pip'") as caught:
        find_suite("hackbench-pip", {}, {"hackbench-pipe": FakeBenchmark(name="hackbench-pipe")})
    assert caught.value.hint == "did you mean hackbench-pipe?"


def test_warm_ups_are_kept_and_do_not_count() -> None:
    bench = Bench(task("a", warm_ups=2), task("b"), rounds=3)
    result, records = bench.run()
    assert [(record.round, record.benchmark) for record in records[:2]] == [(0, "a"), (0, "a")]
    assert len(records) == 8
    assert {summary.benchmark: summary.n for summary in result.summaries} == {"a": 3, "b": 3}
    assert (result.complete, bench.events[0].runs) == (2, 8)  # type: ignore[union-attr]


def test_a_failed_warm_up_is_no_hole() -> None:
    replies = iter([answer(b"nonsense"), answer(), answer()])
    executor = FakeExecutor(lambda argv: next(replies))
    result, records = Bench(task("a", warm_ups=1), rounds=2, executor=executor).run()
    assert (records[0].ok, result.holes) == (False, ())


def test_what_is_the_same_all_boot_runs_once() -> None:
    bench = Bench(task("a", once_per_boot=True), task("b"), rounds=5)
    result, records = bench.run()
    assert [record.round for record in records if record.benchmark == "a"] == [1]
    assert [(record.round, record.position) for record in records][-1] == (5, 1)
    assert (len(records), bench.events[0].runs) == (6, 6)  # type: ignore[union-attr]
    assert (result.wanted, result.complete) == (2, 1)
    (hole,) = result.holes
    assert (hole.benchmark, hole.why) == ("a", "1 of 5 runs: one per boot")
    assert hole.next == "reboot and run again with the same --label"
    assert {summary.benchmark: summary.n for summary in result.summaries} == {"a": 1, "b": 5}


def test_one_run_of_what_is_the_same_all_boot_is_whole() -> None:
    assert Bench(task("a", once_per_boot=True), rounds=1).run()[0].holes == ()
    failing = Bench(task("a", once_per_boot=True), rounds=3, executor=FakeExecutor(lambda argv: answer(b"no")))
    assert failing.run()[0].holes[0].why.startswith("1 of 1 runs failed, the last:")


PARAMETERS = {"loops": 10, "direct": True, "size": "1g", "share": 0.5, "threads": None, "ports": [80]}


def given(*texts: str, names: tuple[str, ...] = ("a",)) -> list[dict[str, Any]]:
    """The parameters of the entries after `-p TEXT …`."""
    suite = Suite("own", "", tuple(SuiteEntry("a", name=name, parameters={"loops": 5}) for name in names))
    changed = with_parameters(suite, {"a": FakeBenchmark(name="a", parameters=PARAMETERS)}, texts)
    return [entry.parameters for entry in changed.benchmark]


@pytest.mark.parametrize(
    "text, value",
    [
        ("loops=7", 7),
        ("a:loops=-7", -7),
        ("direct=false", False),
        ("direct=Yes", True),
        ("size=a=b:c", "a=b:c"),
        ("size=", ""),
        ("share=2", 2.0),
        ("threads=4", 4),
        ("threads=0.5", 0.5),
        ("threads=all", "all"),
        ("ports=1,2", [1, 2]),
    ],
)
def test_parameters_of_the_command_line_have_the_type_of_the_default(text: str, value: object) -> None:
    (parameters,) = given(text)
    name = text.partition("=")[0].removeprefix("a:")
    assert parameters[name] == value
    assert type(parameters[name]) is type(value)
    assert parameters.get("loops") == (value if name == "loops" else 5)


def test_parameters_of_one_of_several_benchmarks() -> None:
    assert given("y:loops=1", "y:loops=2", names=("x", "y")) == [{"loops": 5}, {"loops": 2}]


@pytest.mark.parametrize(
    "text, why, advice",
    [
        ("loops", "cannot read -p 'loops': no =", "write NAME=VALUE or BENCHMARK:NAME=VALUE"),
        ("=5", "cannot read -p '=5': no name before =", "write NAME=VALUE"),
        ("loops=1", "does not name its benchmark", "for example  x:loops=1"),
        ("xx:loops=1", "unknown benchmark of own: 'xx'", "use one of x, y"),
        ("x:lops=1", "unknown parameter of x: 'lops'", "did you mean loops?"),
        ("x:zzz=1", "unknown parameter of x: 'zzz'", "use one of: direct, loops"),
        ("x:loops=1.5", "expected a whole number, got '1.5'", None),
        ("x:share=much", "expected a number, got 'much'", None),
        ("x:share=nan", "expected a number, got 'nan'", None),
        ("x:direct=1", "expected true or false, got '1'", None),
    ],
)
def test_wrong_parameters_of_the_command_line(text: str, why: str, advice: str | None) -> None:
    with pytest.raises(BadInput) as caught:
        given(text, names=("x", "y"))
    assert why in caught.value.message
    assert advice is None or advice in (caught.value.hint or "")


def test_an_interrupted_measurement_is_gone_on_with() -> None:
    first = Bench(rounds=3)
    first.order = msgspec.structs.replace(first.order, drawn=True)

    def reply(argv: tuple[str, ...]) -> Any:
        return answer(interrupted=True) if len(first.executor.log) == 5 else answer()

    first.executor._reply = reply
    result, records = first.run()
    assert (result.interrupted, len(records)) == (True, 5)

    second = Bench(rounds=3)
    second.order = msgspec.structs.replace(second.order, drawn=True, seed=99)
    second.store = first.store
    result, records = second.run()
    began = second.events[0]
    assert isinstance(began, Began)
    assert (began.done, began.runs) == (4, 5)
    begun = [event for event in second.events if isinstance(event, RunBegan)]
    assert [(event.run, event.place, event.runs) for event in begun] == [
        (6, 5, 9),
        (7, 6, 9),
        (8, 7, 9),
        (9, 8, 9),
        (10, 9, 9),
    ]
    assert (result.complete, result.interrupted) == (3, False)
    assert [record.run for record in records] == list(range(1, 11))
    expected = [label for labels in orders(["a", "b", "c"], 3, 7) for label in labels]
    assert [record.benchmark for record in records if not record.exit.interrupted] == expected
    assert {record.session.seed for record in records} == {7}


@pytest.mark.parametrize(
    "changed",
    [
        *({"rounds": 2}, {"label": "tuned"}, {"fresh": True}, {"seed": 8}, {"suite": "other"}),
        *({"gates": {"swap": GateLimits()}}, {"sample_period_s": 2.0}),
    ],
)
def test_another_plan_begins_anew(changed: dict[str, Any]) -> None:
    first = Bench(rounds=3)
    first.executor._reply = lambda argv: answer(interrupted=len(first.executor.log) == 5)
    first.run()
    second = Bench()
    second.order = msgspec.structs.replace(first.order, **changed)
    second.store = first.store
    second.store.started = []
    second.run()
    began = second.events[0]
    assert isinstance(began, Began)
    assert began.done == 0


def test_a_measurement_that_is_whole_is_not_gone_on_with() -> None:
    first = Bench(rounds=1)
    first.run()
    second = Bench(rounds=1)
    second.store = first.store
    second.store.started = []
    _, records = second.run()
    assert len(records) == 3


def test_another_version_of_a_tool_begins_anew() -> None:
    """Runs of two builds in one series would be no series."""

    def reply(version: bytes, log: list[str]) -> Any:
        return lambda argv: answer(version) if "--version" in argv else answer(interrupted=len(log) == 4)

    first = Bench(task("a", asks_version=True), rounds=3)
    first.executor._reply = reply(b"1.0", first.executor.log)
    result, _ = first.run()
    assert result.interrupted
    for version, done in ((b"1.0", 2), (b"2.0", 0)):
        second = Bench(task("a", asks_version=True), rounds=3)
        second.executor._reply = reply(version, [])
        second.store.plans = dict(first.store.plans)
        second.store.records = list(first.store.records)
        second.store.started = list(first.store.started) if done else []
        second.run()
        began = second.events[0]
        assert isinstance(began, Began)
        assert began.done == done


@pytest.mark.parametrize(
    "changed", [{"argv": ("make", "-j8")}, {"directory": "/other"}, {"environment": {"CC": "clang"}}]
)
def test_another_command_of_the_same_name_is_another_plan(changed: dict[str, Any]) -> None:
    """Runs of `make -j4` and `make -j8` in one series would be no series."""

    def plan(own: OwnBenchmark) -> str:
        order = Order(suite="make", tasks=(Task(label="make", benchmark=own, parameters={}),), rounds=3, seed=7)
        return plan_of(order, FACTS, "0.1.0", {})

    own = OwnBenchmark(name="make", what="make -j4", argv=("make", "-j4"), directory="/here")
    assert plan(own) == plan(msgspec.structs.replace(own))
    assert plan(own) != plan(msgspec.structs.replace(own, **changed))
