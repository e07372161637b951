# SPDX-License-Identifier: Apache-2.0
"""The judge of a screening, a trial that searches for the responsible setting: suspects so far and the next block."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ktrial.judge import validity_checks
from ktrial.judge.collect_log import Scores, Trial, visit_scores
from ktrial.judge.model.judgement import Coefficient, Judgement, NextStep, Screened
from ktrial.judge.model.log import Protocol, Screen
from ktrial.judge.screening import (
    CAP,
    FIRST_LOOK,
    Direction,
    Signs,
    arm_of,
    arms_of,
    coefficients,
    configuration,
    last_look,
    on_in,
    screen,
)
from ktrial.kit.errors import BadInput
from ktrial.kit.finding import Finding

#: A screening ends when at least this many blocks, and at least half of them, have a failed run.
_FAILED_BLOCKS = 6
_MOST_BLOCKS = 1.5
_DIRECTIONS: Mapping[str, Direction] = {"better": 1, "worse": -1, "either": 0}


class _Halves(NamedTuple):
    """The blocks in which both halves have the outcome: which settings were on, and the difference of the halves."""

    signs: Signs
    differences: list[float]


def screened_arms(settings: int, seed: int, cap: int) -> tuple[str, ...]:
    """Return every arm that a search for suspects may need, also in blocks that replace void blocks."""
    return arms_of(settings, seed, math.ceil(_MOST_BLOCKS * cap))


def refuse_screening(protocol: Protocol) -> None:
    """Raise BadInput for a search for suspects that could not name a setting, or that lacks an arm of a block."""
    screening = _screen_of(protocol)
    cap = protocol.cap
    if cap is None or not FIRST_LOOK <= cap <= CAP:
        raise BadInput(
            f"cap: expected {FIRST_LOOK} to {CAP} blocks for a search for suspects, got {cap}",
            hint="correct cap in the protocol",
        )
    if protocol.outcomes[protocol.primary].scale == "count":
        hint = "choose an outcome that is a time or a rate"
        raise BadInput(f"`ktrial blame` cannot use {protocol.primary}: it is a counter that may be zero", hint=hint)
    if len(screening.settings) < 2:
        raise BadInput("`ktrial blame` needs at least two settings", hint="use `ktrial try` for a single setting")
    missing = set(screened_arms(len(screening.settings), protocol.seed, cap)) - {arm.name for arm in protocol.arms}
    if missing:
        raise BadInput(
            f"the search for suspects lacks the arm {min(missing)}", hint="run `ktrial blame`, which makes all arms"
        )


def judge_screening(trial: Trial) -> Judgement:
    """Return the suspected settings by outcome; the primary outcome decides when to stop."""
    protocol = trial.protocol
    screened = tuple(_screened(trial, outcome) for outcome in protocol.outcomes)
    findings = _findings(trial)
    return Judgement(
        cap=protocol.cap,
        comparisons=0,
        blocks=len(trial.complete),
        voided=len(trial.voids),
        judged=(),
        dropped=(),
        findings=tuple(findings),
        next=_next_step(trial, screened, findings),
        screened=screened,
    )


def _screen_of(protocol: Protocol) -> Screen:
    assert protocol.screen is not None, "only screenings are judged here"
    return protocol.screen


def _screened(trial: Trial, outcome: str) -> Screened:
    protocol = trial.protocol
    screening = _screen_of(protocol)
    is_primary = outcome == protocol.primary
    direction = _DIRECTIONS[screening.known] if is_primary else 0
    others = 1 if is_primary else max(1, len(protocol.outcomes) - 1)
    measured = _halves_of(visit_scores(trial, outcome), len(screening.settings))
    blocks = last_look(len(measured.differences))
    found: tuple[Coefficient, ...] = ()
    if blocks:
        signs, differences = measured.signs[:blocks], measured.differences[:blocks]
        named = screen(signs, differences, direction, others).named
        rows = coefficients(signs, differences, named, direction, others)
        found = tuple(
            Coefficient(setting=name, effect=effect, low=low, high=high, named=place in named)
            for place, (name, (effect, low, high)) in enumerate(zip(screening.settings, rows, strict=True))
        )
    return Screened(outcome=outcome, role=protocol.outcomes[outcome].role, blocks=blocks, coefficients=found)


def _halves_of(scores: Scores, settings: int) -> _Halves:
    rows, differences = [], []
    for visits in scores.values():
        if len(visits) == 2 and all(map(math.isfinite, visits.values())):
            arm, other = sorted(visits)
            on = on_in(arm, settings)
            rows.append([1 if place in on else -1 for place in range(settings)])
            differences.append(visits[arm] - visits[other])
    return _Halves(np.array(rows, dtype=np.int8).reshape(-1, settings), differences)


def _failed_blocks(trial: Trial) -> int:
    primary = trial.protocol.primary
    failed = {run.block for run in trial.runs if primary not in run.measurements}
    return len(failed & set(trial.complete))


def _findings(trial: Trial) -> list[Finding]:
    protocol = trial.protocol
    found = validity_checks.identity([(run.arm, run.identity) for run in trial.runs], protocol.varies)
    different = validity_checks.another([(run.arm, run.failure) for run in trial.runs])
    found += [different] if different else []
    knob = validity_checks.knob_voids([void.reason for void in trial.voids.values() if void.cause == "knob"])
    found += [knob] if knob else []
    failing = _fails_with(trial)
    return [*found, failing] if failing else found


def _fails_with(trial: Trial) -> Finding | None:
    settings = _screen_of(trial.protocol).settings
    primary = trial.protocol.primary
    failed = [set(on_in(run.arm, len(settings))) for run in trial.runs if primary not in run.measurements]
    if len(failed) < _FAILED_BLOCKS:
        return None
    fine = [set(on_in(run.arm, len(settings))) for run in trial.runs if primary in run.measurements]
    guilty = sorted(set.intersection(*failed) - set.union(set(), *fine))
    names = ", ".join(settings[place] for place in guilty)
    common = f"all of them, and no other runs, have {names} on" if names else "no setting is on in exactly these"
    return Finding(kind="fails-with", level="suspect", sentence=f"{len(failed)} runs failed: {common}")


def _next_step(trial: Trial, screened: tuple[Screened, ...], findings: list[Finding]) -> NextStep:
    protocol, blocks = trial.protocol, len(trial.complete)
    cap = protocol.cap or CAP
    refused = next((one for one in findings if one.level == "refuse"), None)
    (primary,) = (one for one in screened if one.role == "primary")
    failed = _failed_blocks(trial)
    block = max(trial.drawn, default=0) + 1
    reason = None
    if trial.ended is not None:
        reason = trial.ended
    elif refused is not None:
        reason = refused.sentence
    elif trial.unfinished is None and primary.named and primary.blocks == blocks - failed:
        reason = "suspects are found"
    elif blocks - failed >= cap or block > math.ceil(_MOST_BLOCKS * cap):
        reason = "the cap was reached"
    elif failed >= _FAILED_BLOCKS and 2 * failed >= blocks:
        reason = f"{failed} of {blocks} blocks have a failed run"
    if reason is not None:
        return NextStep(action="stop", reason=reason)
    if trial.unfinished is not None:
        return _rest_of(trial)
    signs = configuration(len(_screen_of(protocol).settings), protocol.seed, block)
    here = {arm_of(signs), arm_of(-signs)}
    arms = tuple(arm.name for arm in protocol.arms if arm.name in here)
    return NextStep(action="go on", reason="no setting is named yet", block=block, arms=arms)


def _rest_of(trial: Trial) -> NextStep:
    begun = trial.unfinished
    assert begun is not None, "a block has begun"
    ran = Counter(run.arm for run in trial.runs if run.block == begun.block)
    left = tuple(arm for arm in begun.order if ran[arm] < trial.protocol.runs_per_visit)
    reason = f"block {begun.block} has begun"
    return NextStep(action="go on", reason=reason, block=begun.block, arms=left, drawn=True)
