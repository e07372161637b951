# SPDX-License-Identifier: Apache-2.0
"""`ktrial apply`: apply settings as one reversible transaction."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import (
    dangerous_option,
    is_terminal,
    json_option,
    seconds,
    settings_argument,
    write_json,
    yes_option,
)
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.agent.session import AgentSession
    from ktrial.tuning.plans.model import Plan


@click.command(short_help="Apply a profile or settings as one transaction.")
@settings_argument
@click.option(
    "--for",
    "for_",
    metavar="TIME",
    help="Revert after TIME (30s, 10m, 1h), even if this terminal closes; `ktrial confirm` keeps the settings.",
)
@click.option(
    "--confirm", metavar="TIME", help="Ask whether to keep the settings; revert after TIME without an answer."
)
@click.option(
    "--keep-going", is_flag=True, help="Apply what works and report the rest.  [undo everything if one setting fails]"
)
@yes_option
@dangerous_option
@json_option
@click.pass_obj
def command(
    app: App,
    words: tuple[str, ...],
    for_: str | None,
    confirm: str | None,
    keep_going: bool,
    yes: bool,
    yes_dangerous: bool,
    as_json: bool,
) -> int:
    """Apply a profile or settings. ktrial saves the old values first; `ktrial revert` restores them.

    \b
    sudo ./ktrial apply vm.swappiness=10
    sudo ./ktrial apply micro-stutter-watermarks --confirm 30s
    """
    from ktrial.kit.tables import columns
    from ktrial.tuning.plans.plan_text import plan_text
    from ktrial.tuning.plans.resolve import check_words, make_plan, refuse_dangerous

    lease = _lease(for_, confirm)
    catalog, names = app.catalog_for(words)
    check_words(names, catalog)
    root = app.root_session(f"applying {' '.join(words)}")
    plan, facts = make_plan(root, catalog, names, allow_dangerous=yes_dangerous)
    refuse_dangerous(plan, yes_dangerous)
    if not as_json:
        text = plan_text(plan, catalog.knobs, facts, width=columns())
        sys.stdout.write(text.replace("; nothing was written", ""))
    if plan.empty:
        return _nothing(app, plan, as_json)
    if not yes and not as_json and is_terminal():
        from ktrial.tuning.plans.confirm import must_agree

        must_agree("Apply?")
    transaction = _carry_out(root, plan, lease, keep_going=keep_going, as_json=as_json)
    if transaction is None:
        return 1
    if confirm:
        from ktrial.tuning.plans.confirm import ask_to_keep

        return ask_to_keep(root, transaction, seconds(confirm, "--confirm"))
    if for_:
        from ktrial.cli.hosts import again

        app.say(f"transaction {transaction} reverts in {for_}; keep it with `{again(app.host)} confirm {transaction}`")
    return 0


def _lease(for_: str | None, confirm: str | None) -> dict[str, Any]:
    if for_ and confirm:
        raise BadInput(
            "cannot combine --for with --confirm", hint="use --for if nobody can answer, otherwise --confirm"
        )
    if not (for_ or confirm):
        return {"kind": "keep"}
    lease_s = seconds(for_ or confirm or "", "--for" if for_ else "--confirm")
    return {"kind": "until-confirmed", "seconds": math.ceil(lease_s)}


def _carry_out(root: AgentSession, plan: Plan, lease: dict[str, Any], *, keep_going: bool, as_json: bool) -> int | None:
    """Apply the plan and report the result; return the transaction, or None if nothing is in force."""
    from ktrial.kit.tables import columns
    from ktrial.machine.transactions import IN_FORCE
    from ktrial.tuning.plans.confirm import apply_whole
    from ktrial.tuning.plans.transaction_text import apply_text
    from ktrial.tuning.plans.wire import wire_plan

    wire = wire_plan(plan, lease, keep_going=keep_going)
    applied, answer = apply_whole(root, lambda: root.request("apply", plan=wire))
    if as_json:
        write_json({"schema": "ktrial.applied/1", **answer})
    else:
        steps = [change.address for change in plan.changes] + ["zram"]
        sys.stdout.write(apply_text(applied, steps, width=columns()))
    in_force = any(step.outcome in IN_FORCE for step in applied.steps)
    return applied.transaction if applied.state == "applied" and in_force else None


def _nothing(app: App, plan: Plan, as_json: bool) -> int:
    """Return 0 if all settings are in force already, and 1 if all were skipped."""
    if as_json:
        write_json({"schema": "ktrial.applied/1", "transaction": None, "state": "nothing-to-do", "steps": []})
    if not plan.refusals or plan.same:
        return 0
    app.say("nothing was applied" if as_json else "nothing was applied; the reasons are above")
    return 1
