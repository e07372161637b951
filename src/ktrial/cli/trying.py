# SPDX-License-Identifier: Apache-2.0
"""From a protocol to a trial that runs: what `ktrial try` and `ktrial trial` share."""

from __future__ import annotations

import hashlib
import secrets
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrial.domain.errors import BadInput, KtrialError, Refused

if TYPE_CHECKING:
    from pathlib import Path

    from ktrial.cli.wiring import App
    from ktrial.domain.comparison import Comparison
    from ktrial.domain.facts import FactBook
    from ktrial.domain.judgement import Judgement
    from ktrial.domain.noise_profile import NoiseProfile
    from ktrial.domain.plan import Plan
    from ktrial.domain.run import Session
    from ktrial.domain.stored_trial import ArmSettings, StoredTrial
    from ktrial.domain.suite import Suite, Task
    from ktrial.domain.trial_file import TrialFile
    from ktrial.domain.trial_log import Protocol
    from ktrial.services.around import Around
    from ktrial.services.one_run import RunMaker
    from ktrial.services.ports import Machine
    from ktrial.services.schedule import Order
    from ktrial.services.trial_course import Benchmarked
    from ktrial.services.trial_events import TrialListener


class Prepared(NamedTuple):
    """A trial that could begin: nothing is written yet."""

    file: TrialFile
    suite: Suite
    tasks: tuple[Task, ...]
    facts: FactBook
    plans: Mapping[str, Plan]
    arms: Mapping[str, ArmSettings]
    #: Arms that change nothing here although they name settings: what they name is in force already.
    idle: tuple[str, ...]
    root: Machine | None
    settle_s: float
    seed: int


def prepare(app: App, file: TrialFile, *, allow_dangerous: bool) -> Prepared:
    """Find everything that the protocol names, on this machine. Raises for what is not there."""
    from ktrial.cli.measuring import choose
    from ktrial.services.suites import tasks_of, with_parameters
    from ktrial.services.trial_prepare import arm_plans, arm_settings, needed_entries, settle_s, with_placebos

    if not app.on_this_machine:
        raise Refused("trials run on this machine only", hint="leave --machine-root out")
    if any(arm.manual is not None for arm in file.arms.values()):
        hint = "measure each by hand and compare:  ktrial bench … --label NAME, ktrial compare"
        raise Refused("manual arms cannot be tried yet", hint=hint)
    suite, benchmarks = choose(app, file.suite, file.command or None, file.metrics, None)
    suite = with_parameters(suite, benchmarks, [f"{name}={_word(value)}" for name, value in file.parameters.items()])
    named = [name for name in (file.primary, *file.secondary, *file.guards) if name is not None]
    suite = needed_entries(file, suite, named)
    facts = app.executor.facts()
    tasks = tasks_of(suite, benchmarks, facts, file.cpus)
    plans = arm_plans(file, app.best_session("planning the arms"), app.catalog, allow_dangerous=allow_dangerous)
    root: Machine | None = None
    if any(not plan.empty for plan in plans.values()):
        root = app.root_session(f"the arms of the trial {file.name}")
        plans = arm_plans(file, root, app.catalog, allow_dangerous=allow_dangerous)
    arms = arm_settings(file, plans)
    file, idle = with_placebos(file, arms)
    seed = secrets.randbelow(2**32) if file.design.seed is None else file.design.seed
    return Prepared(
        file=file,
        suite=suite,
        tasks=tasks,
        facts=facts,
        plans=plans,
        arms=arms,
        idle=idle,
        root=root,
        settle_s=settle_s(file, plans, app.catalog.knobs),
        seed=seed,
    )


