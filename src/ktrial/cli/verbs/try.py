# SPDX-License-Identifier: Apache-2.0
"""`ktrial try`: measure whether settings help on this machine."""

from __future__ import annotations

from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import (
    boots_options,
    guard_option,
    load_options,
    secondary_option,
    spelled_words,
    words_argument,
)
from ktrial.cli.shared.bench import TakesCommand, own_words
from ktrial.cli.shared.fail_on import fail_on_option
from ktrial.cli.shared.results_leaving import results_out_options
from ktrial.cli.shared.trial_options import (
    boot_consent,
    designed_options,
    measured_options,
    protocol_file,
    settings_of_files,
    unattended_option,
)


@click.command(cls=TakesCommand, short_help="Measure whether a setting or profile helps here.")
@words_argument("[PROFILE|FILE|KNOB=VALUE…]")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KNOB=VALUE[,…]",
    callback=spelled_words,
    help="Setting to try, the same as an argument KNOB=VALUE. Repeatable.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="PROFILE|FILE",
    help="Profile to try, the same as an argument PROFILE or FILE. Repeatable.",
)
@measured_options
@guard_option
@secondary_option
@click.option(
    "--env",
    "environment",
    multiple=True,
    metavar="NAME=VALUE",
    help="Environment variable to set in the tried configurations, not in the baseline. Repeatable.",
)
@click.option("--placebo", is_flag=True, help="Also try a change that does nothing, to show what chance does.")
@click.option("--name", metavar="NAME", help="Name of the trial.  [from the settings]")
@load_options
@unattended_option
@boots_options
@results_out_options
@fail_on_option
@designed_options
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], **options: Any) -> int:
    """Compare settings with the machine as it is, in random order, and restore everything afterwards.

    \b
    ktrial try vm.swappiness=10 --suite memory-pressure
    ktrial try --profile ktweak --suite quick --primary agent-lock.event-rate
    ktrial try ./rest.toml --suite memory-pressure
    ktrial try --set vm.swappiness=10,60,100 --suite memory-pressure
    ktrial try thp:enabled=always --metric 'rate_per_s:higher=([0-9.]+) ops' -- ./my-test

    FILE is a profile; `ktrial review tweaks.txt -o rest.toml` makes one from a list of tweaks. ktrial tries all named
    settings together, and the values of a list such as 10,60,100 one by one. Without --suite or CMD, ktrial chooses a
    suite that can measure the settings.
    """
    from ktrial.cli.shared.run_trial import run_file, show_protocol
    from ktrial.trial.protocol.from_words import arms_of, default_suite, name_of, pairs
    from ktrial.trial.protocol.read import check_trial_file

    app: App = ctx.obj
    own = own_words(ctx)
    words = settings_of_files(app, (*options["profiles"], *words, *options["settings"]))
    environment = pairs(options["environment"], "--env")
    arms = arms_of(words, app.catalog, environment, placebo=options["placebo"])
    suite: str | None = options["suite"]
    if suite is None and own is None:
        suite = default_suite(words, app.catalog)
    name: str = options["name"] or name_of(arms)
    guards = pairs(options["guards"], "--guard")
    load = {name: options[name] for name in ("load_from", "load_address") if options[name] is not None}
    file = protocol_file(name, suite, own, options, guards=guards, secondary=options["secondary"], arms=arms, **load)
    check_trial_file(file)
    dangerous, profile = options["yes_dangerous"], not options["no_profile"]
    if options["dry_run"]:
        show_protocol(app, file, allow_dangerous=dangerous)
        return 0
    return run_file(
        app,
        file,
        allow_dangerous=dangerous,
        profile=profile,
        as_json=options["as_json"],
        anyway=options["anyway"],
        consent=boot_consent(options),
        unattended=options["unattended"],
    )
