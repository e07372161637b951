# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from ktrial.bench.measure import measure
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Task
from ktrial.cli.shared.bench import write_result
from ktrial.compare.arms import places, source_of
from ktrial.compare.comparability import doubts
from ktrial.compare.runs import from_store, readings_of
from ktrial.compare.series import series_of
from ktrial.compare.sources import MOST_ARMS, ComparedSource, ReadingOptions, gather, pick_control
from ktrial.judge.model.query import ImportOptions
from ktrial.kit.errors import BadInput, UnknownName
from ktrial.machine.facts import Fact, FactBook
from ktrial.results.importers import all_importers
from ktrial.results.model import stored_run, stored_session
from ktrial.results.ports import Results
from ktrial.results.store.database import Database
from ktrial.results.store.runs import Store
from tests.support.arms import an_arm
from tests.support.bench import FakeBenchmark, FakeClock, FakeExecutor, FakeStore
from tests.support.stores import a_record, a_run, a_session

TIME = {"outcome": "time", "value": 0.173, "unit": "s", "direction": "lower", "original": "0.173 s"}


def hyperfine(command: str, *times: float) -> bytes:
    one = {"command": command, "times": list(times), "exit_codes": [0] * len(times), "mean": 1, "stddev": 1}
    return json.dumps({"results": [{**one, "median": 1, "user": 1, "system": 1, "min": 1, "max": 1}]}).encode()


def pyperf(hour: int, governor: str, *processes: tuple[float, ...]) -> bytes:
    about = {
        "name": "join",
        "platform": "Linux-6.12.9-200.fc41.x86_64-x86_64-with-glibc2.40",
        "cpu_config": f"0-3=driver:intel_pstate, intel_pstate:turbo, governor:{governor}; idle:intel_idle",
        "cpu_model_name": "Example CPU",
        "cpu_count": 4,
        "cpu_affinity": "2-3",
        "perf_version": "2.10.0",
    }
    runs = [
        {
            "metadata": {
                "date": f"2026-11-21 {hour}:46:{second:02}.609580",
                "cpu_temp": "coretemp:Package id 0=51 C, coretemp:Core 0=49 C",
            },
            "values": list(values),
        }
        for second, values in enumerate(processes)
    ]
    return json.dumps({"version": "1.0", "metadata": about, "benchmarks": [{"runs": runs}]}).encode()


def fio(ended_ms: int, version: str = "fio-3.33") -> bytes:
    done = {"io_bytes": 1, "bw_bytes": 1, "iops": 1.0, "runtime": 1, "total_ios": 1}
    job = {"jobname": "t", "error": 0, "read": done}
    return json.dumps({"fio version": version, "timestamp_ms": ended_ms, "jobs": [job]}).encode()


FILES = {
    "p1.json": pyperf(21, "powersave", (1.0, 1.1), (2.0, 2.2)),
    "p2.json": pyperf(20, "performance", (3.0,), (4.0, 4.2)),
    "f1.json": fio(1_795_262_400_000),
    "f2.json": fio(1_795_262_300_000, "fio-3.36"),
    "dated.csv": b"arm,date,time_s\na,2026-11-21T12:00:00,1\na,2026-11-21T12:10:00,1\nb,2026-11-21T12:05:00,2\n",
    "turns.csv": b"arm,round,time_s\na,1,1\nb,1,2\na,2,1\nb,2,2\n",
    "sorted.csv": b"arm,time_s\na,1\na,1\nb,2\nb,2\n",
    "a.json": hyperfine("make", 1.0, 1.1),
    "b.json": hyperfine("make", 2.0, 2.1, 2.2),
    "t.csv": b"march,host,time_s\nv2,h1,1.0\nv3,h1,2.0\nv2,h2,\nv3,h2,4.0\n",
    "many.csv": b"k,v\n" + b"".join(b"n%d,%d\n" % (number, number + 1) for number in range(10_000)),
}


def reading(**options: Any) -> ReadingOptions:
    return ReadingOptions(
        options=ImportOptions(**options), as_format=None, importers=all_importers(), read=lambda path: FILES[path]
    )


def word(target: str, name: str | None = None) -> ComparedSource:
    files = (target,) if target in FILES else ()
    return ComparedSource(word=target if name is None else f"{name}={target}", name=name, target=target, files=files)


