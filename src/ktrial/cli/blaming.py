# SPDX-License-Identifier: Apache-2.0
"""Carries a blame out: one trial after the other, each kept like any trial, until the question is answered."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ktrial.domain.errors import Refused

if TYPE_CHECKING:
    from ktrial.cli.trial_progress import TrialProgress
    from ktrial.cli.wiring import App
    from ktrial.domain.blame import Blame, BlamePart, BlameQuestion, Known
    from ktrial.domain.stored_trial import StoredTrial
    from ktrial.domain.trial_file import ArmFile, TrialFile


class Budgets(NamedTuple):
    """What is known of the whole set; the most blocks of a screening, and of a trial that confirms."""

    known: Known | None
    cap: int
    budget: int


def question_of(
    app: App, arm: ArmFile, template: TrialFile, budgets: Budgets, *, seed: int | None, allow_dangerous: bool
) -> tuple[BlameQuestion, dict[str, str]]:
    """What is asked on this machine, and what was named and cannot have done it."""
    from ktrial.domain.blame import BlameQuestion
    from ktrial.services.blame_question import factors_of, left_out_of, whole
    from ktrial.services.trial_prepare import arm_plans

    if not app.on_this_machine:
        raise Refused("trials run on this machine only", hint="leave --machine-root out")
    machine = app.best_session("planning the settings")
    plan = arm_plans(whole(arm, template), machine, app.catalog, allow_dangerous=allow_dangerous)["all"]
    factors = factors_of(plan, app.catalog.knobs, arm.environment)
    drawn = secrets.randbelow(2**32) if seed is None else seed
    name = f"{template.name}-{secrets.token_hex(3)}"
    known, cap, budget = budgets
    question = BlameQuestion(
        name=name, factors=factors, trial=template, seed=drawn, known=known, cap=cap, budget=budget
    )
    return question, left_out_of(plan)


def taken_up(app: App, question: BlameQuestion, title: str) -> tuple[BlameQuestion, list[BlamePart]]:
    """The newest blame of the store that asks the same and is not answered yet, with its trials; else this one."""
    from ktrial.domain.trial_file import TrialFile
    from ktrial.services.blame import follow
    from ktrial.services.blame_question import belongs

    groups: dict[str, list[StoredTrial]] = {}
    for stored in app.trials.all():
        if stored.file.part is not None and stored.file.part.rpartition("-")[0] == title:
            groups.setdefault(stored.file.part, []).append(stored)
    for name, group in groups.items():
        ordered = sorted(group, key=lambda one: one.started_unix_ms)
        first_seed = ordered[0].file.design.seed
        asked = msgspec.structs.replace(question, name=name, seed=first_seed or 0)
        parts = [part_of(app, stored) for stored in ordered]
        if belongs(asked, parts) and (isinstance(follow(asked, parts), TrialFile) or not _is_over(parts[-1])):
            return asked, parts
    return question, []


def _is_over(part: BlamePart) -> bool:
    return part.judgement.next.action == "stop"


def part_of(app: App, stored: StoredTrial) -> BlamePart:
    """A trial of the store as a part of a blame."""
    from ktrial.domain.blame import BlamePart
    from ktrial.domain.trial_log import RunEnded
    from ktrial.services.trial_summary import judgement_of

    log = app.trials.log(stored.trial)
    runs = sum(isinstance(event, RunEnded) and event.block is not None for event in log)
    return BlamePart(trial=stored.trial, file=stored.file, judgement=judgement_of(log), runs=runs)


def run_blame(
    app: App, question: BlameQuestion, parts: Sequence[BlamePart], *, allow_dangerous: bool, as_json: bool
) -> Blame | None:
    """To the answer; None where somebody interrupted."""
    from ktrial.cli.ledgering import note
    from ktrial.cli.trial_progress import TrialProgress
    from ktrial.domain.trial_file import TrialFile
    from ktrial.services.blame import follow

    app.lock_runs()
    done = list(parts)
    stored = app.trials.find(done[-1].trial) if done and not _is_over(done[-1]) else None
    if stored is not None:
        done.pop()
    listen = TrialProgress(as_json=as_json)
    with app.interrupts, listen:
        while isinstance(wanted := follow(question, done), TrialFile):
            part = _carry_out(app, question, wanted, stored, listen, allow_dangerous=allow_dangerous)
            stored = None
            if part is None:
                return None
            done.append(part)
    note(app)
    return wanted


def _carry_out(
    app: App,
    question: BlameQuestion,
    file: TrialFile,
    stored: StoredTrial | None,
    listen: TrialProgress,
    *,
    allow_dangerous: bool,
) -> BlamePart | None:
    """One trial of it, from where it stands."""
    from ktrial.cli.trying import begin, carry_on, order_of, prepare, rig_of
    from ktrial.services.blame_question import check_combinations
    from ktrial.services.trial_protocol import protocol_of

    ready = prepare(app, file if stored is None else stored.file, allow_dangerous=allow_dangerous)
    check_combinations(question, ready.file, ready.arms)
    rig = rig_of(app, ready)
    runs_per_visit = file.design.runs_per_visit or 1
    protocol = protocol_of(ready.file, ready.tasks, order_of(ready).gates, ready.seed, None, runs_per_visit)
    if stored is not None and stored.arms != ready.arms:
        raise Refused(f"the machine is not as it was when {stored.trial} began", hint="--fresh begins anew")
    listen.announce(ready, protocol)
    stored = begin(app, ready, protocol) if stored is None else stored
    _, interrupted = carry_on(app, stored, ready, rig, listen)
    return None if interrupted else part_of(app, stored)


def show(blame: Blame, *, as_json: bool) -> None:
    """The answer on stdout."""
    from ktrial.report.blame import blame_text
    from ktrial.report.terminal import columns

    if as_json:
        sys.stdout.write(msgspec.json.encode({"event": "blame", "blame": blame}).decode() + "\n")
    else:
        sys.stdout.write(blame_text(blame, width=columns()))


def picture(blame: Blame, suffix: str) -> bytes:
    """The coefficients as .svg or .png."""
    from ktrial.report.charts.coefficients import coefficients_chart
    from ktrial.report.charts.drawing import Style
    from ktrial.report.charts.svg import png_bytes, svg_bytes

    chart = coefficients_chart(blame.name, blame.screenings, Style(width=900))
    return (svg_bytes if suffix == ".svg" else png_bytes)(chart)
