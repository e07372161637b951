# SPDX-License-Identifier: Apache-2.0
"""Turns a written protocol into the judge's protocol: a rule for every outcome, the cap and the seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ktrial.bench import energy
from ktrial.bench.energy import EnergyCounter
from ktrial.bench.record import LOAD_THROUGHPUT
from ktrial.bench.suite import Suite, Task
from ktrial.judge.model.comparison import Role
from ktrial.judge.model.log import OutcomeRule, Protocol, TrialArm
from ktrial.judge.model.noise_profile import NoiseProfile
from ktrial.kit.errors import BadInput, Contradiction, UnknownName
from ktrial.kit.outcome import Outcome
from ktrial.kit.percentile import events_needed, events_text, longer, margin_of_tail, quantile_of
from ktrial.machine.gates import GateLimits
from ktrial.trial.arms.boot_arms import BOOT_TIME, times_boots
from ktrial.trial.protocol.file import COMPARED, TrialFile, share


class OutcomeCandidate(msgspec.Struct, frozen=True):
    """An outcome that the benchmark of a trial may produce."""

    name: str
    outcome: Outcome


def outcomes_around(suite: Suite, counters: Sequence[EnergyCounter] = ()) -> tuple[Outcome, ...]:
    """Return the outcomes that ktrial measures around every run: the background load's work, and energy."""
    load = () if suite.load is None else (LOAD_THROUGHPUT,)
    return (*load, *(outcome for counter in counters for outcome in energy.outcomes(counter.domain)))


def outcome_around(name: str) -> Outcome | None:
    """Return the outcome with this name that ktrial measures around every run; None if there is none."""
    known = (LOAD_THROUGHPUT, *energy.outcomes(name.partition(".")[2]))
    return next((outcome for outcome in known if outcome.name == name), None)


def candidates(tasks: Sequence[Task], around: Sequence[Outcome] = ()) -> tuple[OutcomeCandidate, ...]:
    """Return all outcomes of each task as `benchmark.outcome`, including outcomes that ktrial measures around runs."""
    return tuple(
        OutcomeCandidate(f"{task.label}.{outcome.name}", outcome)
        for task in tasks
        for outcome in (*task.benchmark.outcomes, *around)
    )


def protocol_of(
    trial: TrialFile,
    tasks: Sequence[Task],
    gates: Mapping[str, GateLimits],
    seed: int,
    profile: NoiseProfile | None,
    runs_per_visit: int,
    around: Sequence[Outcome] = (),
) -> Protocol:
    """Return the judge's protocol.

    Raise BadInput for a missing outcome or an unanswerable question. `around` contains outcomes that ktrial measures
    around every run, whatever the run measures.
    """
    from ktrial.judge.judge import refuse_unanswerable
    from ktrial.judge.screening import CAP as SCREENING_CAP
    from ktrial.judge.stats.critical import LOOKS

    found = candidates(tasks, around)
    roles = _roles(trial, found)
    outcomes = {
        one.name: _rule(trial, one, roles.get(one.name, "exploratory"))
        for one in sorted(found, key=lambda one: list(roles).index(one.name) if one.name in roles else len(roles))
    }
    cap = trial.design.cap
    if trial.screen is not None:
        cap = SCREENING_CAP if cap is None else cap
    elif cap is not None and not trial.race:
        cap = next((look for look in LOOKS if look >= cap), cap)
    differences = {} if profile is None else {name: profile.differences.get(name, ()) for name in outcomes}
    protocol = Protocol(
        name=trial.name,
        arms=_arms(trial),
        control=trial.control,
        outcomes=outcomes,
        cap=cap,
        budget=trial.budget,
        detect=trial.detect_share,
        alpha=trial.design.alpha,
        seed=seed,
        replicate=trial.design.replicate,
        runs_per_visit=runs_per_visit,
        questions=trial.questions,
        profile={name: values for name, values in differences.items() if values},
        gates=gates,
        varies=_varies(trial),
        until_all_decided=trial.design.until_all_decided,
        extend=trial.design.extend,
        pooled=bool(trial.design.pool),
        screen=trial.screen,
        fixed=trial.design.fixed or msgspec.UNSET,
        race=trial.race or msgspec.UNSET,
        adjust=_adjusts(trial),
    )
    protocol = _with_cap(protocol)
    refuse_unanswerable(protocol)
    if profile is not None:
        refuse_few_events(protocol, profile.events.get(protocol.primary))
    return protocol


def _adjusts(trial: TrialFile) -> tuple[str, ...] | msgspec.UnsetType:
    """Return the names of the covariates that a live trial is adjusted for."""
    if not trial.live or not trial.live.adjust:
        return msgspec.UNSET
    return trial.live.covariate_names


def refuse_few_events(protocol: Protocol, events: int | None) -> None:
    """Raise BadInput if the primary outcome is a percentile for which a run has too few events."""
    quantile = protocol.outcomes[protocol.primary].quantile
    if quantile is None or events is None or events >= events_needed(quantile):
        return
    benchmark = protocol.primary.rpartition(".")[0]
    nearer = [
        name
        for name, rule in protocol.outcomes.items()
        if name.rpartition(".")[0] == benchmark and rule.quantile and events >= events_needed(rule.quantile)
    ]
    raise BadInput(
        f"{protocol.primary} has too few events to decide: {events_text(events, quantile)}",
        hint=f"make {longer(events, quantile)}, or choose another primary outcome: "
        f"{', '.join(nearer) or 'one that is not a percentile'}",
    )