def no_store() -> Results:
    raise AssertionError("files need no store")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(Database.open(str(tmp_path / "results.db")))
    machine = {
        "cpu.model": {"value": "Example"},
        "cpu.threads": {"value": 8},
        "cpufreq.governor": {"absent": "no cpufreq"},
        "memory.total": {"value": 33_000_000_000},
        "os.id": {"value": "debian"},
    }
    for name, label in (("20261121T1", "stock"), ("20261121T2", "tuned"), ("20261121T3", "stock")):
        store.begin(a_session(name, label=label, document={"session": name, "machine": machine}))
        store.save(a_record(1, "perf", name, measurements=[TIME], tool_version="6.1", started_monotonic_ns=7), {})
        store.save(a_record(2, "perf", name, failure="ended with status 1"), {})
        store.save(a_run(3, session=name, warm_up=True), {})
    store.keep_state("20261121T3", "begin", b"newest")
    store.keep_state("20261121T1", "begin", b"oldest")
    return store


def as_results(store: Store) -> Results:
    return cast(Results, store)


def test_files_by_name(store: Store) -> None:
    arms = gather([word("a.json", "stock"), word("b.json", "tuned")], no_store, reading()).arms
    assert [(arm.name, len(arm.good)) for arm in arms] == [("stock", 2), ("tuned", 3)]
    assert arms[0].runs[0].name == "a.json#1"
    assert arms[0].sources == ("a.json",)
    assert [one.value for run in arms[1].runs for one in run.measurements] == [2.0, 2.1, 2.2]


def test_two_files_with_one_name_are_one_arm() -> None:
    (arm,) = gather([word("a.json", "x"), word("b.json", "x")], no_store, reading()).arms
    assert (len(arm.runs), arm.sources) == (5, ("a.json", "b.json"))


def test_pyperf_tells_order_machine_and_which_values_are_of_one_process() -> None:
    arms = gather([word("p1.json", "old"), word("p2.json", "new")], no_store, reading()).arms
    expected = {
        "kernel": "6.12.9-200.fc41.x86_64",
        "governor": "powersave",
        "cpu": "Example CPU",
        "threads": "4",
        "cpus": "2-3",
        "tool": "pyperf 2.10.0",
    }
    assert arms[0].runs[0].known == expected
    assert arms[0].runs[0].temperature_c == 51.0
    order = places(arms)
    assert [name[:4] for name in sorted(order, key=lambda run: order[run])] == [*["p2.j"] * 3, *["p1.j"] * 4]
    (series,) = series_of(arms).values()
    assert [value for _, value in series.independent("old")] == pytest.approx([1.05, 2.1])
    assert [value for _, value in series.independent("new")] == pytest.approx([3.0, 4.1])
    assert series.dependent is not None
    assert series.dependent.sentence.endswith("replaced by their mean: 4 become 2 in old, 3 become 2 in new")
    refused = [one.finding.sentence for one in doubts(arms[0], arms[1:]) if one.finding.level == "refuse"]
    assert refused == ["cpufreq governor differs: powersave in old; performance in new"]


def test_fio_tells_its_version_and_when_it_ended() -> None:
    arms = gather([word("f1.json", "one"), word("f2.json", "two")], no_store, reading()).arms
    assert places(arms) == {"f2.json#1": 1, "f1.json#1": 2}
    told = [one.finding.sentence for one in doubts(arms[0], arms[1:])]
    assert told[0] == "version of the tool (fio-t) differs: fio-3.33 in one; fio-3.36 in two"


def test_the_dates_of_a_table_are_its_order() -> None:
    arms = gather([word("dated.csv")], no_store, reading(values=("time_s",), by="arm")).arms
    assert places(arms) == {"dated.csv#1": 1, "dated.csv#3": 2, "dated.csv#2": 3}
    assert all(not run.other for arm in arms for run in arm.runs)


