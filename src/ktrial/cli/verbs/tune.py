# SPDX-License-Identifier: Apache-2.0
"""`ktrial tune`: try what a goal or a profile proposes, and keep what is proven."""

from __future__ import annotations

import sys
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import goal_words, measurable_names
from ktrial.cli.options import dangerous_option, json_option, yes_option
from ktrial.cli.shared.bench import TakesCommand, own_words
from ktrial.cli.shared.command_environment import clean_env_option, env_option


@click.command(cls=TakesCommand, short_help="Try candidates for a goal, and keep what is proven.")
@click.argument("goal", shell_complete=goal_words, metavar="GOAL|PROFILE")
@click.option(
    "--suite",
    shell_complete=measurable_names,
    metavar="SUITE|BENCHMARK",
    help="Suite or benchmark to measure instead of the goal's.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="Read a number that CMD prints: NAME:lower=REGEX. Repeatable.",
)
@env_option
@clean_env_option
@click.option("--primary", metavar="OUTCOME", help="Outcome that decides.")
@click.option(
    "--guard",
    "guards",
    multiple=True,
    metavar="OUTCOME=SHARE",
    help="Outcome that must not get worse by more than SHARE. Repeatable.",
)
@click.option("--detect", default="5%", show_default=True, metavar="SHARE", help="Smallest effect worth finding.")
@click.option("--margin", metavar="SHARE", help="Differences below this do not matter.  [2%]")
@click.option(
    "--budget",
    default="default",
    show_default=True,
    metavar="NAME|BLOCKS",
    help="Maximum number of blocks: quick, default, thorough or a number.",
)
@click.option("--settle", metavar="TIME", help="Wait after each change.  [chosen per setting]")
@click.option("--time", "time_", metavar="TIME", help="Time limit of each trial.")
@click.option("--most", type=click.IntRange(1, 1000), metavar="N", help="Try only the first N candidates.")
@click.option("--seed", type=click.IntRange(0, 2**62), metavar="N", help="Reproduce the run order of an earlier trial.")
@click.option("--fresh", is_flag=True, help="Start over instead of resuming an interrupted run.")
@click.option("--no-apply", is_flag=True, help="Write the receipt; apply nothing.")
@click.option("--dry-run", is_flag=True, help="Show what would be tried; measure nothing.")
@yes_option
@dangerous_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, goal: str, **options: Any) -> int:
    """Try the candidates of a goal, or the settings of a profile, and keep those that a trial calls better.

    \b
    ktrial tune latency
    ktrial tune micro-stutter --suite memory-pressure --primary frame-p99
    ktrial tune ktweak --metric 'rate_per_s:higher=([0-9.]+) ops' -- ./my-test

    ktrial refuses what breaks a guard, and keeps nothing undecided. If several candidates are better, it tries them
    together first. It applies all in one transaction; the receipt says why, and how to undo it.
    """
    from ktrial.cli.shared.several_trials import find_unfinished
    from ktrial.cli.shared.tune import applied, carry_on_tuning, keep_receipt, show, tune_question
    from ktrial.kit import interruption
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
    receipt = carry_on_tuning(app, question, parts, allow_dangerous=dangerous, as_json=as_json)
    if receipt is None:
        app.say(f"{interruption.words(app.interrupts.number)}; the same command goes on with it")
        return interruption.status(app.interrupts.number)
    if receipt.kept and not options["no_apply"]:
        receipt = applied(app, receipt, ask=not (options["yes"] or as_json), allow_dangerous=dangerous)
    show(receipt, as_json=as_json)
    app.say(f"the receipt is {keep_receipt(app, receipt)}")
    return 0
