# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
from pathlib import Path

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.suite import Between, Suite
from ktrial.bench.suite_files import Faulty, load_benchmarks, load_suites
from ktrial.bench.suites import find_suite, tasks_of
from ktrial.kit.errors import BadInput
from ktrial.machine.facts import Fact, FactBook
from ktrial.studies.goals import load_goals
from ktrial.trial.protocol.from_words import SUITES
from ktrial.tuning.catalog.loader import load_catalog
from tests.support.bench import REQUIRED, FakeBenchmark

GOOD = """name = "own"
summary = "Mine."

[[benchmark]]
use = "a"

[[benchmark]]
use = "a"
name = "again"
parameters = { loops = 3 }
cpus = "0-1"

[load]
share = 0.25

[between]
reset_swap = true
"""
OWN = """name = "build"
what = "Builds it."
argv = ["make", "-j4"]

[[metric]]
name = "p99_ms"
direction = "lower"
match = "p99: (.*)"
"""
KNOWN = {"a": FakeBenchmark(name="a")}
CATALOG = load_catalog()
MEASURABLE = (*all_benchmarks(), *load_suites([], all_benchmarks()))
#: The suites of knobs, for `ktrial try` without --suite, and those of goals.
CHOSEN = {
    *(one.suite for goal in load_goals([], CATALOG, MEASURABLE).values() for one in goal.measure),
    *SUITES.values(),
}
FACTS = FactBook(
    {"cpu.architecture": Fact(value="x86_64"), "cpu.threads": Fact(value=8), "memory.total": Fact(value=2**33)}
)


def write(folder: Path, kind: str, text: str) -> Path:
    path = folder / kind / "own.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", sorted(load_suites([], all_benchmarks())))
def test_every_built_in_suite_can_be_invoked(name: str) -> None:
    benchmarks = all_benchmarks()
    suite = load_suites([], benchmarks)[name]
    for task in tasks_of(suite, benchmarks, FACTS, None):
        parameters = {**task.parameters, **REQUIRED.get(task.benchmark.name, {})}
        invocation = task.benchmark.invocation(parameters, FACTS)
        assert invocation.argv or invocation.load
        assert invocation.limit_s > 0


def test_the_promised_suites_are_there() -> None:
    assert {"quick", "margine", "kernel-stress", "memory-pressure", "arashi", "kernel-make"} <= set(
        load_suites([], all_benchmarks())
    )


@pytest.mark.parametrize("name", sorted(CHOSEN))
def test_a_suite_that_ktrial_chooses_takes_at_most_15_seconds_a_run(name: str) -> None:
    benchmarks = all_benchmarks()
    large = FactBook({"cpu.threads": Fact(value=2), "memory.available": Fact(value=2**40)})
    tasks = tasks_of(find_suite(name, load_suites([], benchmarks), benchmarks), benchmarks, large, None)
    times_s = [task.benchmark.invocation(task.parameters, large).expected_s or 0.0 for task in tasks]
    assert sum(times_s) <= 15.0


def test_arashi_has_all_that_its_tables_show() -> None:
    used = {entry.use for entry in load_suites([], all_benchmarks())["arashi"].benchmark}
    assert {"cpython-loop", "schbench", "stress-ng-fault", "boot-time", "fio-seq-read", "glmark2-software"} <= used


def test_margine_is_what_its_script_runs() -> None:
    """Its H is half of the CPUs, its N all of them."""
    benchmarks = all_benchmarks()
    suite = load_suites([], benchmarks)["margine"]
    argv = [
        " ".join(task.benchmark.invocation(task.parameters, FACTS).argv)
        for task in tasks_of(suite, benchmarks, FACTS, None)
    ]
    assert argv == [
        "schbench -m 4 -t 4 -r 30",
        "perf bench sched messaging -g 20 -l 1000",
        "perf bench sched pipe -l 1000000",
        "sysbench threads --threads=8 --rand-seed=7 --thread-yields=1000 --thread-locks=8 --time=30 run",
    ]
    assert suite.load is not None
    assert suite.load.invocation(8).argv[:5] == ("stress-ng", "--cpu", "4", "--cpu-method", "all")


def test_a_suite_grows_with_the_cpus_that_are_chosen() -> None:
    benchmarks = all_benchmarks()
    suite = load_suites([], benchmarks)["margine"]
    parameters = {task.label: task.parameters for task in tasks_of(suite, benchmarks, FACTS, "2-5")}
    assert (parameters["schbench"]["workers"], parameters["sysbench-threads"]["threads"]) == (2, 4)


def test_an_own_suite(tmp_path: Path) -> None:
    suites = load_suites_of(tmp_path, GOOD)
    assert [entry.label for entry in suites["own"].benchmark] == ["a", "again"]
    assert suites["own"].load is not None
    assert suites["own"].load.workers(8) == 2
    assert suites["own"].between == Between(reset_swap=True)


def load_suites_of(folder: Path, text: str) -> dict[str, Suite]:
    """Own suites only, the built-in ones left out."""
    write(folder, "suites", text)
    built_in = set(load_suites([], all_benchmarks()))
    found = load_suites([folder], {**all_benchmarks(), **KNOWN})
    return {name: suite for name, suite in found.items() if name not in built_in}


