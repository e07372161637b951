# SPDX-License-Identifier: Apache-2.0
"""Runs `ktrial blame`: one trial after another, each stored like any trial, until the cause is known."""

from __future__ import annotations

import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ktrial.cli.shared.arm_kernels import workshop_of
from ktrial.cli.shared.bench import give_programs_of
from ktrial.cli.shared.boot_questions import answer_in_boots, ask_in_boots
from ktrial.cli.shared.boot_trials import EACH_S
from ktrial.cli.shared.guest_trials import scout, words_of
from ktrial.cli.shared.long_runs import newest_runs
from ktrial.cli.shared.several_trials import carry_out, find_unfinished
from ktrial.cli.shared.trial_options import boot_consent, guest_of, template_file
from ktrial.cli.shared.trial_start import look_at
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, Refused
from ktrial.kit.tables import columns
from ktrial.reports.charts.coefficients import coefficients_chart
from ktrial.reports.charts.drawing import Style
from ktrial.reports.charts.svg import png_bytes, svg_bytes
from ktrial.studies.blame.blame import follow
from ktrial.studies.blame.cost import cost_of, settle_seconds
from ktrial.studies.blame.factors import (
    check_combinations,
    combinations_of,
    factors_of,
    left_out_of,
    symbol_factors,
    whole,
)
from ktrial.studies.blame.model import BlameQuestion
from ktrial.studies.blame.text import blame_text, dry_run_text
from ktrial.trial.arms.plan_arms import arm_plans
from ktrial.trial.guests.guest_kernels import planned_kernels, refuse_same
from ktrial.trial.guests.prepare import plans_in_guests
from ktrial.trial.guests.recipe import KernelChange
from ktrial.trial.protocol.file import CONTROL, ArmFile
from ktrial.trial.protocol.forecast import last_run_seconds
from ktrial.trial.protocol.from_words import arms_of, default_suite, pairs
from ktrial.trial.protocol.read import check_trial_file
from ktrial.tuning.plans.model import Plan

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.studies.blame.model import Blame, KnownFacts
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.run.prepare import Prepared
    from ktrial.tuning.catalog.model import Catalog


class Budgets(NamedTuple):
    """What is known about all settings together, and the limits on blocks.

    `cap` limits a trial that measures random halves of the settings, `budget` any other trial of the blame.
    """

    known: KnownFacts | None
    cap: int
    budget: int


def blame_question(
    catalog: Catalog, words: tuple[str, ...], own: tuple[str, ...] | None, options: Mapping[str, Any]
) -> tuple[ArmFile, TrialFile]:
    """Return one arm with all named settings, and the template of the trials that measure them."""
    environment = pairs(options["environment"], "--env")
    guest = guest_of(options, "settings")
    boots, symbols = options["boots"], symbol_factors(options["settings"])
    named = words or environment or not (boots or symbols)
    arms = arms_of(words, catalog, environment, placebo=False) if named else {"all": ArmFile()}
    if len(arms) > 2:
        given = ", ".join(name for name in arms if name != CONTROL)
        raise BadInput(
            f"expected one value for each setting, got {given}", hint="use `ktrial try` for several values of a knob"
        )
    arm = next(arm for name, arm in arms.items() if name != CONTROL)
    together = {name: value for one in symbols for name, value in one.symbols.items()}
    arm = msgspec.structs.replace(
        arm,
        boot=tuple(word for text in boots for word in text.split()),
        kernel=KernelChange(set=together) if together else None,
    )
    number = len(arm.set) + len(arm.environment) + len(boots) + len(symbols)
    title = [word for word in words if "=" not in word] or [f"{number}-settings"]
    return arm, template_file(
        f"blame-{'+'.join(title)}"[:40].rstrip("-._+"),
        own,
        options,
        {},
        suite=options["suite"] or (default_suite(words, catalog) if own is None else None),
        parameters=pairs(options["given"], "-p"),
        primary=options["primary"],
        secondary=options["secondary"],
        arms={},
        guest=guest,
    )


def question_of(
    app: App,
    catalog: Catalog,
    arm: ArmFile,
    template: TrialFile,
    budgets: Budgets,
    boots: Sequence[str],
    symbols: Sequence[str],
    *,
    seed: int | None,
    allow_dangerous: bool,
) -> tuple[BlameQuestion, dict[str, str]]:
    """Return the question for this machine or its guests, and the named settings that cannot be the cause."""
    if not app.may_run_trials:
        raise Refused("trials run on machines, not in folders", hint="leave out --machine-root")
    if boots and template.guest is None and app.host is not None:
        raise BadInput("cannot combine --boot with --host: --boot reboots this machine", hint="leave out --host")
    if symbols:
        _check_kernels(app, symbols, template)
    give_programs_of(app, template.suite)
    plan = _planned(app, catalog, whole(arm, template), allow_dangerous=allow_dangerous)
    factors = factors_of(plan, catalog.knobs, arm.environment, boots, symbols)
    drawn = secrets.randbelow(2**32) if seed is None else seed
    name = f"{template.name}-{secrets.token_hex(3)}"
    known, cap, budget = budgets
    question = BlameQuestion(
        name=name, factors=factors, trial=template, seed=drawn, known=known, cap=cap, budget=budget
    )
    return question, left_out_of(plan)