def test_rows_in_turns_are_an_order_only_where_a_column_says_what_belongs_together() -> None:
    rows = reading(values=("time_s",), by="arm")
    assert places(gather([word("turns.csv")], no_store, rows).arms) == {}
    blocks = reading(values=("time_s",), by="arm", block="round")
    order = places(gather([word("turns.csv")], no_store, blocks).arms)
    assert order == {f"turns.csv#{number}": number for number in (1, 2, 3, 4)}
    order = places(gather([word("sorted.csv")], no_store, rows).arms)
    assert order == {f"sorted.csv#{number}": number for number in (1, 2, 3, 4)}, "one after the other, if anything"


def test_labels_that_collide_are_refused() -> None:
    with pytest.raises(BadInput, match=r"both a\.json and b\.json have the label 'make'") as error:
        gather([word("a.json"), word("b.json")], no_store, reading())
    assert "first=a.json second=b.json" in str(error.value.hint)


def test_what_a_suite_lacked_is_known_of_files_and_of_the_store(tmp_path: Path) -> None:
    record = {"run": 1, "benchmark": "nap", "round": 1, "measurements": [TIME], "failure": None}
    holes = [{"benchmark": "schbench", "why": "not installed"}, {"benchmark": "nap", "why": "1 of 2 runs failed"}]
    session = {"session": "s", "suite": "pair", "label": "stock"}
    data = json.dumps({"schema": "ktrial.bench/1", "session": session, "holes": holes, "runs": [record]}).encode()
    read = msgspec.structs.replace(reading(), read=lambda path: data)
    (arm,) = gather([ComparedSource(word="r.json", name=None, target="r.json", files=("r.json",))], no_store, read).arms
    assert arm.missing == {"schbench": "not installed"}
    store = Store(Database.open(str(tmp_path / "results.db")))
    document = {"session": "one", "missing": {"schbench": "not installed"}}
    store.begin(a_session("one", label="stock", document=document))
    store.save(a_record(1, "nap", "one", measurements=[TIME]), {})
    store.save(a_record(2, "perf", "one", failure="ended with status 1"), {})
    (arm,) = gather([word("stock")], lambda: as_results(store), reading()).arms
    assert source_of(arm).missing == {
        "schbench": "not installed",
        "perf": "1 of 1 runs failed, the last: ended with status 1",
    }


def test_a_result_file_tells_of_its_runs_what_the_store_tells(store: Store, tmp_path: Path) -> None:
    machine = {"cpu.model": Fact(value="Example"), "os.machine": Fact(value="6acda0e9"), "boot.id": Fact(value="b1")}
    task = Task(label="a", benchmark=FakeBenchmark(name="a"), parameters={"loops": 10}, cpus=(0, 2))
    order = Order(suite="own", tasks=(task,), rounds=3, seed=7, label="calm")
    executor, kept = FakeExecutor(), FakeStore()
    result, records = measure(order, executor, kept, FakeClock(), FactBook(machine), lambda _: None)
    store.begin(stored_session(result.session, 1))
    for record in records:
        store.save(stored_run(record), {})
    write_result(tmp_path / "calm.json", result, records)
    read = msgspec.structs.replace(reading(), read=lambda path: Path(path).read_bytes())
    file = str(tmp_path / "calm.json")
    (of_file,) = gather([ComparedSource(word=file, name=None, target=file, files=(file,))], no_store, read).arms
    (of_store,) = gather([word("calm")], lambda: as_results(store), reading()).arms
    assert of_file.name == of_store.name
    assert of_file.runs == of_store.runs
    assert (of_file.runs[0].known["cpus"], of_file.runs[0].boot, of_file.runs[0].machine) == ("0,2", "b1", "6acda0e9")
    assert list(places([of_file]).values()) == [1, 2, 3]
    (unknown,) = [one.finding.sentence for one in doubts(of_file, [an_arm("x", [])]) if one.finding.kind == "not-known"]
    assert "tunable state of the machine, which result files do not contain" in unknown


def test_the_groups_of_a_column_are_arms() -> None:
    arms = gather(
        [word("t.csv")], no_store, reading(values=("time_s",), by="march", block="host", direction="lower")
    ).arms
    assert [(arm.name, len(arm.good), len(arm.runs)) for arm in arms] == [("v2", 1, 2), ("v3", 2, 2)]
    assert [run.block for run in arms[1].runs] == ["h1", "h2"]
    assert arms[0].runs[1].failure is not None


