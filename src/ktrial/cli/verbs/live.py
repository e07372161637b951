# SPDX-License-Identifier: Apache-2.0
"""`ktrial live`: measure whether settings help the work that this machine does anyway."""

from __future__ import annotations

from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import (
    budget_option,
    dangerous_option,
    json_option,
    long_option,
    margin_option,
    seed_option,
    settings_words,
)
from ktrial.cli.shared.fail_on import fail_on_option
from ktrial.cli.shared.results_leaving import results_out_options
from ktrial.cli.shared.trial_options import watched_options


@click.command(short_help="Try a setting on live work, without a benchmark.")
@settings_words("[PROFILE|FILE|KNOB=VALUE…]")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="Number that describes the live work: NAME:lower=KIND:REST if lower is better, otherwise"
    " NAME:higher=KIND:REST. KIND is log, prometheus, command or another source (docs/live-sources.md). Without"
    " --primary, the first metric decides; ktrial also judges the others. Repeatable.",
)
@click.option("--secondary", multiple=True, hidden=True)  # has no effect: every metric has a role
@click.option("--primary", metavar="OUTCOME", help="Metric that decides the trial.  [the first metric]")
@click.option(
    "--guard",
    "guards",
    multiple=True,
    metavar="METRIC=SHARE",
    help="Metric that ends the trial as soon as it is surely worse by more than SHARE. Repeatable.",
)
@watched_options
@click.option("--placebo", is_flag=True, help="Also try a change that does nothing, to show what chance does.")
@click.option("--name", metavar="NAME", help="Name of the trial.  [from the settings]")
@click.option("--detect", default="5%", show_default=True, metavar="SHARE", help="Size of the effect to find.")
@margin_option
@budget_option
@seed_option()
@click.option("--dry-run", is_flag=True, help="Print the protocol and check it here; measure nothing.")
@dangerous_option
@long_option
@results_out_options
@fail_on_option
@json_option
@click.pass_obj
def command(app: App, /, words: tuple[str, ...], **options: Any) -> int:
    """Switch settings on and off while the machine does its usual work, and say whether they help.

    \b
    ktrial live vm.swappiness=10 --metric 'ms:lower=log:/var/log/app.log?match=([0-9.]+) ms'
    ktrial live vm.dirty_ratio=5 --metric 'rps:higher=prometheus:http://db1:9090?query=rps' --for 2d
    ktrial live vm.swappiness=10 --rate --blind --period 10m

    Each configuration stays in force for one period at a time. Without --period, a pilot comes first: ktrial watches
    the metrics, and then plans the length of a period and the number of blocks (rounds). If a metric breaks a --guard
    or --limit-metric, ktrial restores everything within seconds, and the exit status is 3. `ktrial trial pause`,
    `resume` and `stop` control a running trial.
    """
    from ktrial.cli.shared.live_sources import live_file
    from ktrial.cli.shared.run_trial import run_file, show_protocol
    from ktrial.cli.shared.trial_options import settings_of_files
    from ktrial.trial.protocol.from_words import arms_of, name_of
    from ktrial.trial.protocol.read import check_trial_file

    arms = arms_of(settings_of_files(app, words), app.catalog, {}, placebo=options["placebo"])
    file = live_file(options["name"] or name_of(arms), arms, options)
    check_trial_file(file)
    if options["dry_run"]:
        show_protocol(app, file, allow_dangerous=options["yes_dangerous"])
        return 0
    return run_file(
        app, file, allow_dangerous=options["yes_dangerous"], profile=False, as_json=options["as_json"], anyway=True
    )
