# SPDX-License-Identifier: Apache-2.0
"""Runs a prepared trial: measures its noise, stores its protocol, and makes its blocks to the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ktrial.bench.record import Earlier, Session
from ktrial.judge.model.judgement import Judgement
from ktrial.judge.model.log import Event, Looked, Protocol
from ktrial.judge.model.noise_profile import NoiseProfile, ProfileKey
from ktrial.kit.errors import AgentError, KtrialError
from ktrial.machine.facts import FactBook, machine_of
from ktrial.trial.arms.commands import Beside, BuildSite, CommandedArms
from ktrial.trial.arms.manual import is_by_hand
from ktrial.trial.arms.plan_arms import found_values
from ktrial.trial.arms.scheduler import SchedulerSeat
from ktrial.trial.outcome.scope import refuse_elsewhere
from ktrial.trial.protocol import noise_profile as noise
from ktrial.trial.protocol.forecast import TrialForecast, forecast_of, planned_runs, trial_seconds
from ktrial.trial.protocol.protocol import outcomes_around, protocol_of
from ktrial.trial.record import StoredTrial, changed_arms, protocol_sha256
from ktrial.trial.run.boots import cut_off
from ktrial.trial.run.events import NoiseBegan, TrialListener, VisitWaits
from ktrial.trial.run.guards import limits_watched, refuse_changed, writers
from ktrial.trial.run.loop import Standing, TrialLoop, VisitMaker
from ktrial.trial.run.manual_visits import VisitTurn
from ktrial.trial.run.ports import TrialWorld
from ktrial.trial.run.prepare import Prepared, Rig, control_tasks, order_of, session_for, workload_of
from ktrial.trial.run.records import untold
from ktrial.trial.run.visits import MachineVisits
from ktrial.trial.unattended.visits import Replayed, Unattended, UnattendedVisits
from ktrial.tuning.plans.wait_for_lock import PatientMachine


class CarriedOut(NamedTuple):
    """The judgement at which a trial stopped, and whether somebody interrupted the trial.

    If the trial pauses while the machine makes blocks by itself, `sent_s` is how long these blocks take. If it pauses
    because the machine is in use, `in_use` states the use.
    """

    judgement: Judgement
    interrupted: bool
    sent_s: float | None = None
    in_use: str | None = None


def changed_arm(stored: StoredTrial, ready: Prepared) -> str | None:
    """Return the first arm that has changed since the trial began; None if there is none.

    Raise Refused if a value that an arm changes was different at the start of the trial.
    """
    if changed := changed_arms(stored.arms, ready.arms):
        return changed[0]
    refuse_changed(stored, found_values(ready.plans))
    return None


class Planned(NamedTuple):
    """The protocol for the judge. `cap_s` is how long the trial takes to its cap, null if unknown.

    `forecast` says what the trial can detect; it is null without a noise profile.
    """

    protocol: Protocol
    forecast: TrialForecast | None
    cap_s: float | None


def planned(
    world: TrialWorld,
    ready: Prepared,
    rig: Rig,
    listen: TrialListener,
    *,
    profile: bool = False,
    run_s: float | None = None,
) -> Planned:
    """Return the plan of a trial. With `profile`, ktrial plans from this machine's noise.

    ktrial measures the noise first if no profile is stored and the trial is long enough for that. Without a noise
    profile the cap is the budget. `run_s` is the approximate time of a run, if known.
    """
    gates = order_of(ready).gates
    fixed = ready.file.design.runs_per_visit
    around = outcomes_around(ready.suite, rig.around.counters)
    protocol = protocol_of(ready.file, ready.tasks, gates, ready.seed, None, fixed or 1, around)
    made = None
    if profile and protocol.outcomes[protocol.primary].scale == "log":
        made = _stored_profile(world, profile_key_of(ready, rig, protocol), protocol)
        if made is None and noise.is_worth(protocol):
            made = measure_noise(world, ready, rig, protocol, listen, run_s=run_s)
    if made is None:
        return Planned(protocol, None, trial_seconds(protocol, run_s, ready.settle_s))
    switch_s = ready.settle_s + (made.build_s or 0.0)
    runs = fixed or planned_runs(made, protocol.primary, switch_s)
    protocol = protocol_of(ready.file, ready.tasks, gates, ready.seed, made, runs, around)
    return Planned(protocol, forecast_of(protocol, made, switch_s), trial_seconds(protocol, made.run_s, switch_s))


def profile_key_of(ready: Prepared, rig: Rig, protocol: Protocol) -> ProfileKey:
    """Return the conditions under which a noise profile of this trial's benchmark is valid now."""
    versions = rig.benchmarked.versions
    return noise.profile_key(workload_of(ready), machine_of(ready.facts), versions, ready.facts, protocol.replicate)


def _stored_profile(world: TrialWorld, key: ProfileKey, protocol: Protocol) -> NoiseProfile | None:
    found = noise.usable(world.trials.profiles(key.suite, key.machine), key, world.clock.unix_ms())
    return found if found is not None and protocol.primary in found.differences else None


