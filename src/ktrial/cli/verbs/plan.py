# SPDX-License-Identifier: Apache-2.0
"""`ktrial plan`: show what `ktrial apply` would change."""

from __future__ import annotations

import click

from ktrial.cli.app import App
from ktrial.cli.options import dangerous_option, json_option, settings_argument, write_answer


@click.command(short_help="Show what a profile or settings would change here.")
@settings_argument
@dangerous_option
@json_option
@click.pass_obj
def command(app: App, words: tuple[str, ...], yes_dangerous: bool, as_json: bool) -> None:
    """Show what a profile or settings would change on this machine, and what ktrial would skip and why.

    \b
    ktrial plan vm.swappiness=10
    ktrial plan ktweak
    ktrial plan ./mine.toml
    ktrial plan 'queue:scheduler@[rotational=false]=none'
    """
    from ktrial.tuning.plans.plan_text import plan_json, plan_text
    from ktrial.tuning.plans.resolve import make_plan

    machine = app.best_session("reading all values")
    catalog, names = app.catalog_for(words)
    plan, facts = make_plan(machine, catalog, names, allow_dangerous=yes_dangerous)
    write_answer(as_json, lambda: plan_json(plan), lambda width: plan_text(plan, catalog.knobs, facts, width=width))
