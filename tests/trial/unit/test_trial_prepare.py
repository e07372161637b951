# SPDX-License-Identifier: Apache-2.0
"""What arms come to on a machine, the protocol that is judged, and the words of `ktrial try`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.energy import EnergyCounter
from ktrial.bench.suite import Suite, SuiteEntry, SuiteLoad, Task
from ktrial.bench.suite_files import load_suites
from ktrial.judge.model.log import Extended, RunEnded, TrialEnd
from ktrial.judge.model.noise_profile import NoiseProfile, ProfileKey
from ktrial.kit.errors import BadInput, Contradiction, KtrialError, Refused, UnknownName
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.gates import DEFAULTS
from ktrial.recordings import figures as watch_figures
from ktrial.trial.arms.plan_arms import (
    SETTLE_S,
    arm_plans,
    arm_settings,
    found_values,
    settle_s,
    with_placebos,
)
from ktrial.trial.outcome.summary import extendable, summary_of
from ktrial.trial.protocol import noise_profile as noise
from ktrial.trial.protocol.file import ArmFile, DesignFile, TrialFile
from ktrial.trial.protocol.from_words import SUITES, arms_of, default_suite, name_of, pairs
from ktrial.trial.protocol.protocol import outcome_around, outcomes_around, protocol_of
from ktrial.trial.run.prepare import needed_suite
from ktrial.tuning.catalog.loader import load_catalog
from tests.results.unit.test_trials import stored
from tests.support.bench import FakeBenchmark, outcome
from tests.support.knobs import catalog, knob, profile
from tests.support.machine import FakeMachine
from tests.support.trials import TIME, log_of, pair_log, protocol

FILES = {
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/dirty_ratio": "20\n",
    "/proc/sys/vm/dirty_bytes": "0\n",
    "/proc/sys/net/ipv4/tcp_syncookies": "1\n",
}


def file(**arms: ArmFile) -> TrialFile:
    return TrialFile(name="t", suite="tool", arms={"control": ArmFile(), **arms})


def plans(trial: TrialFile, **changes: Any) -> dict[str, Any]:
    return arm_plans(trial, FakeMachine(FILES), catalog(), **changes)


def test_an_arm_is_what_it_changes_here() -> None:
    trial = file(low=ArmFile(set={"vm.swappiness": 10, "vm.dirty_ratio": 20}))
    made = plans(trial)
    assert made["control"].empty
    told = arm_settings(trial, made)["low"]
    assert (told.changes, told.same) == ({"vm.swappiness": "10"}, ("vm.dirty_ratio",))
    assert found_values(made) == {"vm.swappiness": "60"}


@pytest.mark.parametrize(
    "arm, kind, said",
    [
        (ArmFile(set={"vm.swappines": 1}), UnknownName, "vm.swappines"),
        (ArmFile(set={"vm.swappiness": 999}), BadInput, "vm.swappiness=999: out of range"),
        (ArmFile(set={"sched:latency_ns": 1000000}), BadInput, "arm x cannot set sched:latency_ns = 1000000"),
        (
            ArmFile(set={"vm.dirty_ratio": 5, "vm.dirty_bytes": 9999999}),
            BadInput,
            "arm x sets both vm.dirty_ratio=5 and vm.dirty_bytes",
        ),
        (ArmFile(set={"net.ipv4.tcp_syncookies": 0}), Refused, "arm x sets dangerous knobs: net.ipv4.tcp_syncookies"),
    ],
)
def test_what_cannot_be_set_is_told_before_anything_is_written(
    arm: ArmFile, kind: type[KtrialError], said: str
) -> None:
    with pytest.raises(kind) as caught:
        plans(file(x=arm))
    assert said in caught.value.message
    assert caught.value.hint


def test_an_absent_knob_names_its_successor() -> None:
    with pytest.raises(BadInput) as caught:
        plans(file(x=ArmFile(set={"sched:latency_ns": 1000000})))
    assert "sched:base_slice_ns" in f"{caught.value.message} {caught.value.hint}"


def test_dangerous_settings_are_tried_with_consent() -> None:
    made = plans(file(x=ArmFile(set={"net.ipv4.tcp_syncookies": 0})), allow_dangerous=True)
    assert not made["x"].empty


def test_an_arm_that_differs_in_nothing_here_is_a_placebo_unless_its_environment_does() -> None:
    trial = file(
        same=ArmFile(set={"vm.swappiness": 60}),
        env=ArmFile(environment={"A": "1"}),
        low=ArmFile(set={"vm.swappiness": 1}),
    )
    marked, found = with_placebos(trial, arm_settings(trial, plans(trial)))
    assert found == ("same",)
    assert [name for name, arm in marked.arms.items() if arm.placebo] == ["same"]


def test_every_visit_waits_as_long_as_the_slowest_setting_wants() -> None:
    trial = file(low=ArmFile(set={"vm.swappiness": 1}))
    made = plans(trial)
    knobs = {"vm.swappiness": knob("vm.swappiness", settle_s=5.0)}
    assert settle_s(trial, made, knobs) == 5.0
    assert settle_s(trial, made, {}) == 0.0
    assert settle_s(msgspec.structs.replace(trial, design=DesignFile(settle="0.2s")), made, knobs) == 0.2
    assert settle_s(trial, made, catalog().knobs) == SETTLE_S
    env = file(env=ArmFile(environment={"A": "1"}))
    assert settle_s(env, plans(env), knobs) == 0.0, "nothing is switched"


def test_only_benchmarks_whose_outcomes_are_named_run() -> None:
    suite = Suite(name="s", summary="s", benchmark=(SuiteEntry(use="a"), SuiteEntry(use="b")))

    def run(**named: Any) -> list[str]:
        asked = msgspec.structs.replace(file(), **named)
        return [one.use for one in needed_suite(asked, suite, {}).benchmark]

    assert run(primary="b.time") == run(secondary=("b.time",)) == run(guards={"b.time": "5%"}) == ["b"]
    assert run() == ["a", "b"]
    assert run(primary="a.power.package-0") == ["a"]
    assert run(primary="power.package-0") == ["a", "b"]


# The protocol.

P99 = outcome("latency-p99", kind="latency-quantile", headline=False)
COUNT = outcome("stalls", kind="count", unit="count", headline=False)
TASKS = (
    Task(label="tool", benchmark=FakeBenchmark(name="tool", outcomes=(outcome(), P99, COUNT)), parameters={}),
    Task(label="b", benchmark=FakeBenchmark(name="b", outcomes=(outcome("time", headline=False),)), parameters={}),
)


def judged_by(trial: TrialFile, tasks: Any = TASKS, made: NoiseProfile | None = None) -> Any:
    return protocol_of(trial, tasks, DEFAULTS, 7, made, 1)


TWO = file(low=ArmFile(set={"vm.swappiness": 1}))


def test_the_headline_decides_and_the_rest_is_explored() -> None:
    found = judged_by(TWO)
    assert found.primary == "tool.time"
    assert {name: rule.role for name, rule in found.outcomes.items() if rule.role != "exploratory"} == {
        "tool.time": "primary"
    }
    assert found.outcomes["tool.latency-p99"].margin == 0.10, "far tails spread more"
    assert found.outcomes["tool.stalls"].scale == "count"
    assert (found.cap, found.budget, found.seed) == (20, 20, 7), "without a noise profile the cap is the budget"


def test_roles_and_margins_are_as_written() -> None:
    trial = msgspec.structs.replace(
        TWO,
        primary="b.time",
        secondary=("tool.time",),
        guards={"latency-p99": "5%"},
        margin="3%",
        margins={"tool.time": "1%"},
        design=DesignFile(cap=17),
    )
    found = judged_by(trial)
    rules = {name: (rule.role, rule.margin) for name, rule in found.outcomes.items()}
    assert rules["b.time"] == ("primary", 0.03)
    assert rules["tool.time"] == ("secondary", 0.01)
    assert rules["tool.latency-p99"] == ("guard", 0.05)
    assert found.cap == 20, "the next one of the table"


def test_what_may_well_be_zero_is_judged_as_a_counter() -> None:
    """Stutters a second, a share of late time: a session without any is an ordinary one, and no logarithm has it."""
    tasks = (Task(label="watch", benchmark=FakeBenchmark(name="watch", outcomes=watch_figures.WHOLE), parameters={}),)
    found = judged_by(msgspec.structs.replace(TWO, primary="late-share"), tasks)
    scales = {name.removeprefix("watch."): rule.scale for name, rule in found.outcomes.items()}
    assert found.cap == found.budget == 20
    assert {name for name, scale in scales.items() if scale == "log"} == {
        "write-latency",
        "write-latency-max",
        "dirty-mean",
    }
    assert {"stutter-rate", "late-share", "allocation-stalls", "frame-reclaim", "slow-io", "written"} <= set(scales)


COUNTER = EnergyCounter(domain="package-0", kind="rapl", path="/sys/class/powercap/intel-rapl:0/energy_uj")
SUITE = Suite(name="s", summary="s", benchmark=(SuiteEntry(use="tool"),))


def test_what_lies_around_runs_can_guard() -> None:
    """The work of the background load, and energy where counters are; of several benchmarks each has its own."""
    around = outcomes_around(msgspec.structs.replace(SUITE, load=SuiteLoad()), [COUNTER])
    trial = msgspec.structs.replace(TWO, guards={"load.throughput": "5%", "power.package-0": "10%"})
    found = protocol_of(trial, TASKS[:1], DEFAULTS, 7, None, 1, around)
    rules = {name: (rule.role, rule.margin, rule.direction) for name, rule in found.outcomes.items()}
    assert rules["tool.load.throughput"] == ("guard", 0.05, "higher")
    assert rules["tool.power.package-0"] == ("guard", 0.10, "lower")
    assert rules["tool.energy.package-0"][0] == "exploratory"
    assert all(outcome_around(one.name) == one for one in around)
    with pytest.raises(BadInput, match="several benchmarks"):
        protocol_of(trial, TASKS, DEFAULTS, 7, None, 1, around)
    primary = msgspec.structs.replace(TWO, primary="b.energy.package-0")
    assert protocol_of(primary, TASKS, DEFAULTS, 7, None, 1, around).primary == "b.energy.package-0"


@pytest.mark.parametrize("name", ["load.throughput", "power.package-0"])
def test_what_does_not_lie_around_runs_guards_nothing(name: str) -> None:
    assert (outcomes_around(SUITE), outcome_around("time"), outcome_around("energy")) == ((), None, None)
    with pytest.raises(UnknownName):
        judged_by(msgspec.structs.replace(TWO, guards={name: "5%"}))


@pytest.mark.parametrize(
    "changes, kind, said",
    [
        ({"primary": "speed"}, UnknownName, "unknown outcome: 'speed'"),
        ({"primary": "time"}, BadInput, "several benchmarks have an outcome 'time'"),
        ({"secondary": ("tool.time",)}, Contradiction, "tool.time is both primary and secondary"),
        ({"secondary": ("stalls", "stalls")}, Contradiction, "stalls is named twice as secondary"),
        (
            {"primary": "stalls", "design": DesignFile(budget="quick")},
            BadInput,
            "is a count and needs at least 20 blocks",
        ),
        ({"design": DesignFile(cap=7), "guards": {"latency-p99": "5%"}, "secondary": ("b.time", "stalls")}, None, ""),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(changes: Any, kind: type[KtrialError] | None, said: str) -> None:
    trial = msgspec.structs.replace(TWO, **changes)
    if kind is None:
        assert judged_by(trial).cap == 7
        return
    with pytest.raises(kind) as caught:
        judged_by(trial)
    assert said in caught.value.message
    assert caught.value.hint


def test_an_outcome_that_is_not_there_lists_those_that_are() -> None:
    with pytest.raises(UnknownName) as caught:
        judged_by(msgspec.structs.replace(TWO, primary="xyzzy"))
    assert "tool.time, tool.latency-p99, tool.stalls, b.time" in (caught.value.hint or "")


def test_several_arms_that_no_cap_can_decide_are_refused_readably() -> None:
    arms = {name: ArmFile(set={"vm.swappiness": value}) for value, name in enumerate("abcdefgh")}
    with pytest.raises(BadInput, match="7 blocks cannot decide 8 comparisons at once") as caught:
        judged_by(msgspec.structs.replace(file(**arms), design=DesignFile(cap=7)))
    assert str(caught.value).endswith("(primary: 1 outcome x 8 comparisons, alpha = 0.05)")
    assert "more blocks or fewer comparisons" in (caught.value.hint or "")


def test_a_noise_profile_plans_the_cap() -> None:
    key = noise.profile_key("s", "m", {"tool": None}, FactBook({"kernel.release": Fact(value="6")}))
    quiet = NoiseProfile(key=key, made_unix_ms=0, differences={"tool.time": (0.001, -0.001) * 5})
    wild = NoiseProfile(key=key, made_unix_ms=0, differences={"tool.time": (0.06, -0.06) * 5})
    # 1.15·(3.24·s/ln 1.05)² + 3 blocks with s = 1.25·sd: 7 at the least for the quiet one.
    assert judged_by(TWO, made=quiet).cap in {7, 9}
    assert judged_by(TWO, made=wild).cap == 20, "never more than the budget"
    assert judged_by(TWO, made=quiet).profile == {"tool.time": (0.001, -0.001) * 5}


@pytest.mark.parametrize(
    "name, wanted", [("latency-p99", 0.99), ("latency-p99_9", 0.999), ("p50", 0.5), ("mean", None)]
)
def test_percentiles_by_their_names(name: str, wanted: float | None) -> None:
    for kind, quantile in (("latency-quantile", wanted), ("time", None)):
        tool = FakeBenchmark(name="tool", outcomes=(outcome(name, kind=kind),))
        assert (
            judged_by(TWO, (Task(label="tool", benchmark=tool, parameters={}),)).outcomes[f"tool.{name}"].quantile
            == quantile
        )


# Noise profiles.

KEY = ProfileKey(machine="m", suite="s", tool_versions={}, kernel_release="6", governor=None)


def test_a_pilot_is_the_control_twice_and_its_profile_the_differences_in_order_of_time() -> None:
    pilot = noise.pilot_protocol(protocol())
    assert [arm.name for arm in pilot.arms] == ["first", "second"]
    differences = [0.01 * place for place in range(10)]
    scores = {TIME: {"first": [0.0] * 10, "second": differences}}
    made = noise.profile_of(log_of(pilot, scores), KEY, 5)
    assert sorted(abs(one) for one in made.differences[TIME]) == pytest.approx(differences)
    assert made.made_unix_ms == 5
    signs = {one > 0 for one in made.differences[TIME] if abs(one) > 1e-9}
    assert signs == {True, False}, "the second visit less the first, whichever arm that was"


def test_a_profile_knows_how_many_events_a_typical_run_has() -> None:
    log = log_of(noise.pilot_protocol(protocol()), {TIME: {"first": [0.0] * 10, "second": [0.1] * 10}})
    counted = [
        msgspec.structs.replace(event, events={TIME: 50 if event.run < 3 else 700})
        if isinstance(event, RunEnded)
        else event
        for event in log
    ]
    assert noise.profile_of(counted, KEY, 5).events == {TIME: 700}


def test_a_primary_that_the_profile_has_too_few_events_for_is_refused_with_the_figures() -> None:
    names = ("latency-p50", "latency-p99", "latency-p999")
    outcomes = tuple(outcome(name, kind="latency-quantile", headline=name.endswith("999")) for name in names)
    tasks = (Task(label="tool", benchmark=FakeBenchmark(name="tool", outcomes=outcomes), parameters={}),)
    made = NoiseProfile(
        key=KEY,
        made_unix_ms=0,
        differences={f"tool.{name}": (0.001, -0.001) * 5 for name in names},
        events={f"tool.{name}": 1500 for name in names},
    )
    with pytest.raises(BadInput) as caught:
        judged_by(TWO, tasks, made)
    assert caught.value.message == (
        "tool.latency-p999 has too few events to decide: 1,500 events in a run, 10,000 are needed"
    )
    assert caught.value.hint == (
        "make runs 6.7 times as long, or choose another primary outcome: tool.latency-p50, tool.latency-p99"
    )
    near = msgspec.structs.replace(TWO, primary="latency-p99")
    assert judged_by(near, tasks, made).primary == "tool.latency-p99"
    assert judged_by(TWO, tasks).primary == "tool.latency-p999", "without a profile the first run tells"


def test_the_largest_of_a_run_is_never_primary() -> None:
    outcomes = tuple(outcome(f"latency-{name}", kind="latency-quantile", headline=False) for name in ("p99", "max"))
    tasks = (Task(label="tool", benchmark=FakeBenchmark(name="tool", outcomes=outcomes), parameters={}),)
    with pytest.raises(BadInput, match=r"tool\.latency-max cannot be the primary outcome: it is the worst event"):
        judged_by(msgspec.structs.replace(TWO, primary="latency-max"), tasks)
    second = msgspec.structs.replace(TWO, primary="latency-p99", secondary=("latency-max",))
    assert judged_by(second, tasks).outcomes["tool.latency-max"].role == "secondary"


def test_too_few_blocks_make_no_profile() -> None:
    scores = {TIME: {"first": [0.0] * 9, "second": [0.1] * 9}}
    with pytest.raises(KtrialError, match=r"9 of 10 blocks of the noise profile gave tool\.time"):
        noise.profile_of(log_of(noise.pilot_protocol(protocol()), scores), KEY, 5)


def test_a_profile_is_used_while_it_holds() -> None:
    old = NoiseProfile(key=KEY, made_unix_ms=0, differences={})
    assert noise.usable([old], KEY, 1000) == old
    assert noise.usable([old], msgspec.structs.replace(KEY, kernel_release="7"), 1000) is None
    assert noise.usable([old], KEY, 31 * 86_400_000) is None


# The words of `ktrial try`.


def test_algorithms_of_zram_are_tried_against_the_first_of_them() -> None:
    algorithm = knob("zram:comp_algorithm", kind="zram", value={"type": "choice", "choices": ["lzo", "lz4", "zstd"]})
    known = msgspec.structs.replace(catalog(), knobs={algorithm.id: algorithm})
    arms = arms_of([f"{algorithm.id}=lz4,zstd,lzo"], known, {}, placebo=False)
    assert {name: arm.set[algorithm.id] for name, arm in arms.items()} == {
        "control": "lz4",
        "comp_algorithm-zstd": "zstd",
        "comp_algorithm-lzo": "lzo",
    }
    assert arms_of([f"{algorithm.id}=lz4"], known, {}, placebo=False)["control"].changes_nothing


def test_words_together_are_one_arm_and_a_list_is_an_arm_for_each_value() -> None:
    known = catalog(profile("fast", ("vm.swappiness", 1)))
    together = arms_of(["fast", "vm.dirty_ratio=30"], known, {"A": "1"}, placebo=True)
    assert list(together) == ["control", "placebo", "fast+dirty_ratio-30+A-1"]
    arm = together["fast+dirty_ratio-30+A-1"]
    assert (arm.profile, arm.set, arm.environment) == (("fast",), {"vm.dirty_ratio": "30"}, {"A": "1"})
    grid = arms_of(["vm.swappiness=10,60", "vm.dirty_ratio=30"], known, {}, placebo=False)
    assert {name: arm.set["vm.swappiness"] for name, arm in grid.items() if name != "control"} == {
        "swappiness-10": "10",
        "swappiness-60": "60",
    }
    assert all(arm.set["vm.dirty_ratio"] == "30" for name, arm in grid.items() if name != "control")


def test_a_trial_is_named_after_what_is_tried() -> None:
    def named(*words: str, placebo: bool = False) -> str:
        return name_of(arms_of(words, catalog(), {}, placebo=placebo))

    assert named("vm.swappiness=10", placebo=True) == "swappiness-10"
    assert named("vm.swappiness=10,60") == "swappiness-10-swappiness-60"
    assert named("vm.swappiness=10,11,12") == "swappiness"
    assert named("vm.swappiness=10,60", "vm.dirty_ratio=5,30") == "swappiness-dirty_ratio"
    assert named(placebo=True) == "placebo"
    known = msgspec.structs.replace(
        catalog(),
        knobs={"cgroup:cpu.max": knob("cgroup:cpu.max", kind="sysfs", places=["/sys/fs/cgroup/{slice}/cpu.max"])},
    )
    words = ["cgroup:cpu.max@user.slice/user-1000.slice/user@1000.service/a.scope=5"]
    assert name_of(arms_of(words, known, {}, placebo=False)) == "max-a.scope-5"


def test_several_values_of_several_knobs_are_an_arm_for_each_combination() -> None:
    grid = arms_of(["vm.swappiness=10,60", "vm.dirty_ratio=5,30"], catalog(), {}, placebo=False)
    assert {name: dict(arm.set) for name, arm in grid.items() if name != "control"} == {
        f"swappiness-{one}+dirty_ratio-{two}": {"vm.swappiness": one, "vm.dirty_ratio": two}
        for one in ("10", "60")
        for two in ("5", "30")
    }


@pytest.mark.parametrize(
    "words, kind, said",
    [
        ([], BadInput, "nothing to try"),
        (["vm.swappiness"], BadInput, "vm.swappiness is a knob and needs a value"),
        (["no-such"], UnknownName, "unknown profile: 'no-such'"),
    ],
)
def test_words_that_say_nothing_to_try(words: list[str], kind: type[KtrialError], said: str) -> None:
    with pytest.raises(kind) as caught:
        arms_of(words, catalog(), {}, placebo=False)
    assert said in caught.value.message
    assert caught.value.hint


def test_every_workload_that_is_chosen_for_a_knob_is_there() -> None:
    benchmarks = all_benchmarks()
    known = {*benchmarks, *load_suites([], benchmarks)}
    assert set(SUITES.values()) <= known


def test_a_workload_is_chosen_by_what_is_set() -> None:
    full = load_catalog()
    assert default_suite(["vm.swappiness=10"], full) == "memory-pressure"
    assert default_suite(["thp:enabled=always"], full) == "agent-pagefault"
    with pytest.raises(BadInput, match="cannot choose a benchmark"):
        default_suite(["kernel.printk=1"], full)


# A trial in a line, and whether it may go on.


def test_a_line_says_what_came_of_it() -> None:
    log = pair_log(protocol(), [0.05, 0.051, 0.049, 0.05, 0.052, 0.048, 0.05])
    told = summary_of(stored("a"), [*log, TrialEnd(reason="over")])
    assert (told.blocks, told.primary, told.verdicts, told.ended) == (7, "tool.time", {"case": "better"}, "over")
    assert summary_of(stored("a"), log).ended is None


@pytest.mark.parametrize("pool, pooled", [(None, False), (True, True)])
def test_a_trial_for_a_pool_takes_no_fast_path(pool: bool | None, pooled: bool) -> None:
    trial = msgspec.structs.replace(file(x=ArmFile()), primary="tool.time", design=DesignFile(pool=pool))
    assert judged_by(trial).pooled is pooled


NOISY = [0.1, -0.12, 0.08, -0.09, 0.11, -0.1, 0.09]


def test_only_what_declared_it_is_over_and_undecided_may_be_extended() -> None:
    declared = protocol(cap=7, extend=True)
    over = [*pair_log(declared, NOISY), TrialEnd(reason="cap")]
    extendable("t", over, 12)
    with pytest.raises(BadInput, match="cannot extend t to 7 blocks: it already has 7"):
        extendable("t", over, 7)
    with pytest.raises(Refused, match="its protocol does not have"):
        extendable("t", [*pair_log(protocol(cap=7), NOISY), TrialEnd(reason="cap")], 12)
    with pytest.raises(BadInput, match="t is not over"):
        extendable("t", [*over, Extended(blocks=12)], 13)
    with pytest.raises(BadInput, match="t is decided"):
        extendable("t", [*pair_log(declared, [0.05] * 6 + [0.051]), TrialEnd(reason="decided")], 12)


def test_a_knob_that_is_repeated_has_all_its_values() -> None:
    arms = arms_of(["vm.swappiness=10", "vm.swappiness=60,10"], load_catalog(), {}, placebo=False)
    assert [arm.set for arm in arms.values() if arm.set] == [{"vm.swappiness": "10"}, {"vm.swappiness": "60"}]


def test_a_name_with_two_values_is_refused() -> None:
    assert pairs(["A=1", "B=2", "A=1"], "--env") == {"A": "1", "B": "2"}
    with pytest.raises(BadInput, match=r"--env A has two values: 1, 2"):
        pairs(["A=1", "A=2"], "--env")
