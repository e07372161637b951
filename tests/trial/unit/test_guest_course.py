# SPDX-License-Identifier: Apache-2.0
"""Trials in guests with a lab and a store made of memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from time import sleep
from typing import Any

import msgspec
import pytest

from ktrial.bench.adapters._agent_load import LoadBenchmark, time_of
from ktrial.bench.guest_tools import GuestPlace, GuestRun, GuestStart, Job, Mode, ProgramEnded, Shape
from ktrial.bench.measure import session_of
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Suite, SuiteLoad, Task
from ktrial.judge.model.log import Event, Looked, Race, RunEnded, Screen
from ktrial.judge.model.log import TrialEnd as TrialOver
from ktrial.kernels.identity import KernelFound
from ktrial.kit.errors import BadRun, KtrialError
from ktrial.trial.guests.model import perturbation
from ktrial.trial.guests.prepare import GuestReady
from ktrial.trial.guests.visits import GuestVisits
from ktrial.trial.protocol.file import ArmFile, GuestFile, TrialFile
from ktrial.trial.record import ArmSettings
from ktrial.trial.run.loop import Standing, TrialLoop
from ktrial.trial.run.prepare import Prepared
from ktrial.tuning.plans.model import Plan
from tests.support.bench import FakeClock, outcome
from tests.support.machine import step_told, transaction_told
from tests.support.trial_course import FACTS, Logs, MortalStore, alike, orders_in, plan_of, steady
from tests.support.trials import protocol

TOOL = LoadBenchmark(
    name="tool",
    what="",
    load="own",
    outcomes=(outcome("time"),),
    reader=lambda reply: (time_of(reply, "time", "time_ns"),),
    parameters={"duration_s": 1.0, "seed": None},
)
TASK = Task(label="tool", benchmark=TOOL, parameters=dict(TOOL.parameters))
NOTHING = Plan(title="", changes=(), same=(), refusals=())
#: Seconds by block, arm and seed.
Values = Callable[[int, str, int], float]


class FakeLab:
    """Guests that give what `values` say; `twin` changes what a visit's later boots give."""

    workers = 2

    def __init__(self, seed: int, arms: tuple[str, ...], values: Values) -> None:
        self._visits = {perturbation(seed, block, arm): (block, arm) for block in range(1, 60) for arm in arms}
        self._values = values
        self.boots: list[tuple[int, str]] = []
        self.jobs: list[tuple[GuestPlace, Job, Mapping[str, bytes]]] = []
        self.twin: Callable[[GuestRun, int], GuestRun] = lambda run, _number: run
        self.fails: dict[str, str] = {}
        self.stopped = False

    def swap_programs(self, _kernel: str) -> tuple[str, ...]:
        return ()

    def why_no_kvm(self, _kernel: str) -> str | None:
        return None

    def find(self, kernel: str) -> None:
        return None

    def identify(self, kernel: str) -> KernelFound:
        raise AssertionError(kernel)

    def prepare(self, place: GuestPlace) -> None:
        raise AssertionError(place)

    def stop(self) -> None:
        self.stopped = True

    def boot(self, place: GuestPlace, job: Job, files: Mapping[str, bytes]) -> GuestRun:
        visit = block, arm = self._visits[place.shape.append[-1]]
        self.jobs.append((place, job, files))
        replies: list[dict[str, Any]] = [{"id": 1, "ok": {"facts": {"boot.id": {"value": f"{block}-{arm}"}}}}]
        requests = [json.loads(line) for line in files["/ktrial/settings"].splitlines()]
        for one in requests[1:]:
            replies.append({"id": one["id"], "ok": transaction_told(steps=[step_told()])})
        for line in files["/ktrial/loads"].splitlines():
            request = json.loads(line)
            value = self._values(block, arm, request["parameters"]["seed"])
            answer = {
                "load": "own",
                "parameters": request["parameters"],
                "started_ns": 0,
                "wall_ns": 9,
                "ended": "done",
            }
            replies.append({"id": request["id"], "ok": {**answer, "results": {"time_ns": int(value * 1e9)}}})
        run = GuestRun(
            shape=place.shape,
            emulator="QEMU",
            begun=BEGUN,
            ended=ProgramEnded(status=0),
            stdout=b"".join(msgspec.json.encode(one) + b"\n" for one in replies),
            stderr=b"",
            console=b"",
            wall_s=1.0,
            failure=self.fails.get(arm),
        )
        earlier = self.boots.count(visit)
        self.boots.append(visit)
        return self.twin(run, earlier) if earlier else run


BEGUN = GuestStart(
    release="6.12", version="#1", architecture="x86_64", command_line="", uptime_s=1.0, cpus=1, memory_bytes=1 << 29
)


