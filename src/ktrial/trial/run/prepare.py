# SPDX-License-Identifier: Apache-2.0
"""Prepares a trial: finds everything that its protocol names on this machine."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from ktrial.bench.around.around_run import Around, surroundings
from ktrial.bench.around.load import Background
from ktrial.bench.availability import examine_with
from ktrial.bench.benchmark import Benchmark
from ktrial.bench.measure import session_of
from ktrial.bench.record import Session
from ktrial.bench.run.make_run import RunMaker
from ktrial.bench.run.ports import TrialExecutor
from ktrial.bench.run.undoable_command import ArmExtras
from ktrial.bench.schedule import Order
from ktrial.bench.suite import Suite, Task
from ktrial.bench.suites import tasks_of, with_parameters
from ktrial.kit.errors import BadInput
from ktrial.machine.facts import FactBook
from ktrial.machine.gates import parse_gates
from ktrial.machine.ports import Machine
from ktrial.trial.arms.arms import rehearse
from ktrial.trial.arms.boot_arms import BOOT_TIME, times_boots
from ktrial.trial.arms.commands import refuse_what_holds_already
from ktrial.trial.arms.plan_arms import (
    arm_plans,
    arm_settings,
    refuse_others,
    service_states,
    settle_s,
    with_placebos,
    with_service_checks,
    with_services,
)
from ktrial.trial.arms.scheduler import SchedulerSeat
from ktrial.trial.protocol.file import TrialFile
from ktrial.trial.protocol.protocol import outcomes_around, protocol_of
from ktrial.trial.record import ArmSettings
from ktrial.trial.run.guards import recover
from ktrial.trial.run.ports import TrialWorld
from ktrial.trial.run.visits import Benchmarked
from ktrial.tuning.plans.model import Plan
from ktrial.tuning.plans.wait_for_lock import PatientMachine


class Prepared(NamedTuple):
    """A trial that is ready to begin. Nothing has been written yet."""

    file: TrialFile
    suite: Suite
    tasks: tuple[Task, ...]
    #: Tasks of the arms that set parameters or measure a command of their own.
    own_tasks: Mapping[str, tuple[Task, ...]]
    facts: FactBook
    plans: Mapping[str, Plan]
    arms: Mapping[str, ArmSettings]
    #: Arms that name settings but change nothing here, because all their settings are already in force.
    idle: tuple[str, ...]
    root: Machine | None
    settle_s: float
    seed: int
    #: Commands and checks by arm.
    extras: Mapping[str, ArmExtras] = {}


def prepare(
    world: TrialWorld,
    file: TrialFile,
    suite: Suite,
    benchmarks: Mapping[str, Benchmark],
    extras: Mapping[str, ArmExtras],
    *,
    allow_dangerous: bool,
) -> Prepared:
    """Find everything on this machine that the protocol names, and return the trial, ready to begin.

    Raise an error if something is missing.
    """
    suite = needed_suite(file, suite, benchmarks)
    session = world.best_session("planning the arms")
    recover(world, PatientMachine(session, world.clock, world.say))
    services = service_states(file, world.executor)
    plans = with_services(file, arm_plans(file, session, world.catalog, allow_dangerous=allow_dangerous), services)
    refuse_others(session, plans)
    root: Machine | None = None
    if any(not plan.empty for plan in plans.values()):
        root = world.root_session(f"trial {file.name}")
        recover(world, PatientMachine(root, world.clock, world.say))
        plans = with_services(file, arm_plans(file, root, world.catalog, allow_dangerous=allow_dangerous), services)
    world.protect()
    refuse_what_holds_already(extras, world.executor)
    schedulers = [one.scheduler for one in extras.values() if one.scheduler is not None]
    if schedulers:
        needs_root = any(one.argv for one in schedulers)
        SchedulerSeat(world.looking_session, world.executor, world.clock).refuse_another(needs_root=needs_root)
    facts = world.executor.facts()
    tasks = tasks_of(suite, benchmarks, facts, file.cpus)
    arms = arm_settings(file, plans)
    file, idle = with_placebos(file, arms)
    seed = secrets.randbelow(2**32) if file.design.seed is None else file.design.seed
    return Prepared(
        file=file,
        suite=suite,
        tasks=tasks,
        own_tasks=arm_tasks(file, suite, benchmarks, facts, file.cpus, extras),
        facts=facts,
        plans=plans,
        arms=arms,
        idle=idle,
        root=root,
        settle_s=settle_s(file, plans, world.catalog.knobs),
        seed=seed,
        extras=with_service_checks(file, extras, services),
    )


def look_over(
    world: TrialWorld, file: TrialFile, suite: Suite, benchmarks: Mapping[str, Benchmark], *, allow_dangerous: bool
) -> tuple[Task, ...]:
    """Return the tasks to measure. Raise the errors that ktrial finds before it measures or changes anything."""
    tasks = check_measured(world, file, suite, benchmarks)
    arm_plans(file, world.best_session("planning the arms"), world.catalog, allow_dangerous=allow_dangerous)
    _refuse_absent(tasks, world.executor)
    return tasks


def check_measured(
    world: TrialWorld, file: TrialFile, suite: Suite, benchmarks: Mapping[str, Benchmark]
) -> tuple[Task, ...]:
    """Return the tasks to measure. Raise an error for outcomes, guards or parameters that the tasks lack."""
    suite = needed_suite(file, suite, benchmarks)
    tasks = tasks_of(suite, benchmarks, world.executor.facts(), file.cpus)
    around = outcomes_around(suite, Around(world.looking_session, world.clock).counters)
    protocol_of(file, tasks, {}, 0, None, 1, around)
    return tasks


def needed_suite(trial: TrialFile, suite: Suite, benchmarks: Mapping[str, Benchmark]) -> Suite:
    """Return the suite with the protocol's parameters, without benchmarks whose outcomes the protocol does not name.

    If the protocol names no outcome at all, keep all benchmarks.
    """
    suite = with_parameters(suite, benchmarks, parameter_words(trial.parameters))
    named = [name for name in (trial.primary, *trial.secondary, *trial.guards) if name is not None]
    wanted = tuple(entry for entry in suite.benchmark if any(name.startswith(f"{entry.label}.") for name in named))
    if times_boots(trial) and all(entry.use == BOOT_TIME for entry in wanted):
        # The protocol names only the time of the boot, which is measured in addition to the suite.
        return suite
    return msgspec.structs.replace(suite, benchmark=wanted or suite.benchmark)


def arm_tasks(
    trial: TrialFile,
    suite: Suite,
    benchmarks: Mapping[str, Benchmark],
    facts: FactBook,
    cpus: str | None,
    extras: Mapping[str, ArmExtras] = {},
) -> dict[str, tuple[Task, ...]]:
    """Return the tasks of each arm that sets parameters or measures a command of its own."""
    found: dict[str, tuple[Task, ...]] = {}
    for name, arm in trial.full_arms.items():
        own = extras[name].measured if name in extras else None
        if arm.parameters or own is not None:
            known = benchmarks if own is None else {**benchmarks, own.name: own}
            found[name] = tasks_of(with_parameters(suite, known, parameter_words(arm.parameters)), known, facts, cpus)
    return found


def parameter_words(parameters: Mapping[str, object]) -> list[str]:
    return [f"{name}={_word(value)}" for name, value in parameters.items()]


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class Rig(NamedTuple):
    """Everything that a trial needs to make its runs."""

    benchmarked: Benchmarked
    maker: RunMaker
    around: Around


def rig_of(world: TrialWorld, ready: Prepared) -> Rig:
    """Return what the runs need. Ask for root if a benchmark needs root, and try out each setting once.

    Raise an error if something cannot run here.
    """
    executor = world.executor
    _refuse_absent(ready.tasks, executor)
    needy = [f"{one.label} ({one.benchmark.root_reason})" for one in ready.tasks if one.benchmark.root_reason]
    if needy:
        executor.obtain_root(", ".join(needy))
    versions: dict[str, str | None] = {}
    for task in ready.tasks:
        told = version_of(task.benchmark, executor)
        own = task.benchmark.invocation(task.parameters, ready.facts).load is not None
        versions[task.label] = told or (executor.agent_version if own else None)
    background = None
    if ready.suite.load is not None:
        background = Background(ready.suite.load, ready.facts.value("cpu.threads") or 1, executor, world.clock)
        background.check()
    around = surroundings(world, ready.suite, order_of(ready), when_idle=world.when_idle)
    root = ready.root and PatientMachine(ready.root, world.clock, world.say)
    rehearse(root, ready.plans, world.catalog.knobs)
    maker = RunMaker(executor, world.clock, background, around)
    return Rig(Benchmarked(tasks=ready.tasks, versions=versions, own=ready.own_tasks), maker, around)


def version_of(benchmark: Benchmark, executor: TrialExecutor) -> str | None:
    """Return the version that a tool reports; None if it does not report one."""
    asked = benchmark.version_invocation()
    return benchmark.parse_version(executor.run(asked).raw) if asked else None


def _refuse_absent(tasks: Sequence[Task], executor: TrialExecutor) -> None:
    wanted = [(task.benchmark, task.parameters) for task in tasks]
    for task, found in zip(tasks, examine_with(wanted, executor), strict=True):
        if not found.ready:
            raise BadInput(f"cannot run {task.label} here: {found.why}", hint=found.next)


def order_of(ready: Prepared, label: str | None = None) -> Order:
    return Order(
        suite=ready.suite.name,
        tasks=ready.tasks,
        rounds=1,
        seed=ready.seed,
        label=label,
        load=ready.suite.load,
        gates=parse_gates(
            {**ready.suite.gates, **ready.file.gates},
            phone=ready.facts.value("os.android") is True,
            has_generator=bool(ready.file.load_from),
        ),
        sample_period_s=ready.suite.sample_period_s,
    )


def workload_of(ready: Prepared) -> str:
    """Return a name for the workload; trials that measure the same thing have the same name."""
    said = [(task.label, task.benchmark.name, task.parameters, task.cpus) for task in control_tasks(ready)]
    words: tuple[object, ...] = (said, ready.file.command, ready.file.metrics, ready.suite.load, ready.suite.between)
    control = ready.arms[ready.file.control]
    if control.changes or control.environment or control.commands:
        words = (*words, control.changes, control.environment, *control.commands)
    digest = hashlib.sha256(msgspec.json.encode(words, order="deterministic")).hexdigest()
    return f"{ready.suite.name}-{digest[:12]}"


def control_tasks(ready: Prepared) -> tuple[Task, ...]:
    return ready.own_tasks.get(ready.file.control, ready.tasks)


def session_for(world: TrialWorld, ready: Prepared) -> Session:
    return session_of(order_of(ready), ready.facts, world.executor.agent_version, world.run_store.new_name())