def test_ten_thousand_arms_are_refused_with_their_number() -> None:
    with pytest.raises(BadInput, match=rf"10000 groups, too many for one comparison \(maximum {MOST_ARMS}\)"):
        gather([word("many.csv")], no_store, reading(values=("v",), by="k"))


def test_labels_and_sessions_of_the_store(store: Store) -> None:
    arms = gather([word("stock"), word("20261121T2")], lambda: as_results(store), reading()).arms
    assert [(arm.name, arm.sources) for arm in arms] == [
        ("stock", ("20261121T1", "20261121T3")),
        ("20261121T2", ("20261121T2",)),
    ]
    assert [len(arm.good) for arm in arms] == [2, 1]
    assert [run.name for run in arms[0].runs if run.failure is not None] == ["20261121T1/2", "20261121T3/2"]
    assert arms[0].states == (b"newest",)
    run = arms[0].runs[0]
    assert run.known["tool"] == "6.1"
    assert (run.known["threads"], run.known["kernel"], run.known["system"]) == ("8", "6.18", "debian")
    assert "governor" not in run.known
    assert run.clocks == {"wall": 1_700_000_000_001.0, "boot boot": 7.0}


def test_a_word_that_names_nothing_tells_the_labels(store: Store) -> None:
    with pytest.raises(UnknownName, match="'stok'") as error:
        gather([word("stok")], lambda: as_results(store), reading())
    assert error.value.hint == "did you mean stock?"
    with pytest.raises(UnknownName) as error:
        gather([word("zzz")], lambda: as_results(store), reading())
    assert "tuned, stock" in str(error.value.hint) or "stock, tuned" in str(error.value.hint)


def test_a_beginning_that_several_sessions_have_is_no_session(store: Store) -> None:
    with pytest.raises(BadInput, match="sessions begin with '20261121T'"):
        gather([word("20261121T")], lambda: as_results(store), reading())


def test_the_folder_of_a_run_is_no_difference() -> None:
    session = a_session()
    made = [
        from_store(
            session,
            a_record(
                number,
                "perf",
                directory=f"/run/{number}",
                environment={"HOME": f"/run/{number}"},
                argv=["perf", f"/run/{number}/x"],
            ),
        )
        for number in (1, 2)
    ]
    assert made[0] is not None
    assert made[1] is not None
    assert made[0].known == made[1].known
    assert made[0].known["environment"] == "HOME={directory}"


def test_the_folder_for_temporary_files_of_an_own_command_is_no_difference() -> None:
    session = a_session()
    folders = ("/s/ktrial/measuring/work/run-0rydrg3r", "/s/ktrial/measuring/work/run-1nqrrls0", "/dev/shm")
    made = [
        from_store(session, a_record(1, "own", directory="/home/u", environment={"TMPDIR": folder}, argv=["sort"]))
        for folder in folders
    ]
    told = [one.known["environment"] for one in made if one is not None]
    assert told == ["TMPDIR={directory}", "TMPDIR={directory}", "TMPDIR=/dev/shm"]


def test_foreign_attributes_are_what_is_compared() -> None:
    session = a_session(origin="import:margine", document={"sha256": "d"})
    document = {
        "attributes": {"nproc": "12", "governor": "performance", "temp_start_c": "49.4", "disk": "x", "hostname": "h"},
        "part_of": "process 2",
        "block": "3",
        "failure": None,
    }
    run = from_store(session, a_run(4, document=document))
    assert run is not None
    assert run.known == {"threads": "12", "governor": "performance"}
    assert (run.temperature_c, run.machine, run.block, run.other) == (49.4, "h", "3", {"disk": "x"})
    assert run.clocks == {"file d": 4.0}
    assert run.part_of == f"{run.name.rpartition('/')[0]}, process 2"
    assert [one.value for one in run.measurements] == [1.5]