class Trial:
    """A trial of `case` against the control in guests."""

    def __init__(self, values: Values, *, mode: Mode = "exact", workloads: int = 2, **changes: Any) -> None:
        self.protocol = protocol(replicate="boot", runs_per_visit=workloads, **changes)
        names = tuple(arm.name for arm in self.protocol.arms)
        self.lab = FakeLab(self.protocol.seed, names, values)
        self.store, self.logs, self.clock = MortalStore(), Logs(self.protocol), FakeClock()
        self.told: list[Any] = []
        self.check: Callable[[], None] = lambda: None
        file = TrialFile(
            name="t",
            suite="tool",
            arms={name: ArmFile() for name in names},
            guest=GuestFile(mode=mode, workloads=workloads),
        )
        plans = dict.fromkeys(names, NOTHING) | {"case": plan_of("/proc/sys/vm/swappiness", "vm.swappiness", "10")}
        suite = Suite(name="tool", summary="", benchmark=(), load=SuiteLoad(use="spin", share=3.0))
        ready = Prepared(
            file=file,
            suite=suite,
            tasks=(TASK,),
            own_tasks={},
            facts=FACTS,
            plans=plans,
            arms={name: ArmSettings() for name in names},
            idle=(),
            root=None,
            settle_s=0.0,
            seed=self.protocol.seed,
        )
        place = GuestPlace(kernel="6.12", shape=Shape(mode=mode, memory_bytes=1 << 29, cpus=1))
        self.guests = GuestReady(ready, dict.fromkeys(names, place))

    @property
    def log(self) -> list[Event]:
        return self.logs.events

    def run(self) -> TrialLoop:
        """From where it stands."""
        session = session_of(Order(suite="tool", tasks=(TASK,), rounds=1, seed=7), FACTS, "0.1.0", "session")
        standing = Standing(
            trial="trial",
            protocol_sha256="f" * 64,
            session=session,
            log=list(self.log),
            records=list(self.store.records),
            next_run=max(self.store.started, default=0) + 1,
            logs=self.logs,
        )
        versions: dict[str, str | None] = {"tool": "0.1.0"}
        visits = GuestVisits(
            standing, self.guests, self.lab, self.store, self.clock, self.check, self.told.append, versions
        )
        course = TrialLoop(standing, visits, self.told.append)
        self.judgement = course.carry_out()
        return course


def seeded(values: Callable[[int | None, str], float]) -> Values:
    """The same with a part that the seed alone decides."""
    return lambda block, arm, seed: values(block, arm) * (1 + seed / 100)


def test_a_trial_in_exact_guests_ends_with_a_verdict_by_the_same_judge() -> None:
    trial = Trial(seeded(steady), cap=9)
    assert not trial.run().interrupted
    assert [one.verdict for one in trial.judgement.judged if one.role == "primary"] == ["better"]
    assert isinstance(trial.log[-1], TrialOver)
    blocks = len(orders_in(trial.log))
    assert len([event for event in trial.log if isinstance(event, RunEnded)]) == blocks * 2 * 2
    assert len([event for event in trial.log if isinstance(event, Looked)]) == blocks


def test_the_first_boots_of_every_arm_are_made_twice_and_no_others() -> None:
    trial = Trial(seeded(alike), cap=7)
    trial.run()
    assert {visit: trial.lab.boots.count(visit) for visit in trial.lab.boots if trial.lab.boots.count(visit) > 1} == {
        (1, "control"): 2,
        (1, "case"): 2,
    }


def test_of_a_screening_which_boots_each_arm_once_a_kernel_is_proven_once() -> None:
    trial = Trial(seeded(alike), cap=7)
    ready = trial.guests.ready
    screened = msgspec.structs.replace(ready.file, screen=Screen(settings=("a", "b"), known="worse"))
    trial.guests = trial.guests._replace(ready=ready._replace(file=screened))
    trial.run()
    twice = [visit for visit in trial.lab.boots if trial.lab.boots.count(visit) > 1]
    assert len(set(twice)) == 1, "one kernel, one visit that is made twice"


def test_of_a_race_a_kernel_is_proven_once_and_an_arm_that_never_boots_drops_out() -> None:
    trial = Trial(seeded(alike), cap=2, race=Race(keep=0.5))
    ready = trial.guests.ready
    trial.guests = trial.guests._replace(ready=ready._replace(file=msgspec.structs.replace(ready.file, race=Race())))
    trial.lab.fails["case"] = "the kernel panicked: no init"
    trial.run()
    twice = [visit for visit in trial.lab.boots if trial.lab.boots.count(visit) > 1]
    assert len(set(twice)) == 1, "one kernel, one visit that is made twice"
    failed = {one.arm for one in trial.log if isinstance(one, RunEnded) and one.failure is not None}
    assert failed == {"case"}
    trial = Trial(seeded(alike), cap=2, race=Race(keep=0.5))
    trial.lab.fails["control"] = "the kernel panicked: no init"
    with pytest.raises(BadRun, match="control gave no measurement"):
        trial.run()