def _word(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class Rig(NamedTuple):
    """What runs of a trial are made with."""

    benchmarked: Benchmarked
    maker: RunMaker
    around: Around


def rig_of(app: App, ready: Prepared) -> Rig:
    """Everything that is needed for a run; says what cannot run here, and asks for root where a benchmark needs it."""
    from ktrial.cli.measuring import surroundings
    from ktrial.services.availability import examine
    from ktrial.services.background import Background
    from ktrial.services.one_run import RunMaker
    from ktrial.services.trial_course import Benchmarked

    executor = app.executor
    for task, found in zip(ready.tasks, examine((task.benchmark for task in ready.tasks), executor), strict=True):
        if not found.ready:
            raise BadInput(f"{task.label} cannot run here: {found.why}", hint=found.next)
    needy = [f"{one.label} ({one.benchmark.root_reason})" for one in ready.tasks if one.benchmark.root_reason]
    if needy:
        executor.obtain_root(", ".join(needy))
    versions: dict[str, str | None] = {}
    for task in ready.tasks:
        asked = task.benchmark.version_invocation()
        told = task.benchmark.parse_version(executor.run(asked).raw) if asked else None
        own = task.benchmark.invocation(task.parameters, ready.facts).load is not None
        versions[task.label] = told or (executor.agent_version if own else None)
    background = None
    if ready.suite.load is not None:
        background = Background(ready.suite.load, ready.facts.value("cpu.threads") or 1, executor, app.clock)
        background.check()
    around = surroundings(app, ready.suite, order_of(ready), when_idle=False, settle_s=None)
    maker = RunMaker(executor, app.clock, background, around)
    return Rig(Benchmarked(tasks=ready.tasks, versions=versions), maker, around)


def order_of(ready: Prepared, label: str | None = None) -> Order:
    """The session's frame: what is run once in every visit."""
    from ktrial.domain.gate import parse_gates
    from ktrial.services.schedule import Order

    return Order(
        suite=ready.suite.name,
        tasks=ready.tasks,
        rounds=1,
        seed=ready.seed,
        label=label,
        load=ready.suite.load,
        gates=parse_gates({**ready.suite.gates, **ready.file.gates}),
        sample_period_s=ready.suite.sample_period_s,
    )


def noise_profile(app: App, ready: Prepared, rig: Rig, protocol: Protocol, listen: TrialListener) -> NoiseProfile:
    """The profile that holds here now: one of the store, or one that is made now."""
    from ktrial.services import noise
    from ktrial.services.trial_arms import Arms
    from ktrial.services.trial_course import Standing, TrialCourse
    from ktrial.services.trial_prepare import machine_of

    key = noise.profile_key(workload_of(ready), machine_of(ready.facts), rig.benchmarked.versions, ready.facts)
    found = noise.usable(app.trials.profiles(key.suite, key.machine), key, app.clock.unix_ms())
    if found is not None and protocol.primary in found.differences:
        return found
    pilot = noise.pilot_protocol(protocol)
    session = _session(app, ready, label=None)
    app.run_store.begin(session, "")
    standing = Standing(trial=pilot.name, protocol_sha256="", session=session, log=[pilot], records=[], next_run=1)
    course = TrialCourse(
        standing,
        rig.benchmarked,
        {},
        Arms(None, {}),
        rig.maker,
        rig.around,
        app.run_store,
        noise.NoLog(),
        app.clock,
        ready.facts,
        listen,
        ready.settle_s,
        most_blocks=noise.BLOCKS,
    )
    course.carry_out()
    if course.interrupted:
        raise KeyboardInterrupt(app.interrupts.number)
    made = noise.profile_of(standing.log, key, app.clock.unix_ms())
    app.trials.keep_profile(made)
    return made


def workload_of(ready: Prepared) -> str:
    """A name that two trials share when they measure the same thing."""
    said = [(task.label, task.benchmark.name, task.parameters, task.cpus) for task in ready.tasks]
    words = (said, ready.file.command, ready.file.metrics, ready.suite.load, ready.suite.between)
    digest = hashlib.sha256(msgspec.json.encode(words, order="deterministic")).hexdigest()
    return f"{ready.suite.name}-{digest[:12]}"


def _session(app: App, ready: Prepared, label: str | None) -> Session:
    from ktrial.services.measure import session_of

    return session_of(order_of(ready, label), ready.facts, app.executor.agent_version, app.run_store.new_name())


def begin(app: App, ready: Prepared, protocol: Protocol) -> StoredTrial:
    """Put the protocol on disk: from now on nothing of it changes."""
    from ktrial.domain.stored_trial import StoredTrial, protocol_sha256
    from ktrial.services.trial_prepare import machine_of

    digest = protocol_sha256(ready.file, protocol, ready.arms)
    session = _session(app, ready, label=None)
    app.run_store.begin(session, digest)
    stored = StoredTrial(
        trial=f"{ready.file.name}-{session.session.rpartition('-')[2]}",
        session=session.session,
        protocol_sha256=digest,
        started_unix_ms=app.clock.unix_ms(),
        file=msgspec.structs.replace(ready.file, design=msgspec.structs.replace(ready.file.design, seed=ready.seed)),
        arms=ready.arms,
        settle_s=ready.settle_s,
        machine=machine_of(ready.facts),
    )
    app.trials.begin(stored, protocol)
    return stored


def carry_on(app: App, stored: StoredTrial, ready: Prepared, rig: Rig, listen: TrialListener) -> tuple[Judgement, bool]:
    """From where the trial stands until it ends or is interrupted: what the judge says, and whether it was."""
    from ktrial.services.trial_arms import Arms
    from ktrial.services.trial_course import Standing, TrialCourse
    from ktrial.services.trial_resume import untold

    earlier = app.run_store.earlier(stored.protocol_sha256)
    if earlier is None:
        raise KtrialError(f"the runs of {stored.trial} are not in the store", hint="--store names where they are")
    log = list(app.trials.log(stored.trial))
    late = untold(log, earlier.records, [task.label for task in ready.tasks])
    if late:
        app.trials.append(stored.trial, late)
        log += late
    standing = Standing(
        trial=stored.trial,
        protocol_sha256=stored.protocol_sha256,
        session=earlier.session,
        log=log,
        records=list(earlier.records),
        next_run=earlier.next_run,
    )
    if rig.around.gates is not None:
        rig.around.gates.take_up(earlier.records)
    course = TrialCourse(
        standing,
        rig.benchmarked,
        {name: arm.environment for name, arm in ready.file.arms.items()},
        Arms(ready.root, ready.plans),
        rig.maker,
        rig.around,
        app.run_store,
        app.trials,
        app.clock,
        ready.facts,
        listen,
        stored.settle_s,
        ready.file.time_s,
    )
    return course.carry_out(), course.interrupted


def run_file(app: App, file: TrialFile, *, allow_dangerous: bool, profile: bool, as_json: bool) -> int:
    """A new trial, from its protocol to its verdict."""
    from ktrial.cli.trial_progress import TrialProgress
    from ktrial.services.trial_protocol import protocol_of

    app.lock_runs()
    ready = prepare(app, file, allow_dangerous=allow_dangerous)
    rig = rig_of(app, ready)
    gates = order_of(ready).gates
    runs_per_visit = file.design.runs_per_visit or 1
    protocol = protocol_of(ready.file, ready.tasks, gates, ready.seed, None, runs_per_visit)
    listen = TrialProgress(as_json=as_json)
    with app.interrupts, listen:
        if profile and protocol.outcomes[protocol.primary].scale == "log":
            made = noise_profile(app, ready, rig, protocol, listen)
            protocol = protocol_of(ready.file, ready.tasks, gates, ready.seed, made, runs_per_visit)
        listen.announce(ready, protocol)
        stored = begin(app, ready, protocol)
        _, interrupted = carry_on(app, stored, ready, rig, listen)
    return finish(app, stored, interrupted=interrupted, as_json=as_json)


def finish(app: App, stored: StoredTrial, *, interrupted: bool, as_json: bool) -> int:
    """Say what came of it; the exit status."""
    from ktrial.cli import interruption
    from ktrial.cli.ledgering import note
    from ktrial.report.comparison_terminal import comparison_text
    from ktrial.report.terminal import columns

    note(app)
    if stored.file.screen is not None:
        screening(app, stored, as_json=as_json)
    elif as_json:
        found = told(app, stored)
        sys.stdout.write(msgspec.json.encode({"event": "comparison", "comparison": found}).decode() + "\n")
    else:
        sys.stdout.write(comparison_text(told(app, stored), width=columns()))
    if interrupted:
        app.say(f"{interruption.words(app.interrupts.number)}; `ktrial trial resume {stored.trial}` goes on with it")
        return interruption.status(app.interrupts.number)
    app.say(f"kept as {stored.trial}; the machine is as before: `ktrial status`")
    return 0


def told(app: App, stored: StoredTrial) -> Comparison:
    """A trial of the store as a comparison."""
    from ktrial.services.trial_comparison import Told, comparison_of, outcomes_of
    from ktrial.services.trial_summary import judgement_of

    log = app.trials.log(stored.trial)
    earlier = app.run_store.earlier(stored.protocol_sha256)
    records = earlier.records if earlier is not None else ()
    return comparison_of(
        stored, log, judgement_of(log), Told(outcomes=outcomes_of(records, app.benchmarks), records=records)
    )


def screening(app: App, stored: StoredTrial, *, as_json: bool) -> None:
    """Show a trial that looks for the setting that did it."""
    from ktrial.report.blame import screening_text
    from ktrial.report.terminal import columns
    from ktrial.services.trial_summary import judgement_of, summary_of

    log = app.trials.log(stored.trial)
    found = judgement_of(log)
    if as_json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
        return
    ended = summary_of(stored, log).ended
    sys.stdout.write(screening_text(stored.trial, found.screened, ended, width=columns()))


def resume_trial(app: App, stored: StoredTrial, *, allow_dangerous: bool, as_json: bool) -> int:
    """Go on with a trial of the store, with exactly what was fixed."""
    from ktrial.cli.trial_progress import TrialProgress
    from ktrial.domain.trial_log import Ended, Protocol

    log = app.trials.log(stored.trial)
    if any(isinstance(event, Ended) for event in log):
        app.say(f"{stored.trial} is over")
        return finish(app, stored, interrupted=False, as_json=as_json)
    app.lock_runs()
    ready = prepare(app, stored.file, allow_dangerous=allow_dangerous)
    if ready.arms != stored.arms:
        changed = next(name for name in stored.arms if ready.arms.get(name) != stored.arms[name])
        raise Refused(
            f"the arm {changed} would not be what it was when {stored.trial} began: the machine has changed",
            hint="put it back as it was, or begin a new trial",
        )
    rig = rig_of(app, ready)
    protocol = log[0]
    assert isinstance(protocol, Protocol), "a log begins with its protocol"
    listen = TrialProgress(as_json=as_json)
    with app.interrupts, listen:
        listen.announce(ready, protocol)
        _, interrupted = carry_on(app, stored, ready, rig, listen)
    return finish(app, stored, interrupted=interrupted, as_json=as_json)


def write_report(found: Comparison, path: Path) -> None:
    """One HTML file."""
    from ktrial.cli.comparison_file import write_file
    from ktrial.report.html import html_page

    write_file(path, html_page(found).encode())


def recheck_trial(app: App, stored: StoredTrial) -> list[str]:
    """Everything of which a trial can be convicted."""
    from ktrial.services.trial_resume import contradicted
    from ktrial.services.trial_summary import audited

    log = app.trials.log(stored.trial)
    earlier = app.run_store.earlier(stored.protocol_sha256)
    records = earlier.records if earlier is not None else ()
    return [*(one.sentence for one in audited(log)), *contradicted(log, records)]
