# SPDX-License-Identifier: Apache-2.0
"""`ktrial ladder`: profiles stacked in tiers, each against the one before it."""

from __future__ import annotations

import sys
from typing import Any

import click

from ktrial.cli.measuring import TakesCommand, own_words
from ktrial.cli.names import profile_names
from ktrial.cli.options import dangerous_option, json_option
from ktrial.cli.wiring import App
from ktrial.domain.errors import BadInput, Refused


@click.command(cls=TakesCommand, short_help="Try profiles stacked in tiers.")
@click.argument("name", shell_complete=profile_names, metavar="LADDER|FILE")
@click.option("--suite", metavar="SUITE|BENCHMARK", help="What is measured (or a command after --).")
@click.option("--metric", "metrics", multiple=True, metavar="SPEC", help="NAME:lower=REGEX: a number that CMD prints.")
@click.option("-p", "--parameter", "given", multiple=True, metavar="NAME=VALUE", help="Set a parameter of it.")
@click.option("--primary", metavar="OUTCOME", help="The outcome that decides.")
@click.option("--also", "secondary", multiple=True, metavar="OUTCOME", help="A further outcome that is judged.")
@click.option("--detect", default="5%", show_default=True, metavar="SHARE", help="The effect that is worth finding.")
@click.option("--margin", metavar="SHARE", help="Smaller differences do not matter.  [2%]")
@click.option("--budget", default="default", show_default=True, metavar="NAME|BLOCKS", help="quick, default, thorough.")
@click.option("--settle", metavar="TIME", help="Wait after every switch.  [as the settings want]")
@click.option("--time", "time_", metavar="TIME", help="End where no further block fits into it.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Draw the same orders again.")
@click.option("--no-profile", is_flag=True, help="Make no noise profile: the first seven blocks plan the cap.")
@click.option("--dry-run", is_flag=True, help="Print the protocol and measure nothing.")
@dangerous_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, name: str, **options: Any) -> int:
    """Try the tiers of a ladder: each on top of those before it, against the one before and against the lowest.

    \b
    ktrial ladder arashi --suite arashi --primary schbench.wakeup_p99
    ktrial ladder ./mine.toml -- ./my-test

    All tiers run in the same blocks, in random order. Those that need a boot or a build are listed as not run.
    """
    from ktrial.cli.trying import run_file
    from ktrial.domain.trial_file import DesignFile, TrialFile, check_trial_file, trial_text
    from ktrial.report.ladder import tiers_text
    from ktrial.report.terminal import columns
    from ktrial.services.ladder import ladder_of, ladder_trial, left_out, possible, tier_plans
    from ktrial.services.trial_words import pair

    app: App = ctx.obj
    own = own_words(ctx)
    budget: str = options["budget"]
    if not app.may_run_trials:
        raise Refused("trials run on this machine only", hint="leave --machine-root out")
    catalog, (ladder_name,) = app.catalog_for((name,))
    ladder = ladder_of(ladder_name, catalog)
    suite = options["suite"] or (ladder_name if own is None and ladder_name in app.suites else None)
    if suite is None and own is None:
        raise BadInput("what is to be measured?", hint=f"--suite NAME, or a command:  ktrial ladder {name} -- CMD")
    template = TrialFile(
        name=f"ladder-{ladder_name}"[:60],
        suite=suite,
        command=own or (),
        metrics=options["metrics"],
        parameters=dict(pair(one, "-p") for one in options["given"]),
        primary=options["primary"],
        secondary=options["secondary"],
        detect=options["detect"],
        margin=options["margin"],
        design=DesignFile(
            budget=int(budget) if budget.isdigit() else budget,
            settle=options["settle"],
            time=options["time_"],
            seed=options["seed"],
        ),
        arms={},
    )
    dangerous = options["yes_dangerous"]
    machine = app.best_session("planning the tiers")
    plans = tier_plans(ladder, machine, catalog, allow_dangerous=dangerous)
    ladder = possible(ladder, plans)
    file = ladder_trial(ladder, template)
    check_trial_file(file)
    tiers = tiers_text(ladder.not_run, left_out(ladder, plans), width=columns())
    if options["dry_run"]:
        sys.stdout.write(trial_text(file))
        sys.stderr.write(tiers)
        return 0
    profile = not options["no_profile"]
    status = run_file(app, file, allow_dangerous=dangerous, profile=profile, as_json=options["as_json"])
    sys.stderr.write(tiers)
    return status
