# SPDX-License-Identifier: Apache-2.0
"""Noise profiles: blocks that compare the control with itself, measured once per benchmark and machine."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from ktrial.judge.model.log import BlockVoided, Event, Protocol, RunEnded, TrialArm, TrialLog
from ktrial.judge.model.noise_profile import NoiseProfile, ProfileKey
from ktrial.kit.errors import KtrialError
from ktrial.machine.facts import FactBook

#: Blocks of a profile, with two runs each.
BLOCKS = 10
_FIRST, _SECOND = "first", "second"
#: Cap and error rate of a pilot: its first look is after its last block, so that no verdict ends it early.
_CAP, _ALPHA = 12, 0.0025


def profile_key(
    suite: str, machine: str, versions: Mapping[str, str | None], facts: FactBook, visits: str = "run"
) -> ProfileKey:
    """Return the conditions for which a profile measured now will be valid."""
    return ProfileKey(
        machine=machine,
        suite=suite,
        tool_versions={label: version or "not told" for label, version in versions.items()},
        kernel_release=str(facts.value("kernel.release")),
        governor=facts.value("cpufreq.governor"),
        visits=visits,
    )


def usable(profiles: Sequence[NoiseProfile], key: ProfileKey, now_unix_ms: int) -> NoiseProfile | None:
    """Return the newest profile that is valid under these conditions now."""
    return next((one for one in profiles if not one.why_stale(key, now_unix_ms)), None)


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

    It has, for each outcome, the second visit's score minus the first's in each block.
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
            hint="make sure that nothing else changes the machine, then start again",
        )
    if trial.protocol.primary not in differences:
        raise KtrialError(
            f"only {len(trial.complete)} of {BLOCKS} blocks of the noise profile gave {trial.protocol.primary}",
            hint="`ktrial bench` shows why it fails; --no-profile skips the noise profile",
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
    """Discards the log of a pilot; only the resulting profile is kept."""

    def append(self, trial: str, events: Sequence[Event]) -> None: ...
