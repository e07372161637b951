# SPDX-License-Identifier: Apache-2.0
"""`ktrial plan`: show what `ktrial apply` would change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import dangerous_option, json_option, settings_words, spelled_words, write_answer
from ktrial.kit.errors import BadInput, Contradiction

if TYPE_CHECKING:
    from ktrial.machine.facts import FactBook
    from ktrial.tuning.catalog.model import Catalog
    from ktrial.tuning.plans.model import Plan


@click.command(short_help="Show what a profile or settings would change here.")
@settings_words(spell=False)
@dangerous_option
@json_option
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...], yes_dangerous: bool, as_json: bool) -> int:
    """Show what a profile or settings would change on this machine, and what ktrial would skip and why.

    If only some arguments are wrong, ktrial plans the others, names the mistakes and exits with status 2.

    \b
    ktrial plan vm.swappiness=10
    ktrial plan ktweak
    ktrial plan ./mine.toml
    ktrial plan 'queue:scheduler@[rotational=false]=none'
    """
    from ktrial.tuning.plans.plan_text import plan_json, plan_text

    app: App = ctx.obj
    machine = app.best_session("reading all values")

    def planned(*some: str) -> tuple[Plan, Catalog, FactBook]:
        from ktrial.tuning.plans.resolve import make_plan

        catalog, names = app.catalog_for(spelled_words(ctx, None, some))
        plan, facts = make_plan(machine, catalog, names, allow_dangerous=yes_dangerous)
        return plan, catalog, facts

    wrong: dict[str, BadInput] = {}
    try:
        plan, catalog, facts = planned(*words)
    except BadInput as error:
        if isinstance(error, Contradiction) or len(words) < 2:
            raise
        wrong = _wrong_words(words, planned)
        if len(wrong) in {0, len(words)}:
            raise
        plan, catalog, facts = planned(*(word for word in words if word not in wrong))
    write_answer(
        as_json,
        lambda: plan_json(plan, wrong),
        lambda width: plan_text(plan, catalog.knobs, facts, wrong, width=width),
    )
    return BadInput.exit_status if wrong else 0


def _wrong_words(words: Iterable[str], plan: Callable[[str], object]) -> dict[str, BadInput]:
    """Return the words that ktrial cannot plan even alone, with the mistake in each."""
    wrong = {}
    for word in words:
        try:
            plan(word)
        except BadInput as error:
            wrong[word] = error
    return wrong
