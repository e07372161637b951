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
from ktrial.domain.errors import BadInput, Interrupted, Refused

if TYPE_CHECKING:
    from ktrial.domain.plan import Plan


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
    from ktrial.cli.question import ask_to_keep, held_back, put_back
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
    root = app.root_session(f"applying {' '.join(words)}")
    plan, facts = make_plan(root, app.catalog, words, allow_dangerous=yes_dangerous)
    _refuse_dangerous(plan, yes_dangerous)
    if not as_json:
        text = plan_text(plan, app.catalog.knobs, facts, width=columns())
        sys.stdout.write(text.replace("; nothing was written", ""))
    if plan.empty:
        return _nothing(as_json)
    if not yes and not as_json and is_terminal():
        click.confirm("Apply?", abort=True, err=True)
    with held_back() as presses:
        answer = apply_plan(root, plan, lease, keep_going=keep_going)
    if presses.count and answer["state"] == "applied":
        put_back(root, int(answer["transaction"]))
        raise Interrupted("interrupted")
    if as_json:
        write_json({"schema": "ktrial.applied/1", **answer})
    else:
        names = [change.address for change in plan.changes] + ["zram"]
        sys.stdout.write(apply_text(answer, names, width=columns()))
    if answer["state"] != "applied" or not any(step["outcome"] in {"accepted", "clamped"} for step in answer["steps"]):
        return 1
    if confirm:
        return ask_to_keep(root, int(answer["transaction"]), lease_s)
    if for_:
        app.say(f"reverts by itself in {for_}; `ktrial confirm {answer['transaction']}` keeps it")
    return 0


def _nothing(as_json: bool) -> int:
    if as_json:
        write_json({"schema": "ktrial.applied/1", "transaction": None, "state": "nothing-to-do", "steps": []})
    return 0


def _refuse_dangerous(plan: Plan, allowed: bool) -> None:
    from ktrial.domain.plan import Why

    dangerous = [refusal.address for refusal in plan.refusals if refusal.kind is Why.DANGEROUS]
    if dangerous and not allowed and plan.empty:
        raise Refused(f"dangerous: {', '.join(dangerous)}", hint="read `ktrial explain`; --yes-dangerous applies it")