@pytest.mark.parametrize(
    "old, new, where, why",
    [
        ('use = "a"', 'use = "zzz"', 5, "unknown benchmark: 'zzz'"),
        ("loops = 3", "lops = 3", 10, "a has no parameter 'lops'"),
        ("loops = 3", 'loops = "3"', 10, "loops = '3' has another type than the default 10"),
        ("loops = 3", "loops = nan", 10, "expected a finite number for loops, got nan"),
        ("loops = 3", "loops = -inf", 10, "expected a finite number for loops, got -inf"),
        ('name = "own"', 'name = "quick"', 1, "suite quick already exists"),
        (GOOD, "", 1, "missing required field `name`"),
        ('cpus = "0-1"', 'cpus = "x"', 11, "expected a list of CPUs, got 'x'"),
        ('name = "again"', 'name = "a"', 9, "benchmark a appears twice in suite own"),
        ("share = 0.25", "share = 0", 14, "expected a share above 0 and at most 8, got 0"),
        ("share = 0.25", 'share = "half"', 14, "expected `float`, got `str`"),
        ("share = 0.25", 'stressor = "--exec"', 14, "unknown stressor '--exec'"),
        ('summary = "Mine."', 'sumary = "Mine."', 2, "unknown field `sumary`"),
        ("[load]", "[load", 13, "TOML"),
        ("reset_swap = true", "reset_swap = 1", 17, "expected `bool`, got `int`"),
        ("reset_swap = true", "drop_cache = true", 17, "unknown field `drop_cache`"),
    ],
)
def test_a_wrong_suite_is_named_with_file_and_line(tmp_path: Path, old: str, new: str, where: int, why: str) -> None:
    assert old in GOOD
    with pytest.raises(BadInput) as caught:
        load_suites_of(tmp_path, GOOD.replace(old, new, 1))
    assert why in caught.value.message
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "suites" / "own.toml"), where)
    assert caught.value.column is not None


def test_a_suite_without_benchmarks(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no \[\[benchmark\]\]"):
        load_suites_of(tmp_path, 'name = "own"\nsummary = ""\nbenchmark = []\n')


def test_an_own_benchmark(tmp_path: Path) -> None:
    write(tmp_path, "benchmarks", OWN)
    found = load_benchmarks([tmp_path], KNOWN)["build"]
    assert found.invocation({}, FACTS).argv == ("make", "-j4")
    assert [outcome.name for outcome in found.outcomes][:2] == ["p99", "wall"]


@pytest.mark.parametrize(
    "old, new, why",
    [
        ('name = "build"', 'name = "a"', "benchmark a already exists"),
        ('argv = ["make", "-j4"]', "argv = []", "`argv` of build is empty"),
        ("p99: (.*)", "p99: .*", "expected one group"),
        ('direction = "lower"', 'direction = "less"', "invalid enum value 'less'"),
        ("argv", "arvg", "unknown field `arvg`"),
    ],
)
def test_a_wrong_own_benchmark_is_named_with_its_file(tmp_path: Path, old: str, new: str, why: str) -> None:
    path = write(tmp_path, "benchmarks", OWN.replace(old, new, 1))
    with pytest.raises(BadInput) as caught:
        load_benchmarks([tmp_path], KNOWN)
    assert why in caught.value.message
    assert caught.value.file == str(path)
    assert caught.value.line is not None


def test_a_wrong_file_leaves_the_others_usable(tmp_path: Path) -> None:
    bad = write(tmp_path, "benchmarks", OWN.replace("p99: (.*)", "p99: .*"))
    good = bad.with_name("good.toml")
    good.write_text(OWN.replace('name = "build"', 'name = "good"'))
    faults: list[Faulty] = []
    found = load_benchmarks([tmp_path], KNOWN, faults)
    assert set(found) == {"a", "good"}
    assert [(one.name, one.error.file) for one in faults] == [("build", str(bad))]
    path = write(tmp_path, "suites", GOOD.replace('use = "a"', 'use = "build"', 1))
    path.with_name("torn.toml").write_text("[load")
    path.with_name("sound.toml").write_text(GOOD.replace('"own"', '"sound"'))
    suites = load_suites([tmp_path], {**all_benchmarks(), **found}, faults)
    assert {"sound", "quick"} <= set(suites)
    assert [one.name for one in faults] == ["build", "own", "torn"]
    assert f"cannot use benchmark build ({faults[0].error.message})" in faults[1].error.message
    assert faults[1].error.hint == faults[0].error.hint


@pytest.mark.parametrize("kind", ["suites", "benchmarks"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    (tmp_path / kind).mkdir()
    os.mkfifo(tmp_path / kind / "pipe.toml")
    (tmp_path / kind / "folder.toml").mkdir()
    (tmp_path / kind / "nowhere.toml").symlink_to("/nowhere")
    faults: list[Faulty] = []
    load_suites([tmp_path], load_benchmarks([tmp_path], all_benchmarks(), faults), faults)
    assert [(one.name, one.error.message.rpartition(".toml: ")[2]) for one in faults] == [
        ("folder", "not a regular file"),
        ("nowhere", "no such file"),
        ("pipe", "not a regular file"),
    ]
