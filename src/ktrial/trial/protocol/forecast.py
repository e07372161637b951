# SPDX-License-Identifier: Apache-2.0
"""Estimates what a trial will cost and can detect, before its first run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ktrial.bench.suite import Task
from ktrial.judge.model.log import Protocol
from ktrial.judge.model.noise_profile import NoiseProfile
from ktrial.machine.facts import FactBook


class TrialForecast(msgspec.Struct, frozen=True, kw_only=True):
    """Cost and power of a trial.

    Effects are relative: 0.05 is 5 %. `cap` blocks detect `smallest_effect` with 90 % power. To detect `wanted`, the
    trial needs `needed` blocks. `affordable` is the smallest budget with that many blocks, or null if there is none. If
    `wanted` is the true effect, the trial ends at about block `expected`. Seconds are null if the time of a run is
    unknown.
    """

    wanted: float
    smallest_effect: float
    cap: int
    needed: int
    affordable: int | None
    expected: int
    cap_s: float | None = None
    expected_s: float | None = None
    affordable_s: float | None = None

    @property
    def sees_enough(self) -> bool:
        return self.needed <= self.cap


#: Warm-up runs before the first block.
_WARM_UPS = 2


def planned_runs(profile: NoiseProfile, primary: str, settle_s: float) -> int:
    """Return the number of runs per visit: more than one if the wait before a visit is long compared with a run."""
    from ktrial.judge.planning import runs_per_visit

    if profile.run_s is None or not profile.run_s > 0:
        return 1
    return runs_per_visit(settle_s, profile.run_s, profile.run_sd.get(primary), profile.visit_sd.get(primary))


def forecast_of(protocol: Protocol, profile: NoiseProfile, settle_s: float) -> TrialForecast | None:
    """Return the forecast; None if the profile lacks the primary outcome, or the protocol has no cap."""
    from ktrial.judge.planning import (
        affordable_cap,
        block_sd,
        blocks_to_detect,
        expected_blocks,
        smallest_effect,
    )
    from ktrial.judge.primary_verdict import table_row

    differences = profile.differences.get(protocol.primary)
    if differences is None or protocol.cap is None:
        return None
    sd = block_sd(differences)
    needed = blocks_to_detect(sd, protocol.detect)
    affordable = affordable_cap(needed, table_row(protocol))
    expected = expected_blocks(sd, protocol.detect, protocol.cap)

    def seconds(blocks: int | None) -> float | None:
        return None if blocks is None else trial_seconds(protocol, profile.run_s, settle_s, blocks)

    return TrialForecast(
        wanted=protocol.detect,
        smallest_effect=smallest_effect(sd, protocol.cap),
        cap=protocol.cap,
        needed=needed,
        affordable=affordable,
        expected=expected,
        cap_s=seconds(protocol.cap),
        expected_s=seconds(expected),
        affordable_s=seconds(affordable),
    )


def trial_seconds(protocol: Protocol, run_s: float | None, settle_s: float, blocks: int | None = None) -> float | None:
    """Return how long the warm-up and `blocks` blocks take, by default all blocks up to the cap; None if unknown."""
    blocks = protocol.cap if blocks is None else blocks
    if run_s is None or blocks is None:
        return None
    visit_s = settle_s + protocol.runs_per_visit * run_s
    return _WARM_UPS * (settle_s + run_s) + blocks * len(protocol.arms) * visit_s


def expected_run_seconds(
    documents: Sequence[Mapping[str, Any]], tasks: Sequence[Task], command: Sequence[str], facts: FactBook
) -> float | None:
    """Return how long a run of these tasks takes, from each task's newest run or its benchmark's own estimate.

    Return None if a task has neither.
    """
    total_s = 0.0
    for task in tasks:
        took_s = last_run_seconds(documents, (task,), command)
        if took_s is None:
            took_s = task.benchmark.invocation(task.parameters, facts).expected_s
        if took_s is None:
            return None
        total_s += took_s
    return total_s


def last_run_seconds(
    documents: Sequence[Mapping[str, Any]], tasks: Sequence[Task], command: Sequence[str]
) -> float | None:
    """Return how long the newest runs of these tasks took in total; None if a task has no run with its parameters.

    `documents` are records of good runs, the newest first. `command` is the user's own command, or empty.
    """
    total_s = 0.0
    for task in tasks:
        took = [
            one["resources"]["wall_ns"]
            for one in documents
            if (one["benchmark"], one["parameters"]) == (task.label, task.parameters)
            and (not command or list(one["argv"])[1:] == list(command)[1:])  # the record has the resolved path
        ]
        if not took or took[0] is None:
            return None
        total_s += took[0] / 1e9
    return total_s
