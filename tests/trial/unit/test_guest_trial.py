# SPDX-License-Identifier: Apache-2.0
"""What is found out before the first boot of a trial in guests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.guest_tools import GuestPlace, GuestRun, Job
from ktrial.bench.suite import Suite, SuiteEntry, Task
from ktrial.bench.suite_files import load_suites
from ktrial.bench.suites import tasks_of
from ktrial.judge.model.log import Race, Screen
from ktrial.judge.screening_judge import screened_arms
from ktrial.kernels.identity import KernelFound, KernelIdentity
from ktrial.kit.errors import AgentError, BadInput, KtrialError, Refused
from ktrial.machine.facts import FactBook
from ktrial.machine.ports import Machine
from ktrial.trial.guests import prepare as guest_trial
from ktrial.trial.guests.model import kernel_of
from ktrial.trial.guests.prepare import (
    GuestMeans,
    GuestReady,
    _sets_swap_up,
    found_in_guests,
    plans_in_guests,
    prepare_in_guests,
    refuse_before_building,
    refuse_what_guests_cannot,
)
from ktrial.trial.guests.recipe import KernelChange, KernelRecipe
from ktrial.trial.protocol.file import ArmFile, DesignFile, GuestFile, TrialFile
from ktrial.tuning.plans.model import Plan
from tests.support.knobs import catalog, profile
from tests.support.machine import FakeMachine, step_told, transaction_told

BENCHMARKS = all_benchmarks()
SUITES = load_suites([], BENCHMARKS)
IDENTITY = KernelIdentity(
    release="6.12.1",
    build="#1",
    architecture="x86_64",
    packing=None,
    built_by=None,
    compiler="gcc 12",
    linker=None,
    build_id="0123456789abcdef",
    btf=None,
    scheduler="EEVDF",
    config_from=None,
)


class Scouted(FakeMachine):
    """A guest of a scout: takes plans, and gives them back."""

    log = ""

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        if do == "kernel_log":
            return {"oldest": 1, "newest": 1, "log": self.log, "truncated": False}
        if do == "apply":
            return transaction_told(steps=[step_told()])
        return {"transactions": [transaction_told()]}


class FakeLab:
    """Knows two kernels."""

    workers = 1

    def __init__(self, **differs: Any) -> None:
        import msgspec

        self._other = msgspec.structs.replace(IDENTITY, release="6.1.9", build_id="ff" * 8, **differs)

    def why_no_kvm(self, _kernel: str) -> str | None:
        return "there is no /dev/kvm"

    def find(self, kernel: str) -> None:
        return None

    def identify(self, kernel: str) -> KernelFound:
        identity = IDENTITY if kernel == "6.12" else self._other
        return KernelFound(name=kernel, place=kernel, identity=identity, symbols=None)

    def swap_programs(self, kernel: str) -> tuple[str, ...]:
        return (f"/usr/sbin/mkswap of {kernel}",)

    def prepare(self, place: GuestPlace) -> None:
        return None

    def boot(self, place: GuestPlace, job: Job, files: Mapping[str, bytes]) -> GuestRun:
        raise AssertionError(place)

    def stop(self) -> None:
        return None


class World:
    """Only the catalog is needed."""

    catalog = catalog()


def words_of(file: TrialFile) -> dict[str, str]:
    """Those that are named, and of those that are built the fragments."""
    kernels = {name: kernel_of(file, file.full_arms[name]) for name in file.arms}
    return {name: one if isinstance(one, str) else "+".join(one.fragments) for name, one in kernels.items()}


def prepared(scouted: list[GuestPlace], lab: FakeLab | None = None, **more: Any) -> GuestReady:
    arms = {
        "control": ArmFile(),
        "placebo": ArmFile(placebo=True),
        "low": ArmFile(set={"vm.swappiness": 10}),
        "old": ArmFile(kernel="6.1"),
        "full": ArmFile(boot=("preempt=full",)),
    }
    fields: dict[str, Any] = {"suite": "wakeups-busy", "guest": GuestFile(kernel="6.12"), "arms": arms, **more}
    file = TrialFile(name="t", **fields)

    @contextmanager
    def scout(place: GuestPlace) -> Iterator[Scouted]:
        scouted.append(place)
        yield Scouted({"/proc/sys/vm/swappiness": "60\n"})

    world: Any = World()
    suite = SUITES[file.suite or ""]
    means = GuestMeans(lab or FakeLab(), scout, words_of)
    return prepare_in_guests(world, file, suite, BENCHMARKS, means, allow_dangerous=False)


def test_arms_are_their_kernels_words_and_settings_and_only_what_must_be_asked_is_booted() -> None:
    scouted: list[GuestPlace] = []
    found = prepared(scouted)
    assert [(place.kernel, place.shape.mode, place.shape.append) for place in scouted] == [
        ("6.12", "emulated", ()),
        ("6.12", "emulated", ("preempt=full",)),
    ]
    assert {name: dict(arm.changes) for name, arm in found.ready.arms.items()} == {
        "control": {},
        "placebo": {},
        "low": {"vm.swappiness": "10"},
        "old": {"kernel": "6.1.9, build ffffffffffff"},
        "full": {"boot:preempt": "full"},
    }
    assert found.places["old"].kernel == "6.1"
    assert found.places["full"].shape.append == ("preempt=full",)
    assert found.ready.file.design.replicate == "boot"
    assert found_in_guests(found.ready, found.places, FakeLab().identify) == {
        "vm.swappiness": "60",
        "kernel": "6.12.1, build 0123456789ab",
    }


def test_what_a_guest_refuses_is_told_with_the_arms_it_was_tried_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def request(_machine: Scouted, do: str, **_fields: Any) -> dict[str, Any]:
        if do == "apply":
            raise AgentError("io", "lock /var/lib/ktrial/lock: Function not implemented", hint="FILE_LOCKING=y")
        return {"oldest": 1, "newest": 1, "log": "", "truncated": False}

    monkeypatch.setattr(Scouted, "request", request)
    with pytest.raises(AgentError) as raised:
        prepared([])
    assert raised.value.message.startswith("cannot try control, placebo, low in a guest: lock /var/lib/ktrial/lock: ")
    assert raised.value.hint == "FILE_LOCKING=y"


@pytest.mark.parametrize(
    "arm, sets", [({"profile": "t3a"}, True), ({"set": {"zram:disksize": 1}}, True), ({"profile": "calm"}, False)]
)
def test_swap_is_set_up_by_an_arm_that_says_so_or_whose_profile_does(arm: dict[str, Any], sets: bool) -> None:
    arms = {"control": ArmFile(), "a": ArmFile(**arm)}
    profiles = (profile("t3a", ("zram:disksize", 1)), profile("calm", ("vm.swappiness", 1)))
    assert _sets_swap_up(TrialFile(name="t", suite="wakeups-busy", arms=arms), catalog(*profiles)) is sets


def test_guests_of_all_arms_bring_what_swap_takes_where_an_arm_sets_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {place.tools for place in prepared([]).places.values()} == {()}
    monkeypatch.setattr(guest_trial, "_sets_swap_up", lambda *_: True)
    assert {place.tools for place in prepared([]).places.values()} == {("/usr/sbin/mkswap of 6.12",)}


def test_each_kernel_is_asked_once_for_the_arms_that_have_it() -> None:
    arms = {"T0": ArmFile(), "T1": ArmFile(kernel="6.1"), "T2": ArmFile(kernel="6.1", profile=("calm",))}
    file = TrialFile(name="t", suite="wakeups-busy", control="T0", guest=GuestFile(kernel="6.12"), arms=arms)
    scouted: list[GuestPlace] = []

    @contextmanager
    def scout(place: GuestPlace) -> Iterator[Scouted]:
        scouted.append(place)
        yield Scouted({})

    def plans_of(_machine: Machine, names: Collection[str]) -> dict[str, Plan]:
        return {name: Plan(title=f"{name} on {scouted[-1].kernel}", changes=(), same=(), refusals=()) for name in names}

    plans = plans_in_guests(file, scout, words_of(file), plans_of)
    assert {name: plan.title for name, plan in plans.items()} == {
        "T0": "T0 on 6.12",
        "T1": "T1 on 6.1",
        "T2": "T2 on 6.1",
    }
    assert [(place.kernel, place.shape.mode) for place in scouted] == [("6.12", "emulated"), ("6.1", "emulated")]


def test_an_arm_whose_kernel_is_built_tells_what_it_is_built_with_and_what_came_of_it() -> None:
    change = KernelChange(fragments=("hz-1000",), set={"PREEMPT": "y"}, patches=("fixes/mine.patch",))
    arms = {"control": ArmFile(), "built": ArmFile(kernel=change), "named": ArmFile(kernel="6.12")}
    found = prepared([], guest=GuestFile(kernel=KernelRecipe(tree="linux")), arms=arms)
    assert {name: place.kernel for name, place in found.places.items()} == {
        "control": "guest",
        "built": "guest+hz-1000",
        "named": "6.12",
    }
    assert dict(found.ready.arms["built"].changes) == {
        "kernel": "6.1.9, build ffffffffffff",
        "kconfig:PREEMPT": "y",
        "fragments": "hz-1000",
        "patches": "mine.patch",
    }
    assert dict(found.ready.arms["named"].changes) == {"kernel": "6.12.1, build 0123456789ab"}
    assert found_in_guests(found.ready, found.places, FakeLab().identify)["kernel"] == "6.1.9, build ffffffffffff"


def test_sets_of_words_that_a_screening_draws_are_not_booted_one_by_one() -> None:
    scouted: list[GuestPlace] = []
    arms = {
        "control": ArmFile(),
        "a": ArmFile(boot=("nohz=off",), set={"vm.swappiness": 10}),
        "b": ArmFile(boot=("preempt=full",)),
        **dict.fromkeys(screened_arms(2, 1, 12), ArmFile(boot=("nohz=off", "preempt=full"))),
    }
    design = DesignFile(cap=12, seed=1)
    found = prepared(scouted, arms=arms, screen=Screen(settings=("a", "b"), known="worse"), design=design)
    assert [(place.kernel, place.shape.append) for place in scouted] == [("6.12", ())]
    assert dict(found.ready.arms["a"].changes) == {"boot:nohz": "off", "vm.swappiness": "10"}
    assert found.places["b"].shape.append == ("preempt=full",)


def test_arguments_of_a_race_are_booted_first_only_for_arms_with_settings() -> None:
    scouted: list[GuestPlace] = []
    arms = {
        "control": ArmFile(),
        "a": ArmFile(boot=("nohz=off",), set={"vm.swappiness": 10}),
        "b": ArmFile(boot=("preempt=full",)),
    }
    prepared(scouted, arms=arms, race=Race(), design=DesignFile(cap=2, seed=1))
    assert [place.shape.append for place in scouted] == [(), ("nohz=off",)]


def test_too_few_blocks_are_refused_before_a_kernel_is_asked_for() -> None:
    """But an arm that may be a placebo, as its setting may be in force already, is none too many."""
    words = {name: ArmFile(boot=(f"nohz={name}",)) for name in ("a", "b", "c")}
    settings = {name: ArmFile(set={"vm.swappiness": number}) for number, name in enumerate("def")}
    suite = SUITES["wakeups-busy"]

    def refuse(arms: Mapping[str, ArmFile]) -> None:
        file = TrialFile(name="t", suite="wakeups-busy", arms={"control": ArmFile(), **arms}, design=DesignFile(cap=7))
        refuse_before_building(file, suite, BENCHMARKS)

    with pytest.raises(BadInput, match="7 blocks cannot decide 3 comparisons at once"):
        refuse(words)
    refuse({"a": words["a"], "b": words["b"], **settings})
    refuse(settings)
    refuse({"placebo": ArmFile(placebo=True), **settings})
    with pytest.raises(BadInput, match="7 blocks cannot decide 3 comparisons at once"):
        prepared([], arms={"control": ArmFile(), **words}, design=DesignFile(cap=7))


def test_kernels_of_two_compilers_are_not_compared_by_counting_instructions() -> None:
    with pytest.raises(Refused, match=r"differ in their compilers \(gcc 12, clang 19\)"):
        prepared([], FakeLab(compiler="clang 19"))
    with pytest.raises(Refused, match="differ in their LTO"):
        prepared([], FakeLab(lto="thin"))
    assert (
        prepared([], FakeLab(lto="thin"), guest=GuestFile(kernel="6.12", mode="emulated")).places["old"].shape.cpus == 2
    )


def test_a_word_that_the_kernel_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    said = '4,1,0,-;Unknown kernel command line parameters "x=1 preempt=full", will be passed to user space.\n'
    monkeypatch.setattr(Scouted, "log", said)
    with pytest.raises(BadInput, match=r"6\.12 does not know preempt=full on its command line"):
        prepared([])


def test_kvm_that_is_not_there_is_told() -> None:
    with pytest.raises(KtrialError, match="cannot use KVM: there is no /dev/kvm"):
        prepared([], guest=GuestFile(mode="kvm"))


def tasks(suite: Suite) -> Sequence[Task]:
    return tasks_of(suite, BENCHMARKS, FactBook({}), None)


@pytest.mark.parametrize(
    "name, told",
    [
        ("agent-memcpy", "cannot measure agent-memcpy in an exact guest: the clock of such a guest"),
        ("agent-fileio-read-random-cold", "in an exact guest: the disk of such a guest is memory"),
        ("sysbench-memory", "cannot measure sysbench-memory in an exact guest: the clock of such a guest"),
        ("fio-rand-read", "cannot run fio-rand-read in guests: it is neither a load of the agent nor a"),
        ("pgbench", "cannot run pgbench in guests: it is neither a load of the agent nor"),
        ("zram-lz4", "cannot run zram-lz4 in guests: it is neither a load of the agent nor"),
    ],
)
def test_what_guests_cannot_tell_is_refused(name: str, told: str) -> None:
    suite = Suite(name=name, summary="", benchmark=(SuiteEntry(name),))
    with pytest.raises(KtrialError) as caught:
        refuse_what_guests_cannot(GuestFile(), suite, tasks(suite))
    assert told in caught.value.message


def test_programs_are_run_in_guests_too() -> None:
    for name in ("hackbench-pipe-thread", "cyclictest-fifo", "stress-ng-fork", "sysbench-threads"):
        suite = Suite(name=name, summary="", benchmark=(SuiteEntry(name),))
        refuse_what_guests_cannot(GuestFile(), suite, tasks(suite))


def test_kernels_for_two_kinds_of_machines_are_not_compared() -> None:
    with pytest.raises(BadInput, match=r"cannot compare 6\.12 \(x86_64\) with 6\.1 \(aarch64\) in guests"):
        prepared([], FakeLab(architecture="aarch64"), guest=GuestFile(kernel="6.12", mode="emulated"))


def test_a_background_load_of_a_program_is_refused() -> None:
    from ktrial.bench.suite import SuiteLoad

    suite = Suite(name="s", summary="", benchmark=(SuiteEntry("agent-lock"),), load=SuiteLoad())
    with pytest.raises(BadInput, match="cannot run s in guests: its background load is a program"):
        refuse_what_guests_cannot(GuestFile(), suite, tasks(suite))
