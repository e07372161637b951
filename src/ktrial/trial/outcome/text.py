# SPDX-License-Identifier: Apache-2.0
"""Texts of a running trial: its plan, its progress, and the next visit if a person sets up its arms."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from ktrial.bench.text import duration
from ktrial.judge.model.judgement import Judgement, OutcomeJudgement, Screened
from ktrial.judge.model.log import OutcomeRule, Protocol
from ktrial.judge.model.noise_profile import OLDEST_DAYS
from ktrial.kit.tables import clean, labelled, paragraph
from ktrial.kit.units import show_seconds
from ktrial.machine.gates import gates_text
from ktrial.trial.arms.manual import Due
from ktrial.trial.outcome.live_view import effect_figures
from ktrial.trial.protocol.forecast import TrialForecast
from ktrial.trial.protocol.live import LiveFile
from ktrial.trial.record import ArmSettings, TrialSummary
from ktrial.trial.run.events import NoiseBegan, PeriodPhase, PilotBegan, PilotEnded

#: Reasons that make a block of a live trial void.
LIVE_EXCLUDED = (
    "a block in which the primary metric is missing, another version runs, the clock steps, the machine sleeps or a "
    "setting does not read back; never because of a value; ktrial repeats the block"
)
#: Reasons that make a block void. A measured value is never one of them.
EXCLUDED = (
    "a block in which a setting does not read back, the machine slept, or a gate refuses; never because of a "
    "measurement; ktrial repeats the block"
)


def announcement(  # noqa: PLR0913 (each parameter is a line of the text)
    protocol: Protocol,
    arms: Mapping[str, ArmSettings],
    idle: Sequence[str],
    settle_s: float,
    forecast: TrialForecast | None = None,
    *,
    cap_s: float | None = None,
    unread: Sequence[str] = (),
    rules: bool = False,
    live: LiveFile | None = None,
    width: int,
) -> str:
    """Return what the trial will do; with `rules` also its cost, what it can detect, and what makes a block void.

    `unread` lists gates whose values this machine does not have. `cap_s` is the maximum time of the trial, if known.
    """
    rule = protocol.outcomes[protocol.primary]
    if protocol.screen is not None:
        told = f"{protocol.name}: which of {len(protocol.screen.settings)} settings is it? {protocol.primary}"
        return f"{told}, at most {protocol.cap} blocks of 2 visits, seed {protocol.seed}; {settle_s:g} s to settle\n"
    equal = f", at equal {' and '.join(protocol.adjust)}" if protocol.adjust else ""
    what = f"{protocol.primary}, {rule.direction} is better, margin {100 * rule.margin:.3g} %{equal}"
    lines = [f"trial {protocol.name}: {what}"]
    for arm in protocol.arms:
        said = "the control again: a placebo" if arm.placebo else changed_text(arms[arm.name]) or "as it is found"
        lines.append(labelled(f"  {arm.name}", said, width=width, label_columns=24))
    inert = dict(item for arm in arms.values() for item in arm.inert.items())
    lines += [paragraph(f"{name} is inert here: {why}", width=width) for name, why in inert.items()]
    lines += [paragraph(f"{name} is a placebo: its settings are in force already", width=width) for name in idle]
    cap = f"at most {protocol.cap} blocks" if protocol.cap is not None else f"at most {protocol.budget} blocks"
    visits = {"run": "visits", "boot": "boots", "build": "builds"}[protocol.replicate]
    several = f", {protocol.runs_per_visit} runs each" if protocol.runs_per_visit > 1 else ""
    lines.append(
        f"{cap} of {len(protocol.arms)} {visits} in random order{several}, seed {protocol.seed}; "
        f"{settle_s:g} s to settle"
    )
    if live is not None:
        lines[-1] = _live_line(protocol, live)
        lines += [labelled(label, text, width=width, label_columns=9) for label, text in _live_rules(live, cap_s)]
    elif rules:
        lines += [
            labelled(label, text, width=width, label_columns=9)
            for label, text in _rules(protocol, forecast, cap_s, unread)
        ]
    return "\n".join(lines) + "\n"


def noise_text(event: NoiseBegan, *, width: int) -> str:
    """Return a text on the measurement of a noise profile: its purpose, its duration and the trials that use it."""
    blocks = f"{event.blocks} blocks in which nothing changes"
    stored = f" ({event.done} are stored)" if event.done else ""
    time_ = "" if event.expected_s is None else f", about {duration(event.expected_s)}"
    told = f"noise profile: {blocks}{stored}{time_}; it serves all trials of this benchmark for {OLDEST_DAYS} days"
    return paragraph(told, width=width) + "\n"


def _rules(
    protocol: Protocol, forecast: TrialForecast | None, cap_s: float | None, unread: Sequence[str]
) -> Iterator[tuple[str, str]]:
    if forecast is None:
        known = "unknown until the first run" if cap_s is None else f"about {duration(cap_s)} at most"
        yield "costs", f"{known}; ktrial stops as soon as the answer is clear"
        if protocol.replicate == "run" and protocol.outcomes[protocol.primary].scale == "log":
            yield "sees", "unknown without a noise profile, which `ktrial noise` measures; no early end after 4 blocks"
    else:
        yield "costs", cost_text(forecast)
        yield "sees", sight_text(forecast)
    yield "void", EXCLUDED
    refuse, doubt = gates_text(protocol.gates, "refuse"), gates_text(protocol.gates, "suspect")
    yield "refuses", f"a run beyond: {refuse}" if refuse else "no gate refuses"
    yield "doubts", f"a run beyond: {doubt}" if doubt else "no gate doubts"
    if unread:
        yield "unread", f"this machine reports no {', '.join(unread)}: these gates have no effect"


def _live_line(protocol: Protocol, live: LiveFile) -> str:
    washout = f", each after {show_seconds(live.washout_s)} that do not count" if live.washout_s else ""
    return (
        f"at most {protocol.cap or protocol.budget} blocks of {len(protocol.arms)} periods of "
        f"{show_seconds(live.period_s or 0.0)} in random order{washout}; seed {protocol.seed}"
    )


def _live_rules(live: LiveFile, cap_s: float | None) -> Iterator[tuple[str, str]]:
    if cap_s is not None:
        yield "costs", f"about {duration(cap_s)} at most; ktrial stops as soon as the answer is clear"
    yield "void", LIVE_EXCLUDED
    guards = [f"{name} worse by {share}" for name, share in live.guards.items()]
    guards += [f"{name} beyond {limit:.12g}" for name, limit in live.limits.items()]
    if guards:
        yield "ends", f"at once, with everything restored: {', '.join(guards)}"
    if live.quiet is not None:
        yield "quiet", f"no switch from {live.quiet.replace('-', ' to ')}"
    if live.switches is not None:
        yield "switches", f"at most {live.switches} in 24 hours"
    if live.blind:
        yield "blind", "the arm in force stays hidden until the verdict; guards and limits see it"


def pilot_text(event: PilotBegan | PilotEnded, *, width: int) -> str:
    """Return a text on the pilot of a live trial: its purpose and duration, or the plan that resulted."""
    if isinstance(event, PilotBegan):
        does, aim = "changes nothing", "to learn the usual values"
        if event.switches:
            does, aim = (
                f"switches the arms {event.switches} times",
                "to plan the periods; ktrial reads no result from it",
            )
        told = f"pilot: {duration(event.expected_s)} that {does}, {aim}"
        return paragraph(told, width=width) + "\n"
    return "".join(f"{labelled('pilot', one, width=width, label_columns=9)}\n" for one in event.why)


def phase_text(event: PeriodPhase) -> str:
    """Return what ktrial does in this phase of a period, and until when; or ask the user for a rating."""
    if event.phase == "rate":
        return "how was it? press 1 (bad) to 5 (good)"
    until_s = None if event.until_unix_ms is None else event.until_unix_ms / 1000
    until = "" if until_s is None else time.strftime(" until %H:%M:%S", time.localtime(until_s))
    doing = f"{'settling' if event.phase == 'washout' else 'watching'}{until}"
    return f"{doing}, blind" if event.arm is None else f"{event.arm} in force, {doing}"


def changed_text(arm: ArmSettings) -> str:
    by_hand = {} if arm.manual is None else {"by hand": arm.manual}
    changed = {**by_hand, **arm.changes, **arm.environment, **arm.parameters}
    return ", ".join((*(f"{name} = {value}" for name, value in changed.items()), *arm.commands))


def cost_text(forecast: TrialForecast) -> str:
    if forecast.cap_s is None or forecast.expected_s is None:
        return f"at most {forecast.cap} blocks; the time of a block is still unknown"
    told = f"about {duration(forecast.cap_s)} to block {forecast.cap}"
    if forecast.expected >= forecast.cap:
        return told
    wanted = _share(forecast.wanted)
    return f"{told}, about {duration(forecast.expected_s)} if an effect of {wanted} is there"


def sight_text(forecast: TrialForecast) -> str:
    wanted, seen = (_share(one) for one in (forecast.wanted, forecast.smallest_effect))
    if forecast.sees_enough:
        return f"an effect of {wanted}, as requested, in 9 of 10 trials; {seen} is the smallest that it detects"
    return f"effects of {seen} or more in 9 of 10 trials; {wanted} is lost in the noise"


def _share(value: float) -> str:
    percent = 100 * value
    return f"{percent:.2g} %" if percent < 100 else f"{percent:.0f} %"


def more_text(forecast: TrialForecast) -> str:
    """Return how to make the requested effect detectable."""
    wanted = _share(forecast.wanted)
    if forecast.affordable is None:
        more = f"detecting {wanted} would take {forecast.needed} blocks, more than a trial may have;"
    else:
        time_ = "" if forecast.affordable_s is None else f" (about {duration(forecast.affordable_s)})"
        more = f"--budget {forecast.affordable}{time_} detects {wanted}; or"
    return f"{more} try longer runs, pinned CPUs, a quieter machine or another outcome"


def block_line(protocol: Protocol, judgement: Judgement, left_s: float | None = None, *, blind: bool = False) -> str:
    """Return the state of a trial after a block; `left_s` is the time to the cap, if known."""
    left = "" if left_s is None or judgement.next.action == "stop" else f"; at most {duration(left_s)} left"
    if judgement.screened:
        return f"{screening_line(judgement.blocks, judgement.cap, judgement.screened)}{left}\n"
    cap = judgement.cap or f"at most {protocol.budget}"
    if blind:
        return f"block {judgement.blocks}/{cap} is done{left}\n"
    rule = protocol.outcomes[protocol.primary]
    parts = [_arm(one, rule, protocol.control) for one in judgement.judged if one.role == "primary"]
    return clean(f"block {judgement.blocks}/{cap}: {'; '.join(parts)}{left}") + "\n"


def _arm(one: OutcomeJudgement, rule: OutcomeRule, control: str) -> str:
    name = one.arm if one.against == control else f"{one.arm} to {one.against}"
    figures = "" if one.effect is None else f" ({effect_figures(one.effect, rule)})"
    return f"{name} {one.verdict or 'undecided'}{figures}"


def trials_text(found: Sequence[TrialSummary], *, width: int) -> str:
    if not found:
        return "No trials yet. `ktrial try vm.swappiness=10` runs one.\n"
    return "\n".join(line for one in found for line in _lines_of(one, width)) + "\n"


def _lines_of(one: TrialSummary, width: int) -> Iterator[str]:
    date = time.strftime("%Y-%m-%d", time.gmtime(one.started_unix_ms / 1000))
    yield f"{date}  {clean(one.trial)}"
    arms: dict[str, list[str]] = {}
    for arm, verdict in one.verdicts.items():
        arms.setdefault(verdict or "open", []).append(arm)
    told = [f"{verdict}: {', '.join(names)}" for verdict, names in arms.items()]
    told += [f"suspected: {', '.join(one.suspected)}"] if one.suspected else []
    over = "" if one.ended is not None else ", not over"
    blocks = f"{one.blocks} block{'s'[: one.blocks != 1]}{over}"
    yield paragraph(f"{one.primary}, {blocks}; {'; '.join(told)}", width=width, indent=" " * 12)


def screening_line(blocks: int, cap: int | None, screened: Sequence[Screened]) -> str:
    named = [one.setting for outcome in screened if outcome.role == "primary" for one in outcome.named]
    told = f"suspected: {', '.join(named)}" if named else "no suspects yet"
    return f"block {blocks}/{cap or '?'}: {told}"


_LABEL = 10


def due_text(due: Due, done: Sequence[str], now: str | None, *, width: int) -> str:
    """Return progress, the next visit, how to set it up, the state of the machine, and the next command."""
    arm = due.arm if due.arm == due.place else f"{due.arm}, with the machine as {due.place}"
    boot = "boot, as each visit needs its own boot: " if due.new_boot else ""
    if due.new_build:
        boot = "boot another build, as each visit needs its own build: "
    rows = [("done", one) for one in done]
    rows += [
        ("due", f"{arm}: block {due.block}, visit {due.visit} of {due.visits}"),
        ("do", f"{boot}{due.instruction}"),
    ]
    if due.expect:
        signs = ", ".join(f"{name} = {_value(value)}" for name, value in due.expect.items())
        rows.append(("shown by", signs))
    rows += [] if now is None else [("now", now)]
    said = f" --done {due.place}" if due.confirm else ""
    rows.append(("then", f"{due.command}{said}"))
    return "".join(f"{labelled(label, text, width=width, label_columns=_LABEL)}\n" for label, text in rows)


def _value(value: bool | float | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or "missing"
