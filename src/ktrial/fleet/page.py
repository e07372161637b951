# SPDX-License-Identifier: Apache-2.0
"""The report of a fleet's trial for others: the page of a comparison, with the facts and the waves."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from ktrial.fleet.charts import FACT_HEADERS, fact_rows, facts_chart, waves_chart
from ktrial.fleet.guards import Logs
from ktrial.fleet.log import FleetStanding, GuardReading, WaveEnded
from ktrial.fleet.text import headline as verdict_sentence
from ktrial.fleet.text import spread_sentence
from ktrial.fleet.verdict import FleetContrast, FleetResult
from ktrial.judge.model.comparison import ArmSource, Comparison, Contrast, OutcomeComparison
from ktrial.judge.model.log import BlockVoided, RunEnded
from ktrial.judge.model.words import effect_text, p_text, percent_text, value_log_ratio
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction, Unit
from ktrial.kit.tables import clean, shorten
from ktrial.reports.blocks import Block, Cell, Grid, OwnChart, ReportSection, Styled, Supplement, Text
from ktrial.reports.html import html_page
from ktrial.reports.markdown import markdown
from ktrial.reports.sentences import count_words
from ktrial.reports.sentences import headline as comparison_headline

#: Maximum characters of the headline, which is two lines on a wide screen, and of a name.
_HEADLINE, _NAME = 130, 30
Units = Mapping[str, Unit]


def fleet_html(standing: FleetStanding, found: FleetResult, logs: Logs, units: Units) -> str:
    """Return the page as HTML. `units` contains the units of outcomes, if known."""
    comparison = fleet_comparison(standing, found, logs, units)
    return html_page(comparison, _supplement(standing, found, comparison))


def fleet_markdown(standing: FleetStanding, found: FleetResult, logs: Logs, units: Units) -> str:
    comparison = fleet_comparison(standing, found, logs, units)
    return markdown(comparison, more=_supplement(standing, found, comparison))


def fleet_comparison(standing: FleetStanding, found: FleetResult, logs: Logs, units: Units) -> Comparison:
    """Return a fleet's result as a comparison of the fleet's machines."""
    trial = standing.began.trial
    arms = [name for name in trial.arms if name != trial.control]
    outcomes: dict[str, list[FleetContrast]] = {}
    for one in found.contrasts:
        outcomes.setdefault(one.outcome, []).append(one)
    bare = Comparison(
        title=f"{found.fleet}: {', '.join(map(clean, arms))} against {clean(trial.control)} on "
        f"{count_words(found.machines, 'machine', 'machines')}",
        answer="",
        scope=_scope(standing, found),
        control=trial.control,
        arms=tuple(_source(standing, logs, name) for name in (trial.control, *arms)),
        outcomes=tuple(_outcome(name, every, units.get(name, "ratio")) for name, every in outcomes.items()),
        findings=tuple(_findings(found, standing.began.left_out)),
        reproduce=(shlex.join(("ktrial", "fleet", "report", found.fleet)),),
        protocol={"seed": standing.began.seed, **_without_blanks(msgspec.to_builtins(trial))},
        protocol_sha256=standing.began.sha256,
    )
    return msgspec.structs.replace(bare, answer=_answer(found, bare))


def _without_blanks(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without its empty values."""
    inner = {name: _without_blanks(value) if isinstance(value, Mapping) else value for name, value in document.items()}
    return {name: value for name, value in inner.items() if value not in (None, "", (), [], {})}


def _scope(standing: FleetStanding, found: FleetResult) -> str:
    table = standing.began.trial.fleet
    primary = next((one for one in found.contrasts if one.role == "primary"), None)
    about = "nothing yet" if primary is None else primary.scope
    unfinished = "; the trial is not over" if found.ended is None else ""
    return (
        f"{about}; {found.measured} of {count_words(found.machines, 'machine', 'machines')} measured, "
        f"design {table.design}, {table.blocks} blocks on each{unfinished}"
    )


def _source(standing: FleetStanding, logs: Logs, arm: str) -> ArmSource:
    """Return the runs of an arm on all machines, and the facts that all machines share."""
    runs = failed = void = 0
    trials = []
    hosts = set()
    for place, log in sorted(logs.items()):
        machine = standing.machine(place)
        if machine.arm not in (None, arm):
            continue
        voided = {event.block for event in log if isinstance(event, BlockVoided)}
        own = [
            event
            for event in log
            if isinstance(event, RunEnded) and event.block is not None and (machine.arm or event.arm) == arm
        ]
        runs += len(own)
        failed += sum(event.failure is not None for event in own)
        void += sum(event.block in voided for event in own)
        hosts.add(machine.host)
        trials.append(standing.finished[place])
    return ArmSource(
        arm=arm,
        sources=tuple(trials),
        runs=runs,
        failed=failed,
        void=void,
        boots=None,
        machines=len(hosts),
        known={name: next(iter(values)) for name, values in _facts(standing).items() if len(values) == 1},
    )


