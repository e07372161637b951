# SPDX-License-Identifier: Apache-2.0
"""Texts about a fleet's trial: its plan, its state, and its result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ktrial.bench.text import duration
from ktrial.fleet.draw import balance
from ktrial.fleet.eta import seconds_left, wave_seconds
from ktrial.fleet.log import (
    FleetBegan,
    FleetEnded,
    FleetEvent,
    FleetStanding,
    MachineState,
    MachineStep,
    WaveBegan,
    WaveEnded,
)
from ktrial.fleet.rollout import WaveOutcome
from ktrial.fleet.store import Holder
from ktrial.fleet.verdict import FleetContrast, FleetResult
from ktrial.judge.model.words import effect_text, percent_text, range_text, value_log_ratio
from ktrial.judge.stats.machines import FEWEST_MACHINES
from ktrial.kit.tables import clean, labelled, paragraph, table

_MOST_NAMES = 8
_LABEL = 14


def announcement(began: FleetBegan, *, width: int, forks: int) -> str:
    """Return text on the waves and their machines, the time that they take, and the balance of the groups."""
    fleet, machines = began.trial.fleet, began.machines
    what = {
        "within": "each machine measures all arms",
        "pairs": "one machine of each pair has the arm",
        "stepped": "the machines get the arm wave by wave, and all are measured each time",
    }[fleet.design]
    hosts = {one.host for one in machines}
    count = _machines(len(hosts))
    lines = [
        paragraph(
            f"{began.fleet}: {count}, {what}, {_blocks_text(began)} on each, seed {began.seed}",
            width=width,
        )
    ]
    for wave in sorted({one.switch or one.wave for one in machines}):
        members = list(dict.fromkeys(one.host for one in machines if (one.switch or one.wave) == wave))
        lines.append(labelled(f"  wave {wave}", _names(members), width=width, label_columns=_LABEL))
    lines.append(labelled("  time", time_text(began, forks), width=width, label_columns=_LABEL))
    lines += [
        labelled(f"  {clean(host)}", f"left out: {why}", width=width, label_columns=_LABEL)
        for host, why in began.left_out.items()
    ]
    if fleet.design == "within" and len(hosts) < FEWEST_MACHINES:
        few = f"fewer than {FEWEST_MACHINES} machines: ktrial gives no verdict on machines like these"
        lines.append(paragraph(few, width=width))
    return "\n".join(lines) + "\n" + balance_text(began, width=width)


def _blocks_text(began: FleetBegan) -> str:
    """Return what each machine measures: blocks, or periods of live work."""
    trial = began.trial
    if not trial.live:
        return f"{trial.fleet.blocks} blocks"
    arms = 2 if began.machines[0].arm is not None else len(trial.arms)
    return f"{arms * trial.fleet.blocks} periods of {trial.live.period}"


def question_text(began: FleetBegan, forks: int, long_s: float) -> str:
    """Return the question before the first run; it states the time if that is above `long_s`."""
    machines = _machines(len({one.host for one in began.machines}))
    whole_s = sum(wave_seconds(began, forks).values())
    if whole_s > long_s:
        return f"This may take {duration(whole_s)} on {machines}. Continue?"
    return f"Measure on {machines}?"


def _machines(count: int) -> str:
    return f"{count} machine{'s'[: count != 1]}"


def time_text(began: FleetBegan, forks: int) -> str:
    """Return how long a trial takes, in total and wave by wave."""
    more = "; ktrial also waits for machines in use" if began.when_idle else ""
    waves = wave_seconds(began, forks)
    if not waves:
        return f"unknown until the first machine has begun to measure{more}"
    each = [duration(one) for one in waves.values()]
    told = f"about {duration(sum(waves.values()))}"
    if len(each) > 1 and len(set(each)) == 1:
        told += f", {each[0]} for each of {len(each)} waves"
    elif len(each) > 1:
        shown = ", ".join(each[:_MOST_NAMES])
        told += f"; wave by wave {shown}" + (f" and {len(each) - _MOST_NAMES} more" if len(each) > _MOST_NAMES else "")
    return told + more


def balance_text(began: FleetBegan, *, width: int) -> str:
    """Return how many machines of each arm or wave have each value of the facts that vary."""
    names = dict.fromkeys(name for one in began.machines for name in one.facts)
    found = balance(began.machines, list(names))
    groups = list(dict.fromkeys(one.arm or f"wave {one.wave}" for one in began.machines))
    rows = [
        [name, clean(value), *(str(counts.get(group, 0)) for group in groups)]
        for name, values in found.items()
        if len(values) > 1
        for value, counts in sorted(values.items())
    ]
    return table(["fact", "value", *groups], rows, width=width) + "\n" if rows else ""


def event_text(event: FleetEvent) -> str | None:
    """Return a line about an event; None for an event that needs no line."""
    match event:
        case WaveBegan(wave=wave):
            return f"wave {wave} begins"
        case MachineStep():
            return _step_text(event)
        case WaveEnded(wave=wave, decision=decision, reason=reason):
            return f"wave {wave} is over: {clean(reason)}; the trial " + ("goes on" if decision == "go on" else "stops")
        case FleetEnded(reason=reason):
            return f"the trial has ended: {clean(reason)}"
        case _:
            return None


def _step_text(step: MachineStep) -> str | None:
    host, why = clean(step.host), clean(step.message or "no reason given")
    return {
        "in-use": f"{host} waits; {why}",
        "unreachable": f"{host} cannot be reached: {why}",
        "failed": f"{host} gave no result: {why}",
        "ended": f"{host} has finished its {step.blocks} blocks",
    }.get(step.state)


def counts_text(standing: FleetStanding, now_unix_ms: int) -> str:
    """Return the states of the machines in one line: `3 of 8 done, 4 measuring, 1 away; about 3 min left`."""
    counts = Counter(map(standing.state_of, range(len(standing.began.machines))))
    words = {
        "running": "measuring",
        "in-use": "in use",
        "unreachable": "away",
        "failed": "failed",
        "stopped": "stopped",
        None: "waiting",
    }
    told = [f"{counts['ended']} of {len(standing.began.machines)} done"]
    told += [f"{counts[state]} {word}" for state, word in words.items() if counts[state]]  # type: ignore[index]
    left_s = seconds_left(standing, now_unix_ms)
    return ", ".join(told) + (f"; about {duration(left_s)} left" if left_s else "")


def live_lines(standing: FleetStanding, now_unix_ms: int, *, width: int) -> list[str]:
    """Return a line for each wave with the number of machines in each state, and a line for all machines."""
    states: dict[str, tuple[MachineState | None, ...]] = {
        "done": ("ended",),
        "measuring": ("running",),
        **({"in use": ("in-use",)} if standing.began.when_idle else {}),
        "waiting": (None,),
        "away": ("unreachable",),
        "failed": ("failed", "stopped"),
    }
    rows = []
    for wave in standing.waves:
        found = Counter(map(standing.state_of, standing.places_of(wave)))
        over = standing.waves_over.get(wave)
        say = "" if over is None else over.decision
        rows.append([str(wave), *(str(sum(found[one] for one in group)) for group in states.values()), say])
    text = table(["wave", *states, ""], rows, width=width)
    return ["", *text.rstrip("\n").splitlines(), counts_text(standing, now_unix_ms)]


def status_text(standing: FleetStanding, held: Holder | None, now_unix_ms: int, *, width: int) -> str:
    """Return the state of a fleet's trial: each machine's state, and who coordinates the trial."""
    began = standing.began
    lines = [f"{began.fleet}: {counts_text(standing, now_unix_ms)}"]
    if standing.end is not None:
        lines.append(paragraph(f"ended: {standing.end.reason}", width=width))
    elif held is not None:
        lines.append(f"{clean(held.text)} coordinates the trial")
    else:
        lines.append("nobody coordinates the trial; `ktrial fleet run` with the same file takes it over")
    rows = []
    for place, one in enumerate(began.machines):
        step = standing.steps.get(place)
        state = "waiting" if step is None else step.state
        blocks = "-" if step is None else str(step.blocks)
        rows.append([str(one.wave), clean(one.host), state, blocks, clean((step and step.message) or "")])
    lines += ["", table(["wave", "machine", "state", "blocks", "note"], rows, width=width).rstrip("\n")]
    return "\n".join(lines) + "\n"


def outcome_text(outcome: WaveOutcome) -> str:
    """Return the result of a wave of a roll-out in one line."""
    told = [
        f"{words}: {_names([*map(clean, hosts)])}"
        for words, hosts in (("changed", outcome.changed), ("already set", outcome.unchanged))
        if hosts
    ]
    told += [f"{clean(host)} failed: {clean(why)}" for host, why in outcome.failed.items()]
    return f"wave {outcome.wave}: {'; '.join(told)}"


def result_text(found: FleetResult, *, width: int) -> str:
    """Return the result: a sentence for each comparison, the machines, and the waves."""
    lines: list[str] = []
    for contrast in found.contrasts:
        if contrast.role == "primary":
            lines += [paragraph(headline(contrast), width=width), *_about(contrast, width), ""]
    others = [one for one in found.contrasts if one.role != "primary"]
    if others:
        rows = [[one.outcome, one.arm, one.verdict, *_change(one)] for one in others]
        lines += [table(["outcome", "arm", "verdict", "change", "interval"], rows, width=width).rstrip("\n"), ""]
    for over in found.waves:
        lines.append(labelled(f"wave {over.wave}", f"{over.reason}: {over.decision}", width=width))
    for host, why in found.left_out.items():
        lines.append(labelled(clean(host), f"not measured: {clean(why)}", width=width, label_columns=_LABEL))
    if not found.contrasts:
        lines.append("No machine has finished its blocks.")
    return "\n".join(lines).rstrip("\n") + "\n"


def headline(one: FleetContrast) -> str:
    """Return the verdict as a sentence: `On machines like these, big is better: +12 % …, from 8 machines; …`."""
    count = len(one.pooled.machines)
    change, interval = _change(one)
    figures = "" if one.effect is None else f": {change} {one.outcome} ({interval})"
    unit = "pairs" if one.pooled.machines and " against " in one.pooled.machines[0].machine else "machines"
    return f"On {one.scope}, {one.arm} is {one.verdict}{figures}, from {count} {unit}; {one.why}."


def _about(one: FleetContrast, width: int) -> Iterator[str]:
    """Yield how the effect differs between machines, and between groups of them."""
    pooled = one.pooled
    if (said := spread_sentence(one)) is not None:
        yield paragraph(said, width=width)
    rows = []
    for machine in pooled.machines:
        change, interval = effect_text(machine.effect, "ratio", one.direction)
        rows.append([clean(machine.machine), str(machine.blocks), change, interval, machine.why or ""])
    yield table(["machine", "blocks", "change", "interval", "note"], rows, width=width).rstrip("\n")
    if one.subgroups:
        rows = [
            [group.fact, clean(group.value), str(group.machines), *effect_text(group.effect, "ratio", one.direction)]
            for group in one.subgroups
        ]
        yield table(["fact", "value", "machines", "change", "interval"], rows, width=width).rstrip("\n")


def spread_sentence(one: FleetContrast) -> str | None:
    """Return how the effect differs between machines; None if the machines are not pooled."""
    pooled = one.pooled
    if pooled.tau is None or pooled.predicted_low is None or pooled.predicted_high is None:
        return None
    ends = (value_log_ratio(end, one.direction) for end in (pooled.predicted_low, pooled.predicted_high))
    differ = "The machines differ" if one.differs else "The machines agree"
    return (
        f"{differ}: better on {one.helped}, worse on {one.hurt} of {len(pooled.machines)} by their own intervals; "
        f"between machines the effect varies by {percent_text(pooled.tau)} (I² {100 * (pooled.i_squared or 0):.0f} "
        f"%). On one more machine, expect {range_text(*ends)}."
    )


def _change(one: FleetContrast) -> tuple[str, str]:
    return effect_text(one.effect, "ratio", one.direction)


def _names(hosts: Sequence[str]) -> str:
    shown = ", ".join(map(clean, hosts[:_MOST_NAMES]))
    return shown if len(hosts) <= _MOST_NAMES else f"{shown} and {len(hosts) - _MOST_NAMES} more"
