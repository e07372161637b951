# SPDX-License-Identifier: Apache-2.0
"""From a protocol to a trial that runs: what `ktrial try` and `ktrial trial` share."""

from __future__ import annotations

import hashlib
import secrets
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrial.cli.trial_guards import limits_watched, recover, refuse_changed, say_next, writers
from ktrial.domain.errors import BadInput, GuardTripped, KtrialError, Refused

if TYPE_CHECKING:
    from pathlib import Path

    from ktrial.cli.trial_progress import TrialProgress
    from ktrial.cli.wiring import App
    from ktrial.domain.comparison import Comparison
    from ktrial.domain.facts import FactBook
    from ktrial.domain.judgement import Judgement
    from ktrial.domain.kept_trial import KeptTrial
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
    from ktrial.services.trial_course import Benchmarked, TrialCourse
    from ktrial.services.trial_events import TrialListener


class Prepared(NamedTuple):
    """A trial that could begin: nothing is written yet."""

    file: TrialFile
    suite: Suite
    tasks: tuple[Task, ...]
    #: Of the arms that set parameters.
    own_tasks: Mapping[str, tuple[Task, ...]]
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
    from ktrial.services.trial_prepare import (
        arm_plans,
        arm_settings,
        in_force,
        needed_entries,
        settle_s,
        with_placebos,
    )

    if not app.may_run_trials:
        raise Refused("trials run on this machine only", hint="leave --machine-root out")
    if any(arm.manual is not None for arm in file.arms.values()):
        hint = "measure each by hand and compare:  ktrial bench … --label NAME, ktrial compare"
        raise Refused("manual arms cannot be tried yet", hint=hint)
    if file.design.replicate != "run":
        hint = "leave `replicate` out: the verdict holds for this boot, and says so"
        raise Refused(f"replicate = {file.design.replicate!r} cannot be carried out yet", hint=hint)
    suite, benchmarks = choose(app, file.suite, file.command or None, file.metrics, None)
    suite = with_parameters(suite, benchmarks, _words(file.parameters))
    named = [name for name in (file.primary, *file.secondary, *file.guards) if name is not None]
    suite = needed_entries(file, suite, named)
    session = app.best_session("planning the arms")
    recover(app, session)
    plans = arm_plans(file, session, app.catalog, allow_dangerous=allow_dangerous)
    root: Machine | None = None
    if any(not plan.empty for plan in plans.values()):
        root = app.root_session(f"the arms of the trial {file.name}")
        recover(app, root)
        plans = arm_plans(file, root, app.catalog, allow_dangerous=allow_dangerous)
    app.protect()
    facts = app.executor.facts()
    tasks = tasks_of(suite, benchmarks, facts, file.cpus)
    own_tasks = {
        name: tasks_of(with_parameters(suite, benchmarks, _words(given)), benchmarks, facts, file.cpus)
        for name in file.arms
        if (given := in_force(file, name).parameters)
    }
    arms = arm_settings(file, plans)
    file, idle = with_placebos(file, arms)
    seed = secrets.randbelow(2**32) if file.design.seed is None else file.design.seed
    return Prepared(
        file=file,
        suite=suite,
        tasks=tasks,
        own_tasks=own_tasks,
        facts=facts,
        plans=plans,
        arms=arms,
        idle=idle,
        root=root,
        settle_s=settle_s(file, plans, app.catalog.knobs),
        seed=seed,
    )


def _words(parameters: Mapping[str, object]) -> list[str]:
    return [f"{name}={_word(value)}" for name, value in parameters.items()]


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
    from ktrial.services.rehearsal import rehearse
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
    rehearse(ready.root, ready.plans, app.catalog.knobs)
    maker = RunMaker(executor, app.clock, background, around)
    return Rig(Benchmarked(tasks=ready.tasks, versions=versions, own=ready.own_tasks), maker, around)


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