def _with_cap(protocol: Protocol) -> Protocol:
    """Return the protocol with a cap: planned from the noise profile, or else the whole budget."""
    if protocol.cap is not None:
        return protocol
    if protocol.outcomes[protocol.primary].scale == "count":
        return msgspec.structs.replace(protocol, cap=protocol.budget)
    from ktrial.judge.judge import largest_row, refuse_unanswerable
    from ktrial.judge.planning import forecast, largest_cap
    from ktrial.judge.primary_verdict import table_row

    differences = protocol.profile.get(protocol.primary)
    if differences is None:
        refuse_unanswerable(protocol)
        return msgspec.structs.replace(protocol, cap=largest_cap(protocol.budget, largest_row(protocol)))

    planned = forecast(
        differences,
        detect=protocol.detect,
        margin=protocol.outcomes[protocol.primary].margin,
        budget=protocol.budget,
        comparisons=table_row(protocol),
    )
    return msgspec.structs.replace(protocol, cap=planned.cap)


def _arms(trial: TrialFile) -> tuple[TrialArm, ...]:
    names = (trial.control, *(name for name in trial.arms if name != trial.control))
    real = [name for name in names if name != trial.control and not trial.arms[name].placebo]
    return tuple(TrialArm(name=name, placebo=trial.arms[name].placebo and bool(real)) for name in names)


def _roles(trial: TrialFile, found: Sequence[OutcomeCandidate]) -> dict[str, Role]:
    """Return the role of every outcome that the protocol names, the primary first."""
    roles: dict[str, Role] = {_refuse_single(_primary(trial, found), found): "primary"}
    named: list[tuple[Role, str]] = [("secondary", name) for name in trial.secondary]
    named += [("guard", name) for name in trial.guards]
    for role, name in named:
        full = _find(name, found)
        if roles.get(full) == role:
            raise Contradiction(f"{full} is named twice as {role}", hint="name each outcome once")
        if full in roles:
            raise Contradiction(f"{full} is both {roles[full]} and {role}", hint="give each outcome one role")
        roles[full] = role
    for name in trial.margins:
        _find(name, found)
    return roles


def _primary(trial: TrialFile, found: Sequence[OutcomeCandidate]) -> str:
    if trial.primary is not None:
        return _find(trial.primary, found)
    if times_boots(trial):
        # The boot time is measured in addition to the outcomes that the trial is about.
        found = [one for one in found if not one.name.startswith(f"{BOOT_TIME}.")] or found
    headlines = [one.name for one in found if one.outcome.headline] or [one.name for one in found]
    if len(headlines) == 1:
        return headlines[0]
    listed = ", ".join(headlines[:8])
    raise BadInput(
        "cannot choose the primary outcome: several outcomes are candidates",
        hint=f"add --primary OUTCOME, or `primary` to the file, with one of: {listed}",
    )


def _refuse_single(primary: str, found: Sequence[OutcomeCandidate]) -> str:
    """Return the primary outcome.

    Raise BadInput for the largest event of a run, because it grows with the number of events.
    """
    outcome = next(one.outcome for one in found if one.name == primary)
    if outcome.kind == "latency-quantile" and outcome.name.rpartition("-")[2] == "max":
        raise BadInput(
            f"{primary} cannot be the primary outcome: it is the worst event of a run, and longer runs have worse ones",
            hint="use a percentile as the primary outcome; the worst event may be secondary",
        )
    return primary


def _find(name: str, found: Sequence[OutcomeCandidate]) -> str:
    exact = [one.name for one in found if one.name == name] or [one.name for one in found if one.outcome.name == name]
    if len(exact) == 1:
        return exact[0]
    if exact:
        raise BadInput(f"several benchmarks have an outcome {name!r}", hint=f"write one of: {', '.join(exact)}")
    names = [one.name for one in found]
    raise UnknownName("outcome", name, names, hint=f"use one of: {', '.join(names)}")


def _rule(trial: TrialFile, one: OutcomeCandidate, role: Role) -> OutcomeRule:
    outcome = one.outcome
    return OutcomeRule(
        direction=outcome.direction,
        role=role,
        margin=_margin(trial, one, role),
        scale="count" if outcome.kind == "count" else "log",
        resolution=outcome.resolution,
        quantile=_quantile(outcome),
    )


def _margin(trial: TrialFile, one: OutcomeCandidate, role: Role) -> float:
    keys = (one.name, one.outcome.name)
    for table in (trial.guards, trial.margins) if role == "guard" else (trial.margins,):
        for key in keys:
            if key in table:
                return share(table[key], key)
    if trial.margin is not None and role == "primary":
        return share(trial.margin, "margin")
    return margin_of_tail(_quantile(one.outcome))


def _quantile(outcome: Outcome) -> float | None:
    return quantile_of(outcome.name) if outcome.kind == "latency-quantile" else None


def _varies(trial: TrialFile) -> tuple[str, ...]:
    """Return the identities, such as the kernel, that the arms are meant to change."""
    varies = []
    sets = {knob.partition("@")[0] for arm in trial.arms.values() for knob in arm.set}
    expected = {fact for arm in trial.arms.values() for fact in arm.expect}
    if "cpufreq:scaling_governor" in sets or "cpufreq.governor" in expected:
        varies.append("governor")
    if trial.compares_commands:
        varies.append(f"{COMPARED} command")
    if any(arm.manual is not None or arm.kernel is not None for arm in trial.arms.values()):
        varies.append("kernel")
    return tuple(varies)