def measure_noise(  # noqa: PLR0913 (everything that it needs from outside)
    world: TrialWorld,
    ready: Prepared,
    rig: Rig,
    protocol: Protocol,
    listen: TrialListener,
    *,
    run_s: float | None = None,
    fresh: bool = False,
    is_alone: bool = False,
) -> NoiseProfile:
    """Measure and store the noise of the control. Continue an interrupted measurement unless `fresh` is true.

    `is_alone` means that the trial of `protocol` does not follow.
    """
    key = profile_key_of(ready, rig, protocol)
    plan = noise.plan_of(key, protocol.primary, ready.facts.value("boot.id"))
    control = ready.file.control
    standing = _noise_standing(world, ready, noise.pilot_protocol(protocol), plan, fresh=fresh)
    pilot = standing.protocol
    done = sum(isinstance(event, Looked) for event in standing.log)
    left = trial_seconds(pilot, run_s, ready.settle_s, noise.BLOCKS - done)
    then = 0 if is_alone else len(protocol.arms) * (protocol.cap or protocol.budget)
    listen(NoiseBegan(blocks=noise.BLOCKS, done=done, expected_s=left, trial_visits=then))
    visits = MachineVisits(
        standing,
        msgspec.structs.replace(rig.benchmarked, tasks=control_tasks(ready), own={}),
        {arm.name: ready.arms[control].environment for arm in pilot.arms},
        arms_for(world, ready, pilot.name, listen, {arm.name: control for arm in pilot.arms}),
        rig.maker,
        rig.around,
        world.run_store,
        world.clock,
        ready.facts,
        listen,
        ready.settle_s,
    )
    loop = TrialLoop(standing, visits, listen, most_blocks=noise.BLOCKS)
    loop.carry_out()
    if loop.interrupted:
        raise KeyboardInterrupt(world.interrupts.number)
    made = noise.profile_of(standing.log, key, world.clock.unix_ms(), visits.pace.run_s, visits.pace.build_s)
    world.trials.keep_profile(made)
    return made


def _noise_standing(world: TrialWorld, ready: Prepared, pilot: Protocol, plan: str, *, fresh: bool) -> Standing:
    """Return the state of an interrupted measurement of the noise, or the state of a new measurement."""
    earlier = None if fresh else world.run_store.earlier(plan)
    if earlier is not None:
        pilot = msgspec.structs.replace(pilot, seed=earlier.session.seed)
        log = noise.earlier_log(pilot, earlier.records, [task.label for task in control_tasks(ready)])
        # A complete measurement has led to a profile that is no longer valid.
        if sum(isinstance(event, Looked) for event in log) < noise.BLOCKS:
            return _standing(pilot.name, earlier, log)
    begun = Earlier(session=session_for(world, ready), records=(), next_run=1)
    world.run_store.begin(begun.session, plan)
    return _standing(pilot.name, begun, [msgspec.structs.replace(pilot, seed=begun.session.seed)])


def _standing(pilot: str, earlier: Earlier, log: list[Event]) -> Standing:
    return Standing(
        trial=pilot,
        protocol_sha256="",
        session=earlier.session,
        log=log,
        records=list(earlier.records),
        next_run=earlier.next_run,
        logs=noise.NoLog(),
    )


def arms_for(
    world: TrialWorld, ready: Prepared, trial: str, listen: TrialListener, names: Mapping[str, str]
) -> CommandedArms:
    """Return the arms of one `TrialLoop`; `names` maps their names to arms of the protocol."""
    has_build = any(one.build is not None for one in ready.extras.values())
    has_scheduler = any(one.scheduler is not None for one in ready.extras.values())
    return CommandedArms(
        ready.root and PatientMachine(ready.root, world.clock, lambda waiting: listen(VisitWaits(waiting=waiting))),
        {name: ready.plans[arm] for name, arm in names.items()},
        writers(world, ready.root),
        Beside(
            trial=trial,
            extras={name: ready.extras[arm] for name, arm in names.items() if arm in ready.extras},
            executor=world.executor,
            journal=world.measuring_place.commands,
            seat=SchedulerSeat(world.looking_session, world.executor, world.clock) if has_scheduler else None,
            site=BuildSite(world.executor, world.look_at_file) if has_build else None,
        ),
    )


def begin(
    world: TrialWorld, ready: Prepared, protocol: Protocol, found: Mapping[str, str] | None = None
) -> StoredTrial:
    """Store the protocol, which is fixed from now on.

    `found` has the control's values of all changed addresses; by default these are the values in the plans.
    """
    file = msgspec.structs.replace(ready.file, design=msgspec.structs.replace(ready.file.design, seed=ready.seed))
    digest = protocol_sha256(file, protocol, ready.arms)
    session = session_for(world, ready)
    world.run_store.begin(session, digest)
    stored = StoredTrial(
        trial=f"{ready.file.name}-{session.session.rpartition('-')[2]}",
        session=session.session,
        protocol_sha256=digest,
        started_unix_ms=world.clock.unix_ms(),
        file=file,
        arms=ready.arms,
        settle_s=ready.settle_s,
        machine=machine_of(ready.facts),
        found=found_values(ready.plans) if found is None else found,
    )
    world.trials.begin(stored, protocol)
    return stored


