# SPDX-License-Identifier: Apache-2.0
"""`ktrial try`: whether a setting is any good on this machine."""

from __future__ import annotations

import sys

import click

from ktrial.cli.measuring import TakesCommand, own_words
from ktrial.cli.names import setting_words
from ktrial.cli.options import dangerous_option, json_option
from ktrial.cli.wiring import App


@click.command(cls=TakesCommand, short_help="Put a setting or a profile on trial.")
@click.argument("words", shell_complete=setting_words, nargs=-1, metavar="[PROFILE|KNOB=VALUE…]")
@click.option("--suite", metavar="SUITE|BENCHMARK", help="What is measured (or a command after --).")
@click.option("--metric", "metrics", multiple=True, metavar="SPEC", help="NAME:lower=REGEX: a number that CMD prints.")
@click.option("-p", "--parameter", "given", multiple=True, metavar="NAME=VALUE", help="Set a parameter of it.")
@click.option("--primary", metavar="OUTCOME", help="The outcome that decides.")
@click.option("--guard", "guards", multiple=True, metavar="OUTCOME=SHARE", help="Must not get worse by more.")
@click.option("--detect", default="5%", show_default=True, metavar="SHARE", help="The effect that is worth finding.")
@click.option("--margin", metavar="SHARE", help="Smaller differences do not matter.  [2%]")
@click.option("--budget", default="default", show_default=True, metavar="NAME|BLOCKS", help="quick, default, thorough.")
@click.option("--settle", metavar="TIME", help="Wait after every switch.  [as the settings want]")
@click.option("--time", "time_", metavar="TIME", help="End where no further block fits into it.")
@click.option("--env", "environment", multiple=True, metavar="NAME=VALUE", help="An arm with this environment.")
@click.option("--placebo", is_flag=True, help="Add an arm that changes nothing.")
@click.option("--name", metavar="NAME", help="What the trial is called.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Draw the same orders again.")
@click.option("--no-profile", is_flag=True, help="Make no noise profile: the first seven blocks plan the cap.")
@click.option("--dry-run", is_flag=True, help="Print the protocol and measure nothing.")
@dangerous_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    suite: str | None,
    metrics: tuple[str, ...],
    given: tuple[str, ...],
    primary: str | None,
    guards: tuple[str, ...],
    detect: str,
    margin: str | None,
    budget: str,
    settle: str | None,
    time_: str | None,
    environment: tuple[str, ...],
    placebo: bool,
    name: str | None,
    seed: int | None,
    no_profile: bool,
    dry_run: bool,
    yes_dangerous: bool,
    as_json: bool,
) -> int:
    """Try settings against the machine as it is: randomised blocks, read back, judged, and everything put back.

    \b
    ktrial try vm.swappiness=10 --suite memory-pressure
    ktrial try vm.swappiness=10,60,100 --suite memory-pressure
    ktrial try thp:enabled=always --metric 'rate_per_s:higher=([0-9.]+) ops' -- ./my-test
    """
    from ktrial.cli.trying import run_file
    from ktrial.domain.trial_file import DesignFile, TrialFile, check_trial_file, trial_text
    from ktrial.services.trial_words import arms_of, default_suite, pair

    app: App = ctx.obj
    own = own_words(ctx)
    arms = arms_of(words, app.catalog, dict(pair(one, "--env") for one in environment), placebo=placebo)
    if suite is None and own is None:
        suite = default_suite(words, app.catalog)
    file = TrialFile(
        name=name or "-".join(arm for arm in arms if arm != "control")[:60],
        suite=suite,
        command=own or (),
        metrics=metrics,
        parameters=dict(pair(one, "-p") for one in given),
        primary=primary,
        guards=dict(pair(one, "--guard") for one in guards),
        detect=detect,
        margin=margin,
        design=DesignFile(budget=int(budget) if budget.isdigit() else budget, settle=settle, time=time_, seed=seed),
        arms=arms,
    )
    check_trial_file(file)
    if dry_run:
        sys.stdout.write(trial_text(file))
        return 0
    return run_file(app, file, allow_dangerous=yes_dangerous, profile=not no_profile, as_json=as_json)