def _facts(standing: FleetStanding) -> dict[str, set[str]]:
    """Return the values of each recorded fact."""
    machines = standing.began.machines
    names = sorted({name for one in machines for name in one.facts})
    return {name: {one.facts.get(name, "unknown") for one in machines} for name in names}


def _outcome(name: str, every: list[FleetContrast], unit: Unit) -> OutcomeComparison:
    first = every[0]
    benchmark, _, outcome = name.rpartition(".")
    return OutcomeComparison(
        benchmark=benchmark,
        outcome=outcome,
        unit=unit,
        direction=first.direction,
        role=first.role,
        margin=first.margin,
        arms=(),
        contrasts=tuple(map(_contrast, every)),
    )


def _contrast(one: FleetContrast) -> Contrast:
    machines = sorted(one.pooled.machines, key=lambda each: -each.effect.estimate if each.effect else math.inf)
    units = sum(machine.why is None for machine in machines)
    return Contrast(
        arm=one.arm,
        control=one.control,
        verdict=one.verdict,
        why=one.why,
        effect=one.effect,
        worth=one.worth,
        n_arm=units,
        n_control=units,
        blocks=None,
        test=None,
        sentence=" ".join(filter(None, (verdict_sentence(one), spread_sentence(one)))),
        pooled=msgspec.structs.replace(one.pooled, machines=tuple(machines)),
    )


def _answer(found: FleetResult, comparison: Comparison) -> str:
    """Return the answer and the machines for which it holds, in at most two lines of the page."""
    primary = [one for one in found.contrasts if one.role == "primary"]
    stopped = _stopped(found)
    if stopped is not None:
        return shorten(_stop_sentence(found, stopped), _HEADLINE)
    if not primary:
        return "No machine has finished its blocks"
    if len(primary) > 1:
        gist = comparison_headline(comparison)
        return shorten(f"On {primary[0].scope}: {gist}", _HEADLINE)
    one = primary[0]
    hurts = any(other.verdict == "worse" for other in found.contrasts if other.role != "primary")
    price = ", at a price" if hurts and one.verdict == "better" else ""
    return shorten(f"On {one.scope}, {_gist(one, price)}{_spread(one)}", _HEADLINE)


def _stop_sentence(found: FleetResult, stopped: WaveEnded) -> str:
    guard = next((one for one in stopped.guards if one.is_broken), None)
    if guard is None:
        return f"Wave {stopped.wave} stopped the trial: {clean(stopped.reason)}"
    arm, what = (shorten(clean(text), _NAME) for text in (guard.arm, guard.outcome.rpartition(".")[2]))
    direction = next((one.direction for one in found.contrasts if one.outcome == guard.outcome), None)
    where = count_words(found.measured, "machine", "machines")
    change, _ = _guard_texts(guard, direction)
    return f"On {where}, {arm} is worse than a guard allows: {what} {change}; wave {stopped.wave} stopped the trial"


def _gist(one: FleetContrast, price: str) -> str:
    arm, what = (shorten(clean(text), _NAME) for text in (one.arm, one.outcome.rpartition(".")[2]))
    change, interval = effect_text(one.effect, "ratio", one.direction)
    if one.verdict == "equivalent":
        return f"{arm} makes no difference that matters: {what} changes by less than {100 * one.margin:g} %"
    if one.verdict in ("better", "worse"):
        return f"{arm} is {one.verdict}{price}: {what} {change}"
    return f"it is undecided whether {arm} helps or hurts" + (f": {what} {interval}" if one.effect else "")


def _spread(one: FleetContrast) -> str:
    """Return a text on how many machines have the pooled verdict on their own; empty if machines agree."""
    if not one.differs or one.verdict not in ("better", "worse"):
        return ""
    word, other = ("better", "worse") if one.verdict == "better" else ("worse", "better")
    same, against = (one.helped, one.hurt) if one.verdict == "better" else (one.hurt, one.helped)
    but = f", {other} on {against}" if against else ""
    return f"; the machines differ: {word} on {same} of {len(one.pooled.machines)}{but}"


def _stopped(found: FleetResult) -> WaveEnded | None:
    return next((over for over in found.waves if over.decision == "stop"), None)