def test_boots_that_all_differ_end_the_trial_with_the_first_difference() -> None:
    trial = Trial(seeded(alike), cap=7)
    trial.lab.twin = lambda run, number: msgspec.structs.replace(run, stderr=f"{number}\n".encode())
    with pytest.raises(
        KtrialError, match=r"(control|case): three runs .* differ: line 1 of stderr is missing in one run and '1'"
    ):
        trial.run()
    assert isinstance(trial.log[-1], TrialOver)
    assert not any(isinstance(event, RunEnded) for event in trial.log)


@pytest.mark.parametrize("odd", [1, 2])
def test_one_odd_boot_of_three_is_told_and_not_used(odd: int) -> None:
    trial = Trial(seeded(alike), cap=7)
    trial.lab.twin = lambda run, number: run if number != odd else msgspec.structs.replace(run, stdout=b"")
    trial.run()
    # The first two differ where the second is the odd one; else the third is not asked for.
    noted = {record.notes for record in trial.store.records if record.trial is not None and record.trial.block == 1}
    told = "one of three runs differed from the other two: line 1 of stdout is "
    assert {any(note.startswith(told) for note in notes) for notes in noted} == {odd == 1}
    assert all(record.failure is None for record in trial.store.records)


def test_a_visit_is_a_boot_with_its_settings_its_word_and_every_seed() -> None:
    trial = Trial(seeded(alike), cap=7, workloads=3)
    trial.run()
    words = {place.shape.append for place, _, _ in trial.lab.jobs}
    assert len(words) == 14
    _place, job, files = next(one for one in trial.lab.jobs if trial.lab._visits[one[0].shape.append[-1]][1] == "case")
    root, user = job.programs
    assert (root.user, user.user, job.settle_s) == (None, 1000, 12)
    assert [json.loads(line)["do"] for line in files["/ktrial/settings"].splitlines()] == ["facts", "apply"]
    loads = [json.loads(line) for line in files["/ktrial/loads"].splitlines()]
    assert [one["parameters"]["seed"] for one in loads] == [1, 2, 3]
    assert json.loads(files["/ktrial/beside"])["parameters"] == {"threads": 3}
    assert [one.argv[-1] for one in user.beside] == ["/ktrial/beside"]
    assert {record.parameters["seed"] for record in trial.store.records} == {1, 2, 3}
    boots = {record.trial.boot_id for record in trial.store.records if record.trial is not None}
    assert boots == {word for (word,) in words}


def test_an_emulated_guest_is_booted_once_in_the_order_drawn_and_tells_its_own_boot() -> None:
    trial = Trial(seeded(alike), mode="emulated", cap=7)
    trial.run()
    wanted = [(block, arm) for block, order in enumerate(orders_in(trial.log), 1) for arm in order]
    assert trial.lab.boots == wanted
    boots = {record.trial.boot_id for record in trial.store.records if record.trial is not None}
    assert boots == {f"{block}-{arm}" for block, arm in wanted}


def test_an_arm_that_never_gives_anything_ends_the_trial() -> None:
    trial = Trial(seeded(alike), cap=7)
    trial.lab.fails["case"] = "the kernel panicked: no init"
    with pytest.raises(BadRun, match=r"case gave no measurement: tool: .*the kernel panicked: no init"):
        trial.run()
    assert isinstance(trial.log[-1], TrialOver)


def test_an_interrupted_trial_goes_on_and_comes_to_the_same_log() -> None:
    whole = Trial(seeded(alike), cap=7)
    whole.run()
    trial = Trial(seeded(alike), cap=7)
    looks = 0

    def interrupt() -> None:
        nonlocal looks
        looks += 1
        if looks == 4:
            raise KeyboardInterrupt

    trial.check = interrupt
    assert trial.run().interrupted
    before = len(orders_in(trial.log))
    trial.check = lambda: None
    assert not trial.run().interrupted
    assert before < len(orders_in(trial.log))

    def measured(log: list[Event]) -> list[tuple[object, ...]]:
        return [(one.block, one.arm, *one.measurements.values()) for one in log if isinstance(one, RunEnded)]

    assert measured(trial.log) == measured(whole.log)


def test_a_boot_under_way_ends_when_somebody_interrupts() -> None:
    trial = Trial(seeded(alike), cap=7)
    began = False

    def slow(place: GuestPlace, job: Job, files: Mapping[str, bytes]) -> GuestRun:
        nonlocal began
        began = True
        while not trial.lab.stopped:
            sleep(0.001)
        raise KtrialError("it was stopped")

    def interrupt() -> None:
        if began:
            raise KeyboardInterrupt

    trial.lab.boot = slow  # type: ignore[method-assign]
    trial.check = interrupt
    assert trial.run().interrupted
    assert trial.lab.stopped
    assert not any(isinstance(event, RunEnded) for event in trial.log)
