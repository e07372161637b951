# SPDX-License-Identifier: Apache-2.0
"""Noise profiles: blocks that compare the control with itself, measured once per benchmark and machine."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from ktrial.bench.record import RunRecord
from ktrial.judge.model.log import (
    BlockDrawn,
    BlockVoided,
    Event,
    Looked,
    Protocol,
    RunEnded,
    TrialArm,
    TrialLog,
    block_order,
)
from ktrial.judge.model.noise_profile import NoiseProfile, ProfileKey
from ktrial.kit.errors import KtrialError
from ktrial.machine.facts import FactBook
from ktrial.trial.run.records import untold

#: Blocks of a profile, with two visits each.
BLOCKS = 10
VISITS = 2 * BLOCKS
#: ktrial measures a profile for a trial only if this costs at most this share of the trial's visits to its cap.
_WORTH_SHARE = 0.25
_FIRST, _SECOND = "first", "second"
#: Cap and error rate of a pilot. Its first look is after its last block, so that no verdict ends the pilot early.
_CAP, _ALPHA = 12, 0.0025


def profile_key(
    suite: str, machine: str, versions: Mapping[str, str | None], facts: FactBook, visits: str = "run"
) -> ProfileKey:
    """Return the conditions under which a profile measured now will be valid."""
    return ProfileKey(
        machine=machine,
        suite=suite,
        tool_versions={label: version or "not told" for label, version in versions.items()},
        kernel_release=str(facts.value("kernel.release")),
        governor=facts.value("cpufreq.governor"),
        visits=visits,
    )


def usable(profiles: Sequence[NoiseProfile], key: ProfileKey, now_unix_ms: int) -> NoiseProfile | None:
    """Return the newest profile that is valid under these conditions now; None if no profile is valid."""
    return next((one for one in profiles if not one.why_stale(key, now_unix_ms)), None)


def is_worth(trial: Protocol) -> bool:
    """Return whether a trial without a noise profile should begin by measuring one.

    A profile can lower the cap and lets a huge effect end the trial after four blocks, but costs twenty runs. A fixed
    trial makes all its blocks anyway.
    """
    if trial.fixed:
        return False
    cap = trial.budget if trial.cap is None else trial.cap
    return _WORTH_SHARE * cap * len(trial.arms) >= VISITS


def plan_of(key: ProfileKey, primary: str, boot: str | None) -> str:
    """Return a hash of what a profile measures. Only an interrupted measurement with the same hash can be resumed."""
    return hashlib.sha256(msgspec.json.encode(("noise", key, primary, boot), order="sorted")).hexdigest()


def earlier_log(pilot: Protocol, records: Sequence[RunRecord], benchmarks: Sequence[str]) -> list[Event]:
    """Return the log of an interrupted pilot, made from its records. The protocol's seed gives the order of each block.

    A block is void if it was incomplete when the next block began.
    """
    log: list[Event] = [pilot]
    arms = [arm.name for arm in pilot.arms]
    blocks = sorted({place.block for one in records if (place := one.trial) is not None and place.block is not None})
    for block in blocks:
        log.append(BlockDrawn(block=block, order=block_order(pilot.seed, block, arms)))
        made = untold(log, [one for one in records if one.trial is not None and one.trial.block == block], benchmarks)
        log += made
        if any(isinstance(one, BlockVoided) for one in made):
            continue
        if len([one for one in made if isinstance(one, RunEnded)]) == len(arms):
            log.append(Looked(blocks=sum(isinstance(one, Looked) for one in log) + 1, verdicts={}))
        elif block != blocks[-1]:
            log.append(BlockVoided(block=block, arm=pilot.control, cause="knob", reason="a setting changed"))
    return log


def pilot_protocol(trial: Protocol) -> Protocol:
    """Return the protocol of a pilot: the trial's benchmark with two equal arms."""
    outcomes = {
        name: rule if name == trial.primary else msgspec.structs.replace(rule, role="exploratory")
        for name, rule in trial.outcomes.items()
    }
    return Protocol(
        name=f"noise of {trial.name}",
        arms=(TrialArm(name=_FIRST), TrialArm(name=_SECOND, placebo=True)),
        control=_FIRST,
        outcomes=outcomes,
        cap=_CAP,
        alpha=_ALPHA,
        seed=trial.seed,
        runs_per_visit=1,
        gates=trial.gates,
    )


def profile_of(
    log: TrialLog, key: ProfileKey, now_unix_ms: int, run_s: float | None = None, build_s: float | None = None
) -> NoiseProfile:
    """Return the profile from a pilot's log.

    For each outcome and block, the profile contains the second visit's score minus the first visit's score. Raise
    KtrialError if the pilot has too few blocks with the primary outcome.
    """
    from ktrial.judge.collect_log import collect, visit_scores

    trial = collect(log)
    differences = {}
    for outcome in trial.protocol.outcomes:
        scores = visit_scores(trial, outcome)
        values = [
            visits[order[1]] - visits[order[0]]
            for block, visits in scores.items()
            if len(visits) == 2 and (order := trial.drawn[block].order)
        ]
        if len(values) >= BLOCKS and all(map(math.isfinite, values)):
            differences[outcome] = tuple(values)
    if trial.protocol.primary not in differences and trial.voids:
        voided = next(event for event in log if isinstance(event, BlockVoided))
        raise KtrialError(
            f"{len(trial.voids)} of {len(trial.drawn)} blocks of the noise profile are void: "
            f"{shortened(voided.reason)}",
            hint="remove the cause, or start the trial with --no-profile",
        )
    if trial.protocol.primary not in differences:
        raise KtrialError(
            f"only {len(trial.complete)} of {BLOCKS} blocks of the noise profile gave {trial.protocol.primary}",
            hint="run `ktrial bench` to see why, or start the trial with --no-profile",
        )
    return NoiseProfile(
        key=key,
        made_unix_ms=now_unix_ms,
        differences=differences,
        events=_events(trial.runs),
        run_s=run_s,
        build_s=build_s,
    )


def _events(runs: Sequence[RunEnded]) -> dict[str, int]:
    counts: dict[str, list[int]] = {}
    for run in runs:
        for outcome, count in run.events.items():
            counts.setdefault(outcome, []).append(count)
    return {outcome: int(statistics.median(held)) for outcome, held in counts.items()}


def shortened(reason: str) -> str:
    first, *more = reason.split("; ")
    return f"{first}, and {len(more)} more" if more else first


class NoLog:
    """Discards the log of a pilot, because ktrial stores only the resulting profile."""

    def append(self, trial: str, events: Sequence[Event]) -> None: ...