def noise_profile(app: App, ready: Prepared, rig: Rig, protocol: Protocol, listen: TrialProgress) -> NoiseProfile:
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
    listen.learn_noise(noise.BLOCKS)
    control = ready.file.control
    session = _session(app, ready, label=None)
    app.run_store.begin(session, "")
    standing = Standing(trial=pilot.name, protocol_sha256="", session=session, log=[pilot], records=[], next_run=1)
    course = TrialCourse(
        standing,
        msgspec.structs.replace(rig.benchmarked, tasks=control_tasks(ready), own={}),
        {arm.name: ready.arms[control].environment for arm in pilot.arms},
        Arms(ready.root, {arm.name: ready.plans[control] for arm in pilot.arms}),
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
    said = [(task.label, task.benchmark.name, task.parameters, task.cpus) for task in control_tasks(ready)]
    words: tuple[object, ...] = (said, ready.file.command, ready.file.metrics, ready.suite.load, ready.suite.between)
    control = ready.arms[ready.file.control]
    if control.changes or control.environment:
        words = (*words, control.changes, control.environment)
    digest = hashlib.sha256(msgspec.json.encode(words, order="deterministic")).hexdigest()
    return f"{ready.suite.name}-{digest[:12]}"


def control_tasks(ready: Prepared) -> tuple[Task, ...]:
    """What the control runs."""
    return ready.own_tasks.get(ready.file.control, ready.tasks)


def _session(app: App, ready: Prepared, label: str | None) -> Session:
    from ktrial.services.measure import session_of

    return session_of(order_of(ready, label), ready.facts, app.executor.agent_version, app.run_store.new_name())


def begin(app: App, ready: Prepared, protocol: Protocol) -> StoredTrial:
    """Put the protocol on disk: from now on nothing of it changes."""
    from ktrial.domain.stored_trial import StoredTrial, protocol_sha256
    from ktrial.services.trial_prepare import found_values, machine_of

    file = msgspec.structs.replace(ready.file, design=msgspec.structs.replace(ready.file.design, seed=ready.seed))
    digest = protocol_sha256(file, protocol, ready.arms)
    session = _session(app, ready, label=None)
    app.run_store.begin(session, digest)
    stored = StoredTrial(
        trial=f"{ready.file.name}-{session.session.rpartition('-')[2]}",
        session=session.session,
        protocol_sha256=digest,
        started_unix_ms=app.clock.unix_ms(),
        file=file,
        arms=ready.arms,
        settle_s=ready.settle_s,
        machine=machine_of(ready.facts),
        found=found_values(ready.plans),
    )
    app.trials.begin(stored, protocol)
    return stored


def carry_on(app: App, stored: StoredTrial, ready: Prepared, rig: Rig, listen: TrialListener) -> tuple[Judgement, bool]:
    """From where the trial stands until it ends or is interrupted: what the judge says, and whether it was."""
    from ktrial.services.trial_arms import Arms
    from ktrial.services.trial_course import Standing, TrialCourse
    from ktrial.services.trial_resume import untold

    earlier = app.run_store.of_session(stored.session)
    if earlier is None:
        raise KtrialError(f"another ktrial goes on with {stored.trial}", hint="wait for it, or stop it")
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
        {name: arm.environment for name, arm in ready.arms.items()},
        Arms(ready.root, ready.plans, writers(app, ready)),
        rig.maker,
        rig.around,
        app.run_store,
        app.trials,
        app.clock,
        ready.facts,
        listen,
        stored.settle_s,
        ready.file.time_s,
        keeps_states=ready.file.screen is None,
    )
    app.store.database.hold()
    with limits_watched(app, ready.file):
        return _carried_out(course, stored)


def _carried_out(course: TrialCourse, stored: StoredTrial) -> tuple[Judgement, bool]:
    """Until its end; whatever else stops it says how to go on."""
    from ktrial.domain.errors import AgentError

    try:
        return course.carry_out(), course.interrupted
    except AgentError as error:
        if error.kind != "lost":
            raise
        hint = f"`ktrial recover` puts back what was changed, `ktrial trial resume {stored.trial}` goes on"
        raise AgentError(error.kind, error.message, hint=hint) from None


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
    listen = TrialProgress(app.clock, as_json=as_json)
    with app.interrupts, listen:
        if profile and protocol.outcomes[protocol.primary].scale == "log":
            made = noise_profile(app, ready, rig, protocol, listen)
            protocol = protocol_of(ready.file, ready.tasks, gates, ready.seed, made, runs_per_visit)
        listen.announce(ready, protocol)
        stored = begin(app, ready, protocol)
        interrupted = _to_its_end(app, stored, ready, rig, listen, as_json=as_json)
    return finish(app, stored, interrupted=interrupted, as_json=as_json)


