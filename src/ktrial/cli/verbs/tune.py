# SPDX-License-Identifier: Apache-2.0
"""`ktrial tune`: try the settings of a goal or profile, and keep those that are better."""

from __future__ import annotations

import sys
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import goal_words, measurable_names
from ktrial.cli.options import (
    budget_option,
    dangerous_option,
    guard_option,
    json_option,
    margin_option,
    metric_option,
    prepare_option,
    secondary_option,
    seed_option,
    when_idle_option,
    yes_to,
)
from ktrial.cli.shared.bench import TakesCommand, own_words
from ktrial.cli.shared.command_environment import clean_env_option, env_option


@click.command(cls=TakesCommand, short_help="Try settings for a goal, and apply what is proven.")
@click.argument("goal", shell_complete=goal_words, metavar="GOAL|PROFILE|FILE")
@click.option(
    "--suite",
    shell_complete=measurable_names,
    metavar="SUITE|BENCHMARK",
    help="Suite or benchmark to measure instead of the goal's. A profile needs --suite or CMD.",
)
@metric_option
@prepare_option
@env_option
@clean_env_option
@click.option("--primary", metavar="OUTCOME", help="With --suite or CMD: outcome that decides each trial.")
@guard_option
@secondary_option
@click.option("--detect", default="5%", show_default=True, metavar="SHARE", help="Size of the effect to find.")
@margin_option
@budget_option
@click.option("--settle", metavar="TIME", help="Time to wait after each change.  [chosen per setting]")
@click.option("--time", "time_", metavar="TIME", help="Time limit of each trial.  [none]")
@click.option(
    "--most",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Try only the N settings that are safest and best supported.",
)
@seed_option(2**62, "tuning, to reproduce its run orders")
@click.option("--fresh", is_flag=True, help="Start over instead of resuming an interrupted tuning.")
@click.option("--no-apply", is_flag=True, help="Measure and write the receipt; apply nothing.")
@click.option("--dry-run", is_flag=True, help="Show what ktrial would try; measure nothing.")
@yes_to("Do not ask before measuring for more than half an hour, or before applying what is proven.")
@when_idle_option
@dangerous_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, goal: str, **options: Any) -> int:
    """Try the settings of a goal or profile in trials, and apply those that are better.

    \b
    ktrial tune latency
    ktrial tune micro-stutter --suite memory-pressure --primary frame-p99
    ktrial tune ./rest.toml --suite memory-pressure
    ktrial tune ktweak --metric 'rate_per_s:higher=([0-9.]+) ops' -- ./my-test

    A trial compares up to eight settings. ktrial drops each setting that its trial does not show to be better, or that
    breaks a --guard. If several settings of a trial are better, ktrial tries them together; if they are not better
    together, only the best setting remains.

    Then ktrial applies the remaining settings in one transaction, until the next boot. On a terminal, ktrial asks
    first, unless you give --json or --yes. The printed receipt gives the reasons, and the command that undoes the
    changes.
    """
    from functools import partial

    from ktrial.cli.shared.several_trials import carry_out, find_unfinished
    from ktrial.cli.shared.tune import applied, show, tune_question
    from ktrial.kit import plain_json
    from ktrial.kit.tables import columns
    from ktrial.studies.tune.select import follow
    from ktrial.studies.tune.text import tune_text

    app: App = ctx.obj
    title, question, left_out = tune_question(app, goal, own_words(ctx), options)
    sys.stderr.write(tune_text(question, left_out, width=columns()))
    if options["dry_run"]:
        return 0
    question, parts = (question, []) if options["fresh"] else find_unfinished(app, question, title, follow)
    dangerous, as_json = options["yes_dangerous"], options["as_json"]
    course, unchecked = partial(follow, question), lambda _: None
    most = question.most_visits
    receipt = carry_out(app, course, parts, unchecked, most_visits=most, allow_dangerous=dangerous, as_json=as_json)
    if receipt is None:
        return app.end_interrupted("all finished runs are stored; run the same command again to continue")
    if receipt.kept and not options["no_apply"]:
        receipt = applied(app, receipt, ask=not (options["yes"] or as_json), allow_dangerous=dangerous)
    show(receipt, as_json=as_json)
    app.say(f"wrote the receipt {app.receipts.save(receipt.name, plain_json.document(receipt))}")
    return 0