def _findings(found: FleetResult, before: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings that readers must know. `before` lists the machines left out before the first run."""
    directions = {one.outcome: one.direction for one in found.contrasts}
    for over in found.waves:
        for guard in over.guards:
            if guard.is_broken:
                change, allowed = _guard_texts(guard, directions.get(guard.outcome))
                yield Finding(
                    kind="fleet-guard-broken",
                    level="suspect",
                    sentence=f"After wave {over.wave}, {guard.outcome} of {guard.arm} was worse than its guard allows: "
                    f"{change} on the machines so far ({allowed} allowed).",
                )
    stopped = _stopped(found)
    if stopped is not None:
        yield Finding(
            kind="fleet-wave-stopped",
            level="suspect",
            sentence=f"Wave {stopped.wave} stopped the trial: {stopped.reason}. The verdicts are about "
            f"{count_words(found.measured, 'machine', 'machines')} of {found.machines}.",
        )
    if lost := [host for host in found.left_out if host not in before]:
        yield Finding(
            kind="fleet-machines-lost",
            level="suspect",
            sentence=f"{count_words(len(lost), 'machine', 'machines')} began and gave no result. If the arm is the "
            "cause, the verdict is too kind.",
        )
    if before:
        yield Finding(
            kind="fleet-machines-left-out",
            level="note",
            sentence=f"{count_words(len(before), 'machine', 'machines')} of the inventory did not take part.",
        )
    for one in found.contrasts:
        if one.differs and (said := spread_sentence(one)) is not None:
            yield Finding(kind="fleet-machines-differ", level="note", sentence=f"{one.outcome}, {one.arm}: {said}")


def _guard_texts(guard: GuardReading, direction: Direction | None) -> tuple[str, str]:
    change, allowed = (percent_text(value_log_ratio(one, direction)) for one in (guard.estimate, -guard.margin))
    return change, allowed


def _supplement(standing: FleetStanding, found: FleetResult, comparison: Comparison) -> Supplement:
    sections = (
        ReportSection("facts", "By fact", list(_by_fact(standing, found, comparison))),
        ReportSection("waves", "Waves over time", _waves(standing, found)),
        ReportSection("left-out", "Machines left out, and why", _left_out(standing, found)),
    )
    return Supplement(comparison.answer, sections)


def _by_fact(standing: FleetStanding, found: FleetResult, comparison: Comparison) -> Iterator[Block]:
    """Yield the effect for each value of the declared facts, and the facts that were not tested."""
    pairs = [(outcome, contrast) for outcome in comparison.outcomes for contrast in outcome.contrasts]
    every = {(outcome.name, contrast.arm): (outcome, contrast) for outcome, contrast in pairs}
    declared = standing.began.trial.fleet.subgroups
    for one in found.contrasts:
        if not one.subgroups:
            continue
        rows = [
            (*row, "too few machines to pool" if group.effect is None else "")
            for row, group in zip(fact_rows(one), one.subgroups, strict=True)
        ]
        yield Grid(f"{one.outcome}, {one.arm}: the effect by fact", (*FACT_HEADERS, "note"), rows, (2, 3, 4), (5,))
        if any(group.effect is not None for group in one.subgroups):
            yield OwnChart(partial(facts_chart, one, *every[one.outcome, one.arm]))
    if declared and found.design != "within":
        yield Text(f"The design {found.design} judges all machines together: there is no effect by fact.", "note")
    if any(one.subgroups for one in found.contrasts):
        yield Text(
            "A difference between two values of a fact is not tested: chance did not decide which machine has which.",
            "note",
        )
    others = [name for name, values in _facts(standing).items() if len(values) > 1 and name not in declared]
    if others:
        names = ", ".join(map(clean, others))
        yield Text(f"Recorded, but not declared in subgroups, and therefore not tested: {names}.", "note")


def _waves(standing: FleetStanding, found: FleetResult) -> list[Block]:
    """Return each machine's time, the decision after each wave, and the guards' results."""
    blocks: list[Block] = [OwnChart(partial(waves_chart, standing))] if standing.steps else []
    decided = [
        (f"wave {over.wave}", str(len(standing.places_of(over.wave))), over.decision, over.reason)
        for over in found.waves
    ]
    if decided:
        columns = ("wave", "machines", "decision", "why")
        blocks.append(Grid("What was decided after each wave", columns, decided, (1,), (3,)))
    directions = {one.outcome: one.direction for one in found.contrasts}
    guards: list[tuple[Cell, ...]] = [
        (
            *(f"wave {over.wave}", guard.outcome, guard.arm),
            *_guard_texts(guard, directions.get(guard.outcome)),
            *(p_text(guard.p), f"{guard.error:.2g}"),
            Styled("broken", "worse") if guard.is_broken else "holds",
        )
        for over in found.waves
        for guard in over.guards
    ]
    if guards:
        headers = ("wave", "guard", "arm", "change", "allowed", "p", "error", "guard says")
        caption = "Guards on the machines so far. A guard breaks if the change is worse than allowed and p is at most "
        blocks.append(Grid(f"{caption}the error of one look.", headers, guards, (3, 4, 5, 6)))
    return blocks


def _left_out(standing: FleetStanding, found: FleetResult) -> list[Block]:
    rows = [
        (clean(host), "before the first run" if host in standing.began.left_out else "while measuring", clean(why))
        for host, why in found.left_out.items()
    ]
    return [Grid("Machines without a result", ("machine", "when", "why"), rows, (), (2,))] if rows else []