def _check_kernels(app: App, symbols: Sequence[str], template: TrialFile) -> None:
    """Report how many kernels the combinations of symbols need. Raise an error if one of them cannot be built."""
    file = combinations_of(symbols, template)
    check_trial_file(file)
    workshop = workshop_of(app)
    plans = planned_kernels(file, workshop)
    refuse_same(file, plans)
    missing = [plan for plan in plans.values() if plan.image is None]
    workshop.check_room(missing)
    app.say(f"{len(plans)} kernels; ktrial builds {len(missing)} of them when it needs them")


def _planned(app: App, catalog: Catalog, file: TrialFile, *, allow_dangerous: bool) -> Plan:
    """Return the plan of all settings together, on this machine or in a guest."""
    arm = file.arms["all"]
    plan = partial(arm_plans, file, catalog=catalog, allow_dangerous=allow_dangerous)
    if file.guest is None:
        return plan(app.best_session("planning the settings"))["all"]

    check_trial_file(file)
    if not (arm.words or arm.boot):
        return Plan(title="all", changes=(), same=(), refusals=())
    words = words_of(app, file)
    swap = app.kernels.lab.swap_programs(words[file.control])
    return plans_in_guests(file, partial(scout, app), words, lambda root, names: plan(root, only=names), swap)["all"]


def show_cost(app: App, question: BlameQuestion, *, allow_dangerous: bool) -> None:
    """Print the suspects and what the blame costs. Raise an error for anything that would prevent the blame."""
    every = question.arm(tuple(one.name for one in question.factors))
    tasks = look_at(app, whole(every, question.trial), allow_dangerous=allow_dangerous)
    command = question.trial.command
    names = shlex.join(("--", *command)) if command else str(question.trial.suite)
    earlier = newest_runs(app, {task.label for task in tasks})
    run_s = None if question.trial.guest is not None else last_run_seconds(earlier, tasks, command)
    boot_s = EACH_S if question.boots_this_machine else 0.0
    visit_s = None if run_s is None else run_s + boot_s + settle_seconds(question, app.catalog.knobs)
    why = (
        "each run needs the boot of a guest"
        if question.trial.guest is not None
        else f"no earlier run like these is stored; `ktrial bench -n 1 {names}` makes one"
    )
    sys.stdout.write(dry_run_text(question, visit_s, why, width=columns()))


def find_answer(
    app: App, question: BlameQuestion, left_out: Mapping[str, str], title: str, options: Mapping[str, Any]
) -> Blame | int:
    """Return the answer, or the exit status if the command ends before the answer is known.

    Trials on this machine or in guests run within this command; trials that boot this machine continue after it.
    """
    dangerous, as_json, fresh = options["yes_dangerous"], options["as_json"], options["fresh"]
    if question.boots_this_machine:
        known = None if fresh else answer_in_boots(app, question)
        if known is not None:
            app.say(f"{known.name} was answered before; --fresh asks again")
            return known
        consent = boot_consent(options)
        return ask_in_boots(
            app, question, left_out, consent=consent, allow_dangerous=dangerous, fresh=fresh, as_json=as_json
        )
    question, parts = (question, []) if fresh else find_unfinished(app, question, title, follow)

    def check(ready: Prepared) -> None:
        check_combinations(question, ready.file, ready.arms)

    found = carry_out(
        app,
        partial(follow, question),
        parts,
        check,
        most_visits=sum(step.most for step in cost_of(question)),
        allow_dangerous=dangerous,
        as_json=as_json,
    )
    if found is None:
        return app.end_interrupted("all finished runs are stored; run the same command again to continue")
    return msgspec.structs.replace(found, left_out=left_out)


def show(blame: Blame, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(plain_json.line({"event": "blame", "blame": blame}))
    else:
        sys.stdout.write(blame_text(blame, width=columns()))


def picture(blame: Blame, suffix: str) -> bytes:
    chart = coefficients_chart(blame.name, blame.screenings, Style(width=900))
    return (svg_bytes if suffix == ".svg" else png_bytes)(chart)