def _to_its_end(
    app: App, stored: StoredTrial, ready: Prepared, rig: Rig, listen: TrialListener, *, as_json: bool
) -> bool:
    """Carry a trial out; whether it was interrupted. One that a limit ended is shown before that is said."""
    from ktrial.domain.errors import LimitPassed

    try:
        return carry_on(app, stored, ready, rig, listen)[1]
    except LimitPassed:
        finish(app, stored, interrupted=False, as_json=as_json)
        raise


def finish(app: App, stored: StoredTrial, *, interrupted: bool, as_json: bool) -> int:
    """Say what came of it; the exit status."""
    from ktrial.cli import interruption
    from ktrial.cli.ledgering import note
    from ktrial.report.terminal import columns
    from ktrial.report.trial_terminal import trial_text

    note(app)
    broken: list[str] = []
    if stored.file.screen is not None:
        screening(app, stored, as_json=as_json)
    else:
        found = told(app, stored)
        broken = broken_guards(found)
        document = {"event": "comparison", "comparison": found}
        text = msgspec.json.encode(document).decode() + "\n" if as_json else trial_text(found, width=columns())
        sys.stdout.write(text)
    if interrupted:
        app.say(f"{interruption.words(app.interrupts.number)}; `ktrial trial resume {stored.trial}` goes on with it")
        return interruption.status(app.interrupts.number)
    say_next(app, stored)
    app.say(f"kept as {stored.trial}; the machine is as before: `ktrial status`")
    if broken:
        raise GuardTripped(f"a guard is broken: {broken[0]}")
    return 0


def broken_guards(found: Comparison) -> list[str]:
    """What is surely worse by more than its guard allows."""
    contrasts = [contrast for outcome in found.outcomes for contrast in outcome.contrasts]
    return [one.sentence for contrast in contrasts for one in contrast.findings if one.kind == "guard-broken"]


def told(app: App, stored: StoredTrial) -> Comparison:
    """A trial of the store as a comparison."""
    from ktrial.services.trial_recheck import told_again

    return told_again(kept_trial(app, stored), app.store, app.benchmarks, app.catalog)


def kept_trial(app: App, stored: StoredTrial) -> KeptTrial:
    """A trial of the store with its log."""
    kept = app.trials.named(stored.trial)
    assert kept is not None, "it was found a moment ago"
    return kept


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
    from ktrial.services.trial_prepare import found_values
    from ktrial.services.trial_summary import judgement_of

    log = app.trials.log(stored.trial)
    if judgement_of(log).next.action == "stop" and isinstance(log[-1], Ended):
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
    refuse_changed(stored, found_values(ready.plans))
    rig = rig_of(app, ready)
    protocol = log[0]
    assert isinstance(protocol, Protocol), "a log begins with its protocol"
    listen = TrialProgress(app.clock, as_json=as_json)
    with app.interrupts, listen:
        listen.announce(ready, protocol, judgement_of(log))
        interrupted = _to_its_end(app, stored, ready, rig, listen, as_json=as_json)
    return finish(app, stored, interrupted=interrupted, as_json=as_json)


def extend_trial(app: App, stored: StoredTrial, blocks: int, *, allow_dangerous: bool, as_json: bool) -> int:
    """Go on beyond the end of a trial that had declared it."""
    from ktrial.domain.trial_log import Extended
    from ktrial.services.trial_summary import extendable

    extendable(stored.trial, app.trials.log(stored.trial), blocks)
    app.lock_runs()
    app.trials.append(stored.trial, [Extended(blocks=blocks)])
    return resume_trial(app, stored, allow_dangerous=allow_dangerous, as_json=as_json)


def write_report(found: Comparison, path: Path) -> None:
    """One HTML file."""
    from ktrial.cli.comparison_file import write_file
    from ktrial.report.html import html_page

    write_file(path, html_page(found).encode())


def recheck_trial(app: App, stored: StoredTrial) -> list[str]:
    """Everything of which a trial of the store can be convicted: by its log, its records and their raw output."""
    from ktrial.services.reparse import BROKEN, reparse
    from ktrial.services.trial_recheck import trial_differences

    found = [f"{one.where}: {one.told}" for one in trial_differences(kept_trial(app, stored), app.store)]
    for run in reparse([stored.session], app.store, app.benchmarks):
        broken = [run.unread] if run.unread is not None and run.unread.startswith(BROKEN) else []
        found += [f"run {run.run}, {run.benchmark}: {change}" for change in (*run.changes, *broken)]
    return found