def test_events_that_percentiles_rest_on_come_from_details_or_a_column() -> None:
    counted = from_store(
        a_session(), a_record(1, "own", measurements=[TIME], details={"histogram_ns": {"1": 3, "2": 4}})
    )
    assert counted is not None
    assert counted.events == {"time": 7}
    foreign = a_session(origin="import:csv", document={"sha256": "d"})
    for told, events in (({"Samples": "500"}, {"p99": 500}), ({"events": "many"}, {}), ({}, {})):
        run = from_store(foreign, a_run(4, document={"attributes": told, "block": None, "failure": None}))
        assert run is not None
        assert (run.events, run.other) == (events, {})
    FILES["tail.csv"] = b"march,p99_us,events\nv2,10,900\nv3,20,901\n"
    arms = gather([word("tail.csv")], no_store, reading(by="march", values=("p99_us",), direction="lower")).arms
    assert [[list(run.events.values()) for run in arm.runs] for arm in arms] == [[[900]], [[901]]]


def test_temperatures_of_records() -> None:
    document = {"conditions": {"before": [{"name": "temperature", "value": 48.0, "unit": "C", "of": "cpu"}]}}
    assert readings_of(document) == {"temperature_c": 48.0}
    assert readings_of({"conditions": None}) == {}


def test_readings_of_a_run_count_before_the_facts_of_its_session() -> None:
    before = {"temperature_c": 51.0, "governor": "powersave", "power_source": "none", "swap_used_bytes": None}
    conditions = {"before": [], "readings_before": before, "readings_during": {"steal_share": 0.01}}
    session = a_session(document={"machine": {"cpufreq.governor": {"value": "performance"}}})
    run = from_store(session, a_record(1, "perf", conditions=conditions))
    assert run is not None
    assert (run.known["governor"], run.known["power"]) == ("powersave", "none")
    assert run.readings["steal_share"] == 0.01
    assert run.temperature_c == 51.0


def test_the_control_is_the_first_or_the_one_that_is_named() -> None:
    arms = [an_arm(name, [1.0]) for name in ("a", "b", "c")]
    assert [one.name for one in (pick_control(arms, None)[0], *pick_control(arms, "b")[1])] == ["a", "a", "c"]
    with pytest.raises(UnknownName) as error:
        pick_control(arms, "zebra")
    assert error.value.hint == "use one of: a, b, c"
    with pytest.raises(BadInput, match="only one group, a"):
        pick_control(arms[:1], None)


def test_a_session_of_a_trial_is_the_arms_of_the_trial_in_its_blocks(store: Store) -> None:
    store.begin(a_session("20261122T9", label=None, boot_id="first", document={"session": "20261122T9"}))
    for number, (block, arm) in enumerate(((None, "stock"), (1, "case"), (1, "stock"), (2, "stock"), (2, "case")), 1):
        place = {"trial": "t", "protocol_sha256": "", "block": block, "arm": arm}
        boot = {"kernel_release": f"6.{number}", "boot_id": f"boot-{number}"}
        record = a_record(number, "perf", "20261122T9", measurements=[TIME], trial=place | boot, round=int(bool(block)))
        void = "void" if (block, arm) == (2, "stock") else record.state
        store.save(msgspec.structs.replace(record, warm_up=block is None, state=void), {})
    found = gather([word("20261122T9")], lambda: as_results(store), reading())
    assert found.of_trials == ("20261122T9",)
    assert [(source.name, source.sessions) for source in found.sources] == [(None, ("20261122T9",))]
    assert [(arm.name, [run.block for run in arm.runs]) for arm in found.arms] == [
        ("case", ["block 1 of t", "block 2 of t"]),
        ("stock", ["block 1 of t", "block 2 of t"]),
    ]
    assert [[run.void for run in arm.runs] for arm in found.arms] == [[False, True]] * 2, "a block is void as a whole"
    assert [run.boot for run in found.arms[1].runs] == ["boot-3", "boot-4"]
    assert [run.known["kernel"] for run in found.arms[1].runs] == ["6.3", "6.4"]
    with pytest.raises(BadInput, match="arms already have names"):
        gather([word("20261122T9", "mine")], lambda: as_results(store), reading())


def test_a_session_tells_its_machine() -> None:
    document = {"machine": {"os.machine": {"value": "c6c4e62448a1793b"}}}
    run = from_store(a_session(document=document), a_record(1, "perf"))
    assert run is not None
    assert run.machine == "c6c4e62448a1793b"
    unknown = from_store(a_session(document={"machine": {"os.machine": {"absent": "no file"}}}), a_record(1, "perf"))
    assert unknown is not None
    assert unknown.machine is None