def take_up(
    world: TrialWorld,
    stored: StoredTrial,
    benchmarks: Sequence[str],
    *,
    boots_end: bool,
    check: Callable[[Session], None] = lambda _: None,
) -> Standing:
    """Return the state of a trial, after logging what a killed ktrial had not logged yet.

    `check` refuses a session that cannot continue here. With `boots_end`, an unfinished visit makes its block void if
    its boot or build is over. Raise KtrialError while another process runs the trial.
    """
    earlier = world.run_store.of_session(stored.session)
    if earlier is None:
        raise KtrialError(
            f"cannot resume {stored.trial}: another ktrial process is running it",
            hint="wait for that process, or stop it",
        )
    check(earlier.session)
    log = list(world.trials.log(stored.trial))
    late = untold(log, earlier.records, benchmarks)
    if boots_end and (void := cut_off([*log, *late], earlier.records, None)) is not None:
        late.append(void)
    if late:
        world.trials.append(stored.trial, late)
    return Standing(
        trial=stored.trial,
        protocol_sha256=stored.protocol_sha256,
        session=earlier.session,
        log=[*log, *late],
        records=list(earlier.records),
        next_run=earlier.next_run,
        logs=world.trials,
    )


def carry_on(
    world: TrialWorld,
    stored: StoredTrial,
    ready: Prepared,
    rig: Rig,
    listen: TrialListener,
    turn: VisitTurn | None = None,
    unattended: Unattended | None = None,
) -> CarriedOut:
    """Run the trial from its current state until it ends or somebody interrupts it.

    With a `turn`, make only the visits of the turn. With `unattended`, the machine makes the visits by itself.
    """

    def visits_of(standing: Standing) -> VisitMaker:
        if rig.around.gates is not None:
            rig.around.gates.take_up(standing.records)
        return _visits(world, stored, ready, rig, standing, listen, turn, unattended)

    return carry_on_with(world, stored, ready, listen, visits_of)


def carry_on_with(
    world: TrialWorld,
    stored: StoredTrial,
    ready: Prepared,
    listen: TrialListener,
    visits_of: Callable[[Standing], VisitMaker],
) -> CarriedOut:
    """Run the trial with the visits that `visits_of` makes, until it ends or somebody interrupts it."""
    standing = take_up(
        world,
        stored,
        [task.label for task in ready.tasks],
        boots_end=not is_by_hand(stored.file),
        check=lambda session: refuse_elsewhere(stored.trial, session, ready.facts),
    )
    visits = visits_of(standing)
    loop = TrialLoop(standing, visits, listen)
    world.trials.hold()
    with limits_watched(world, ready.file):
        try:
            judgement = loop.carry_out()
            if isinstance(visits, UnattendedVisits):
                return CarriedOut(judgement, loop.interrupted, visits.sent_s, visits.in_use)
            return CarriedOut(judgement, loop.interrupted)
        except AgentError as error:
            if error.kind != "lost":
                raise
            hint = f"run `ktrial recover && ktrial trial resume {stored.trial}` to restore the settings and continue"
            raise AgentError(error.kind, error.message, hint=hint) from None


def _visits(  # noqa: PLR0913, PLR0917 (everything that it needs from outside)
    world: TrialWorld,
    stored: StoredTrial,
    ready: Prepared,
    rig: Rig,
    standing: Standing,
    listen: TrialListener,
    turn: VisitTurn | None,
    unattended: Unattended | None,
) -> VisitMaker:
    """Return the maker of visits: this process, or with `unattended` the machine by itself."""
    environments = {name: arm.environment for name, arm in ready.arms.items()}
    keeps_states = ready.file.screen is None
    arms = arms_for(world, ready, stored.trial, listen, {name: name for name in ready.plans})
    live = MachineVisits(
        standing,
        rig.benchmarked,
        environments,
        arms,
        rig.maker,
        rig.around,
        world.run_store,
        world.clock,
        ready.facts,
        listen,
        stored.settle_s,
        ready.file.time_s,
        keeps_states=keeps_states,
        turn=turn,
    )
    if unattended is None:
        return live

    def of_log(replayed: Replayed, facts: FactBook) -> MachineVisits:
        return MachineVisits(
            standing,
            rig.benchmarked,
            environments,
            replayed.arms,
            replayed.maker,
            replayed.around,
            world.run_store,
            replayed.clock,
            facts,
            listen,
            stored.settle_s,
            keeps_states=keeps_states,
        )

    return UnattendedVisits(world, stored, ready, rig, unattended, standing, live, arms, listen, of_log)
