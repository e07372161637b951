# SPDX-License-Identifier: Apache-2.0
"""`ktrial apply`: write settings as one transaction that can be undone."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.options import (
    dangerous_option,
    is_terminal,
    json_option,
    seconds,
    settings_argument,
    write_json,
    yes_option,
)
from ktrial.cli.wiring import App
from ktrial.domain.errors import BadInput, KtrialError, Refused

if TYPE_CHECKING:
    from ktrial.domain.plan import Plan
    from ktrial.host.agent import AgentSession


@click.command(short_help="Apply a profile or settings as one transaction.")
@settings_argument
@click.option("--for", "for_", metavar="TIME", help="Put all back after TIME (30s, 10m, 1h) unless confirmed.")
@click.option("--confirm", metavar="TIME", help="Ask whether to keep them; put all back when TIME passes unanswered.")
@click.option("--keep-going", is_flag=True, help="Apply what can be applied; report the rest.")
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
    """Apply a profile or settings. Old values are on disk before the first write; `ktrial revert` puts them back.

    \b
    sudo ./ktrial apply vm.swappiness=10
    sudo ./ktrial apply micro-stutter-watermarks --confirm 30s
    """
    from ktrial.report.plan import plan_text
    from ktrial.report.terminal import columns
    from ktrial.report.transaction import apply_text
    from ktrial.services.tune import apply_plan, make_plan

    if for_ and confirm:
        raise BadInput("--for and --confirm exclude each other", hint="--confirm asks; --for only waits")
    lease_s = seconds(for_ or confirm or "0.001s", "--for" if for_ else "--confirm")
    lease: dict[str, Any] = (
        {"kind": "until-confirmed", "seconds": math.ceil(lease_s)} if for_ or confirm else {"kind": "keep"}
    )
    catalog, names = app.catalog_for(words)
    root = app.root_session(f"applying {' '.join(words)}")
    plan, facts = make_plan(root, catalog, names, allow_dangerous=yes_dangerous)
    _refuse_dangerous(plan, yes_dangerous)
    if not as_json:
        text = plan_text(plan, catalog.knobs, facts, width=columns())
        sys.stdout.write(text.replace("; nothing was written", ""))
    if plan.empty:
        _nothing(as_json)
        if plan.refusals and not plan.same:
            app.say("nothing of this is in force here; the reasons are above" if not as_json else "nothing is in force")
            return 1
        return 0
    if not yes and not as_json and is_terminal():
        click.confirm("Apply?", abort=True, err=True)
    answer = apply_plan(root, plan, lease, keep_going=keep_going)
    if as_json:
        write_json({"schema": "ktrial.applied/1", **answer})
    else:
        steps = [change.address for change in plan.changes] + ["zram"]
        sys.stdout.write(apply_text(answer, steps, width=columns()))
    if answer["state"] != "applied":
        return 1
    if confirm:
        return _ask_to_keep(root, int(answer["transaction"]), lease_s)
    if for_:
        app.say(f"reverts by itself in {for_}; `ktrial confirm {answer['transaction']}` keeps it")
    return 0


def _nothing(as_json: bool) -> None:
    if as_json:
        write_json({"schema": "ktrial.applied/1", "transaction": None, "state": "nothing-to-do", "steps": []})


def _refuse_dangerous(plan: Plan, allowed: bool) -> None:
    from ktrial.domain.plan import Why

    dangerous = [refusal.address for refusal in plan.refusals if refusal.kind is Why.DANGEROUS]
    if dangerous and not allowed and plan.empty:
        raise Refused(f"dangerous: {', '.join(dangerous)}", hint="read `ktrial explain`; --yes-dangerous applies it")


def _ask_to_keep(root: AgentSession, transaction: int, limit_s: float) -> int:
    """Ask until the lease ends. The agent's holder puts all back, whatever becomes of this process."""
    import select
    import time

    end = time.monotonic() + limit_s
    while (left := end - time.monotonic()) > 0:
        sys.stderr.write(f"\rKeep these settings? [y/N] (put back in {left:.0f} s) ")
        sys.stderr.flush()
        ready, _, _ = select.select([sys.stdin], [], [], min(1.0, left))
        if not ready:
            continue
        answer = sys.stdin.readline()
        if answer.strip().lower() in {"y", "yes"}:
            root.request("confirm", transaction=transaction)
            sys.stderr.write("Kept. `ktrial revert` undoes them.\n")
            return 0
        if answer:
            break
        time.sleep(min(1.0, max(0.0, end - time.monotonic())))
    sys.stderr.write("\nNot confirmed: putting all back.\n")
    try:
        root.request("revert", select={"only": transaction})
    except KtrialError as error:
        sys.stderr.write(f"ktrial: {error.message}; the lease puts it back\n")
    return 0
