# SPDX-License-Identifier: Apache-2.0
"""Runs `ktrial tune`: its trials, the transaction that applies proven settings, and the receipt."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ktrial.bench.availability import examine_with
from ktrial.bench.suites import find_suite
from ktrial.cli.options import is_terminal
from ktrial.cli.shared.bench import give_programs_of, refuse_faulty
from ktrial.cli.shared.trial_options import blocks_of, budget_of, template_file
from ktrial.kit import plain_json
from ktrial.kit.errors import BadInput, KtrialError, Refused, UnknownName
from ktrial.kit.tables import columns
from ktrial.machine.transactions import IN_FORCE, UNFINISHED, unfinished
from ktrial.studies.goals import Goal, Measure
from ktrial.studies.suggest import candidates_of
from ktrial.studies.tune.model import TuneQuestion
from ktrial.studies.tune.select import groups_of
from ktrial.studies.tune.text import receipt_text
from ktrial.trial.protocol.from_words import pairs
from ktrial.tuning.plans.confirm import must_agree
from ktrial.tuning.plans.resolve import apply_plan, make_plan

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.studies.goals import Candidate
    from ktrial.studies.tune.model import TuneReceipt
    from ktrial.tuning.catalog.model import Catalog


def tune_question(
    app: App, name: str, own: tuple[str, ...] | None, options: dict[str, Any]
) -> tuple[str, TuneQuestion, dict[str, str]]:
    """Return the title, the question, and the reasons why some settings cannot be measured.

    The question contains the settings to try here.
    """
    if not app.may_run_trials:
        raise Refused("trials run on machines, not in folders", hint="leave out --machine-root")
    catalog, (name,) = app.catalog_for((name,))
    goal = _goal(app, catalog, name, own, options)
    for one in goal.measure:
        give_programs_of(app, one.suite)
    session, dangerous = app.best_session("reading all values"), options["yes_dangerous"]
    found = candidates_of([goal], session, catalog, allow_dangerous=dangerous)
    candidates, left_out = list(found.candidates), dict(found.not_here)
    if own is None:
        candidates, unready = _measurable(app, candidates)
        left_out |= unready
    if not candidates:
        reasons = "; ".join(f"{one}: {why}" for one, why in left_out.items())
        raise BadInput(
            f"cannot tune {name}: none of its settings would change anything here that ktrial can measure"
            f"{f' ({reasons})' if reasons else ''}",
            hint=f"choose another goal: {', '.join(app.goals)}",
        )
    blocks = blocks_of(options)
    guards = pairs(options["guards"], "--guard")
    design = {"budget": budget_of(options)}
    template = template_file(name, own, options, design, guards=guards, secondary=options["secondary"], arms={})
    groups = groups_of(candidates[: options["most"]], template)
    if own is not None:
        bare = {"suite": None, "primary": options["primary"]}
        groups = tuple(msgspec.structs.replace(one, trial=msgspec.structs.replace(one.trial, **bare)) for one in groups)
    title = f"tune-{name}"[:40]
    seed = secrets.randbelow(2**32) if options["seed"] is None else options["seed"]
    question = TuneQuestion(name=f"{title}-{secrets.token_hex(3)}", groups=groups, seed=seed)
    _check_budget(name, blocks or template.budget, question.candidates)
    return title, question, left_out


def _check_budget(name: str, blocks: int, candidates: int) -> None:
    """Raise BadInput if trials of so many blocks cannot decide about all candidates, which share one error rate."""
    from ktrial.judge.planning import largest_cap
    from ktrial.judge.sequential import MOST_COMPARISONS

    largest_cap(blocks)
    try:
        largest_cap(blocks, candidates)
    except BadInput:
        raise BadInput(
            f"cannot tune {name}: trials of {blocks} blocks cannot decide about {candidates} settings at once",
            hint=f"use --most {MOST_COMPARISONS}"
            if candidates > MOST_COMPARISONS
            else "use --budget default, or try fewer settings with --most",
        ) from None


def _goal(app: App, catalog: Catalog, name: str, own: tuple[str, ...] | None, options: dict[str, Any]) -> Goal:
    """Return the goal, measured as the command line requests; a profile needs --suite or a command."""
    elsewhere = None
    if own is not None or options["suite"] is not None:
        elsewhere = Measure(knobs=("*",), suite=options["suite"] or "", primary=options["primary"] or "")
    if name in app.goals:
        goal = app.goals[name]
        return goal if elsewhere is None else msgspec.structs.replace(goal, measure=(elsewhere,))
    if name not in catalog.profiles:
        hint = f"name a goal ({', '.join(app.goals)}) or a profile of `ktrial profiles`"
        raise UnknownName("goal or profile", name, (*app.goals, *catalog.profiles), hint=hint)
    if elsewhere is None:
        raise BadInput(
            f"nothing to measure for the profile {name}", hint="add --suite NAME --primary OUTCOME, or -- CMD"
        )
    return Goal(name=name, what=catalog.profiles[name].summary, measure=(elsewhere,), profiles=(name,))


def _measurable(app: App, candidates: Sequence[Candidate]) -> tuple[list[Candidate], dict[str, str]]:
    """Return the candidates whose benchmarks can run here, and the reasons why others cannot."""
    why: dict[str, str] = {}
    for suite in dict.fromkeys(one.measure.suite for one in candidates):
        refuse_faulty(app, suite)
        entries = find_suite(suite, app.suites, app.benchmarks).benchmark
        for found in examine_with(((app.benchmarks[one.use], one.parameters) for one in entries), app.executor):
            if not found.ready:
                why[suite] = f"{found.why}; {found.next}" if found.next else str(found.why)
    return [one for one in candidates if one.measure.suite not in why], why


def applied(app: App, receipt: TuneReceipt, *, ask: bool, allow_dangerous: bool) -> TuneReceipt:
    """Apply all proven settings in one transaction, until it is reverted or the machine reboots."""
    words = [f"{address}={value}" for address, value in receipt.kept.items()]
    if ask and is_terminal():
        must_agree(f"Apply {' '.join(words)}?")
    root = app.root_session(f"applying {' '.join(words)}")
    plan, _ = make_plan(root, app.catalog, words, allow_dangerous=allow_dangerous)
    if plan.refusals:
        first = plan.refusals[0]
        raise KtrialError(f"cannot apply {first.address}: {first.reason}", hint=f"ktrial plan {' '.join(words)}")
    done = apply_plan(root, plan, {"kind": "keep"})
    failed = [step for step in done.steps if step.outcome not in IN_FORCE]
    if done.state != "applied" or failed:
        why = f"{failed[0].path}: {failed[0].message}" if failed else f"the transaction is {done.state}"
        hint = (
            unfinished(done)
            if done.state == UNFINISHED
            else f"look for the reason with `ktrial plan {' '.join(words)}`; everything has been restored"
        )
        raise KtrialError(f"cannot apply the proven settings: {why}", hint=hint)
    return msgspec.structs.replace(receipt, transaction=done.transaction)


def show(receipt: TuneReceipt, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(plain_json.line({"event": "receipt", "receipt": receipt}))
    else:
        sys.stdout.write(receipt_text(receipt, width=columns()))
