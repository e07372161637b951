# SPDX-License-Identifier: Apache-2.0
"""Compute the verdicts on a trial and its next step, from its log alone.

Live trials, resumed trials, rechecks and simulations all call `judge`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from ktrial.judge import validity_checks
from ktrial.judge.collect_log import Pairs, Scores, Trial, collect, pairs_of, run_scores, visit_scores
from ktrial.judge.model.comparison import Role
from ktrial.judge.model.judgement import Judgement, NextStep, OutcomeJudgement
from ktrial.judge.model.log import OutcomeRule, Protocol, TrialLog, check_protocol
from ktrial.judge.other_roles import Member, MemberAnswer, family_size, read_family
from ktrial.judge.planning import FEWEST_BLOCKS, blocks_to_detect, cap_from_first_blocks
from ktrial.judge.primary_verdict import OutcomeReading, e_values, log_margin, read_primary, table_row
from ktrial.judge.race_judge import judge_race, refuse_race
from ktrial.judge.screening_judge import judge_screening, refuse_screening
from ktrial.judge.sequential import Array, looks, row_of, worth_it
from ktrial.kit.errors import BadInput
from ktrial.kit.finding import Finding
from ktrial.kit.percentile import FEW_EVENTS, events_needed, events_text, longer, typical_events
from ktrial.machine.gates import GateLimits, group_findings


def rests_on_few(trial: Trial, outcome: str, arms: Sequence[str]) -> bool:
    """Return whether a typical run of one of these arms has too few events for a verdict on this percentile."""
    quantile = trial.protocol.outcomes[outcome].quantile
    events = typical_events(_events(trial, outcome, arm) for arm in arms)
    return quantile is not None and events is not None and events < events_needed(quantile)


def few_events(trial: Trial) -> Iterator[Finding]:
    """Yield a finding for each percentile for which some run has too few events."""
    for outcome, rule in trial.protocol.outcomes.items():
        if rule.quantile is None:
            continue
        events = min((run.events[outcome] for run in trial.runs if outcome in run.events), default=None)
        if events is not None and events < events_needed(rule.quantile):
            sentence = f"{outcome}: too few events for this percentile ({events_text(events, rule.quantile)}); make "
            yield Finding(
                kind=FEW_EVENTS,
                level="suspect",
                sentence=sentence + longer(events, rule.quantile),
                values={"events": float(events), "needed": float(events_needed(rule.quantile))},
            )


def _events(trial: Trial, outcome: str, arm: str) -> list[int]:
    return [run.events[outcome] for run in trial.runs if run.arm == arm and outcome in run.events]


Contrast = tuple[str, str]
#: If failures keep a trial from its cap, it ends after this multiple of the cap.
_MOST_BLOCKS = 1.5
_FAMILIES: tuple[Role, ...] = ("secondary", "guard", "exploratory")


class _Stand(NamedTuple):
    """The trial with its scores and its cap (the maximum number of blocks), computed once."""

    trial: Trial
    scores: Mapping[str, Scores]
    cap: int | None

    @property
    def protocol(self) -> Protocol:
        return self.trial.protocol

    @property
    def has_blocks_left(self) -> bool:
        """Whether the trial has not ended and may make more blocks, up to its cap."""
        return self.trial.ended is None and (self.cap is None or len(self.trial.complete) < self.cap)

    def pairs(self, outcome: str, contrast: Contrast) -> Pairs:
        return pairs_of(self.scores[outcome], *contrast)


def judge(log: TrialLog) -> Judgement:
    """Return the judgement of a trial so far. Raise BadInput for a damaged log, or a protocol that cannot be judged."""
    trial = collect(log)
    refuse_unanswerable(trial.protocol)
    if trial.protocol.screen is not None:
        return judge_screening(trial)
    if trial.protocol.race:
        return judge_race(trial)
    stand = _stand(trial)
    judged = [_primary(stand, contrast) for contrast in trial.protocol.contrasts]
    is_over = all(one.verdict is not None for one in _deciding(judged))
    general = _general_findings(stand, is_over=is_over)
    judged += _families(stand, judged)
    if any(one.level == "refuse" for one in general):
        judged = [
            one if one.role == "exploratory" else replace(one, verdict="not comparable", why="check", worth=None)
            for one in judged
        ]
    dropped = _dropped(stand, judged)
    return Judgement(
        cap=stand.cap,
        comparisons=trial.protocol.comparisons,
        blocks=len(trial.complete),
        voided=len(trial.voids),
        judged=tuple(judged),
        dropped=dropped,
        findings=(*general, *_placebo_findings(judged)),
        next=_next_step(stand, judged, dropped),
    )


def refuse_unanswerable(protocol: Protocol) -> None:
    """Raise BadInput for a protocol with a question that no data could answer. Call this before the first run."""
    check_protocol(protocol)
    if protocol.screen is not None:
        refuse_screening(protocol)
        return
    if protocol.race:
        refuse_race(protocol)
        return
    try:
        _find_looks(protocol)
    except BadInput as error:
        raise BadInput(f"{error.message} ({_counting_rule(protocol)})", hint=error.hint) from None


def _find_looks(protocol: Protocol) -> None:
    if protocol.cap is None:
        cap_from_first_blocks([[0.0]], protocol.detect, protocol.budget, largest_row(protocol))
        return
    if protocol.outcomes[protocol.primary].scale == "log":
        looks(protocol.cap, table_row(protocol))
    for role in ("secondary", "guard"):
        if size := family_size(protocol, role):
            looks(protocol.cap, row_of(protocol.alpha, size))


def _counting_rule(protocol: Protocol) -> str:
    roles: tuple[Role, ...] = ("primary", "secondary", "guard")
    role = max(roles, key=lambda one: family_size(protocol, one))
    outcomes = len(protocol.of_role(role))
    each = protocol.comparisons
    counted = f"{outcomes} outcome{'s'[: outcomes != 1]} x {each} comparison{'s'[: each != 1]}"
    return f"{role}: {counted}, alpha = {protocol.alpha:g}"


def _stand(trial: Trial) -> _Stand:
    protocol = trial.protocol
    scores = {name: visit_scores(trial, name) for name in protocol.outcomes}
    cap = protocol.cap
    if cap is None:
        first = [
            pairs_of(scores[protocol.primary], *contrast).differences[:FEWEST_BLOCKS] for contrast in protocol.contrasts
        ]
        if all(len(values) == FEWEST_BLOCKS and np.isfinite(values).all() for values in first):
            cap = cap_from_first_blocks(
                [values.tolist() for values in first], protocol.detect, protocol.budget, largest_row(protocol)
            )
    return _Stand(trial, scores, cap)


def largest_row(protocol: Protocol) -> int:
    """Return the table row for the largest group of comparisons that share an error rate: it needs the most blocks."""
    sizes = [family_size(protocol, role) for role in ("secondary", "guard")]
    return max(table_row(protocol), *(row_of(protocol.alpha, size) for size in sizes))


def _deciding(judged: Sequence[OutcomeJudgement]) -> list[OutcomeJudgement]:
    """Return the primary judgements that decide when to stop; those of placebos only if there are no others."""
    primaries = [one for one in judged if one.role == "primary"]
    return [one for one in primaries if not one.placebo] or primaries


def _primary(stand: _Stand, contrast: Contrast) -> OutcomeJudgement:
    protocol = stand.protocol
    outcome = protocol.primary
    rule = protocol.outcomes[outcome]
    pairs = stand.pairs(outcome, contrast)
    if not pairs.finite:
        return _judge_outcome(stand, outcome, contrast, _not_comparable(len(pairs.arm)), (_no_scale(outcome, rule),))
    reading = read_primary(protocol, pairs, stand.cap)
    if protocol.fixed and stand.has_blocks_left:
        reading = reading._replace(verdict=None, why="open")
    if reading.verdict is not None and rests_on_few(stand.trial, outcome, contrast):
        reading = reading._replace(verdict="inconclusive", why="few-events")
    reading, findings = _with_failures(stand, contrast, reading)
    if reading.verdict is None:
        reading = _given_up(stand, reading)
    elif _goes_on(stand, reading):
        reading = reading._replace(verdict=None, why="open")
    if rule.scale == "count":
        return _judge_outcome(stand, outcome, contrast, reading, findings)
    used = pairs.differences[: reading.blocks]
    if reading.verdict is not None:
        findings = (*findings, *_contrast_findings(stand, contrast, used))
    judged = _judge_outcome(stand, outcome, contrast, reading, findings)
    may_be_found = reading.verdict == "inconclusive" and reading.why != "few-events"
    needed = _needed(used, protocol.detect) if may_be_found else None
    return replace(judged, e_values=e_values(protocol, used), needed=needed)


def _judge_outcome(
    stand: _Stand, outcome: str, contrast: Contrast, reading: OutcomeReading, findings: tuple[Finding, ...]
) -> OutcomeJudgement:
    rule = stand.protocol.outcomes[outcome]
    effect = reading.effect
    worth = None
    if effect is not None and effect.scale == "log" and effect.low is not None and effect.high is not None:
        worth = worth_it(reading.verdict, effect.estimate, effect.low, effect.high, log_margin(rule))
    arm, against = contrast
    return OutcomeJudgement(
        outcome=outcome,
        role=rule.role,
        arm=arm,
        against=against,
        placebo=any(one.placebo for one in stand.protocol.arms if one.name == arm),
        verdict=reading.verdict,
        why=reading.why,
        blocks=reading.blocks,
        effect=effect,
        worth=worth,
        counter=reading.counter,
        findings=findings,
    )


def _not_comparable(blocks: int) -> OutcomeReading:
    return OutcomeReading("not comparable", "check", blocks, None)


def _no_scale(outcome: str, rule: OutcomeRule) -> Finding:
    wrong = "zero, negative or not finite" if rule.scale == "log" else "negative or not finite"
    sentence = f"{outcome} has values that are {wrong}"
    if rule.scale == "log":
        sentence += ": declare it as a counter, or choose another outcome"
    return Finding(kind="no-scale", level="refuse", sentence=sentence)


def _with_failures(
    stand: _Stand, contrast: Contrast, reading: OutcomeReading
) -> tuple[OutcomeReading, tuple[Finding, ...]]:
    """Return the verdict corrected for failed runs.

    An arm that alone has failures is never better; with many failures it is worse.
    """
    arm, against = contrast
    failed = stand.trial.failed(stand.protocol.primary)
    found = validity_checks.failures(arm, against, failed)
    if found is None:
        return reading, ()
    is_ours = failed[arm] > 0
    if max(failed[arm], failed[against]) >= validity_checks.DECIDING_FAILURES:
        return reading._replace(verdict="worse" if is_ours else "better", why="failures"), (found,)
    if reading.verdict == ("better" if is_ours else "worse"):
        return reading._replace(verdict="inconclusive", why="failures"), (found,)
    return reading, (found,)


def _given_up(stand: _Stand, reading: OutcomeReading) -> OutcomeReading:
    """Return an undecided verdict as `inconclusive` if the trial has ended, or failures keep it from its cap."""
    if stand.trial.ended is not None:
        return reading._replace(verdict="inconclusive", why="ended")
    # If every block lacks a value, the cap is never planned.
    cap = stand.protocol.budget if stand.cap is None else stand.cap
    if len(stand.trial.complete) >= math.ceil(_MOST_BLOCKS * cap):
        return reading._replace(verdict="inconclusive", why="failures")
    return reading


def _goes_on(stand: _Stand, reading: OutcomeReading) -> bool:
    """Return whether an extended trial continues for a comparison that was inconclusive at the cap."""
    trial = stand.trial
    has_blocks = trial.extended is not None and trial.ended is None and len(trial.complete) < trial.extended
    return has_blocks and reading.verdict == "inconclusive" and reading.why in {"cap", "futility"}


def _needed(differences: Array, detect: float) -> int | None:
    """Return how many blocks `detect` needs, given the noise of this trial; None with fewer than two blocks."""
    if len(differences) < 2:
        return None
    spread = validity_checks.robust_sd(differences - np.median(differences)) or float(np.std(differences, ddof=1))
    return blocks_to_detect(spread, detect)


def _families(stand: _Stand, primaries: Sequence[OutcomeJudgement]) -> list[OutcomeJudgement]:
    protocol = stand.protocol
    found: list[OutcomeJudgement] = []
    for role in _FAMILIES:
        members = [
            Member(
                outcome,
                one.arm,
                one.against,
                protocol.outcomes[outcome],
                stand.pairs(outcome, (one.arm, one.against)),
                _is_over(stand, one),
            )
            for outcome in protocol.of_role(role)
            for one in _deciding(primaries)
        ]
        found += _judge_family(stand, role, members)
    return found


def _is_over(stand: _Stand, primary: OutcomeJudgement) -> bool:
    """Return whether a contrast gets no more blocks."""
    if primary.verdict is None:
        return False
    at_cap = stand.cap is None or len(stand.trial.complete) >= stand.cap
    return at_cap or stand.trial.ended is not None or not stand.protocol.until_all_decided


def _judge_family(stand: _Stand, role: Role, members: Sequence[Member]) -> list[OutcomeJudgement]:
    found: list[OutcomeJudgement] = []
    whole = [member for member in members if member.pairs.finite]
    for member in members:
        if not member.pairs.finite:
            reading = _not_comparable(len(member.pairs.arm))
            findings = (_no_scale(member.outcome, member.rule),)
            found.append(_judge_outcome(stand, member.outcome, (member.arm, member.against), reading, findings))
    if stand.cap is None:
        answers: Sequence[MemberAnswer] = [
            MemberAnswer(OutcomeReading("inconclusive" if one.over else None, "ended" if one.over else "open", 0, None))
            for one in whole
        ]
    else:
        answers = read_family(stand.protocol, role, whole, stand.cap)
    for member, answer in zip(whole, answers, strict=True):
        contrast = (member.arm, member.against)
        judged = _judge_outcome(stand, member.outcome, contrast, answer.reading, _broken(member, answer))
        found.append(replace(judged, guard=answer.guard, p=answer.p, p_adjusted=answer.p_adjusted))
    return found


def _broken(member: Member, answer: MemberAnswer) -> tuple[Finding, ...]:
    if answer.guard != "broken":
        return ()
    margin = member.rule.margin
    allowed = f"{margin * 100:.3g} %" if member.rule.scale == "log" else f"{margin:.3g}"
    sentence = f"{member.arm} is worse in {member.outcome} by more than the allowed {allowed}"
    return (Finding(kind="guard-broken", level="suspect", sentence=sentence),)


def _contrast_findings(stand: _Stand, contrast: Contrast, differences: Array) -> list[Finding]:
    """Return the doubts about one contrast that has a verdict on the log scale."""
    protocol = stand.protocol
    outcome = protocol.primary
    scores, arms, blocks = run_scores(stand.trial, outcome)
    names, places = np.array(arms), np.array(blocks)
    logs = {name: scores[names == name] for name in contrast}
    in_blocks = {name: places[names == name].tolist() for name in contrast}
    sign = 1.0 if protocol.outcomes[outcome].direction == "higher" else -1.0
    found = (
        # No effect of an arm survives a reboot.
        validity_checks.carry_over(scores, arms, *contrast) if protocol.replicate == "run" else None,
        validity_checks.noise(differences, protocol.profile.get(outcome)),
        validity_checks.modes({name: sign * values for name, values in logs.items()}, in_blocks),
    )
    return [one for one in found if one is not None]


def _general_findings(stand: _Stand, *, is_over: bool) -> list[Finding]:
    """Return the doubts about the whole trial after a block; a finding of level `refuse` ends the trial."""
    trial, protocol = stand.trial, stand.protocol
    by_arm = Counter(void.arm for void in trial.voids.values())
    found = validity_checks.identity([(run.arm, run.identity) for run in trial.runs], protocol.varies)
    different = validity_checks.another([(run.arm, run.failure) for run in trial.runs])
    found += [different] if different else []
    if by_arm:
        cap = None if is_over else stand.cap or protocol.budget
        paused = sum(void.cause == "pause" for void in trial.voids.values())
        found += validity_checks.voids(by_arm, trial.visits, len(trial.drawn), cap, paused)
        knob = validity_checks.knob_voids([void.reason for void in trial.voids.values() if void.cause == "knob"])
        found += [knob] if knob else []
    if trial.readings:
        heat = validity_checks.temperature(trial.readings)
        found += [heat] if heat else []
        limits = {**protocol.gates, "start_temperature": GateLimits()}
        found += [replace(one, kind=f"gate-{one.kind}") for one in group_findings(trial.readings, limits)]
    return [*found, *few_events(trial)]


def _placebo_findings(judged: Sequence[OutcomeJudgement]) -> list[Finding]:
    # Either the set-up is faulty, or it is one of the false alarms that alpha allows.
    return [
        Finding(
            kind="placebo",
            level="suspect",
            sentence=f"the placebo {one.arm} is {one.verdict} than {one.against} in {one.outcome}, but changes nothing",
        )
        for one in judged
        if one.placebo and one.verdict in {"better", "worse"}
    ]


def _dropped(stand: _Stand, judged: Sequence[OutcomeJudgement]) -> tuple[str, ...]:
    """Return the arms whose comparisons are all decided."""
    protocol = stand.protocol
    roles = {"primary", "secondary", "guard"} if protocol.until_all_decided else {"primary"}
    is_full = stand.cap is not None and len(stand.trial.complete) >= stand.cap
    open_names = {
        name
        for one in judged
        if one.role in roles and one.verdict is None and not (is_full and one.role != "primary")
        for name in (one.arm, one.against)
    }
    if protocol.until_all_decided and not is_full:
        open_names |= {one.arm for one in judged if one.guard == "open"}
    return tuple(arm.name for arm in protocol.arms if arm.name != protocol.control and arm.name not in open_names)


def _next_step(stand: _Stand, judged: Sequence[OutcomeJudgement], dropped: Sequence[str]) -> NextStep:
    trial, protocol = stand.trial, stand.protocol
    if trial.ended is not None:
        return NextStep(action="stop", reason=trial.ended)
    alive = tuple(arm.name for arm in protocol.arms if arm.name not in dropped)
    undecided = [one for one in _deciding(judged) if one.verdict is None]
    if alive == (protocol.control,) or not (undecided or protocol.until_all_decided):
        return NextStep(action="stop", reason="every comparison has its verdict")
    unfinished = trial.unfinished
    look = _next_look(stand, undecided)
    if unfinished is not None:
        ran = Counter(run.arm for run in trial.runs if run.block == unfinished.block)
        left = tuple(arm for arm in unfinished.order if ran[arm] < protocol.runs_per_visit)
        reason = f"block {unfinished.block} has begun"
        return NextStep(action="go on", reason=reason, block=unfinished.block, arms=left, drawn=True, look=look)
    block = max(trial.drawn, default=0) + 1
    drawn = len(trial.drawn) - len(trial.voids)
    if trial.voids and stand.cap is not None and len(trial.drawn) >= stand.cap > drawn:
        reason = f"{stand.cap - drawn} of {len(trial.voids)} void blocks must be repeated"
        return NextStep(action="repeat", reason=reason, block=block, arms=alive, look=look)
    return NextStep(action="go on", reason="no verdict yet", block=block, arms=alive, look=look)


def _next_look(stand: _Stand, undecided: Sequence[OutcomeJudgement]) -> int | None:
    if stand.cap is None:
        return FEWEST_BLOCKS
    if stand.protocol.outcomes[stand.protocol.primary].scale == "count" or not undecided:
        return stand.cap
    blocks = min(one.blocks for one in undecided)
    return next((look for look in looks(stand.cap, table_row(stand.protocol)) if look > blocks), None)
