# SPDX-License-Identifier: Apache-2.0
"""`ktrial schedulers`: find out which scheduler is best for a workload on this machine."""

from __future__ import annotations

from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import guard_option, long_option, secondary_option
from ktrial.cli.shared.bench import TakesCommand, own_words
from ktrial.cli.shared.command_environment import env_option
from ktrial.cli.shared.fail_on import fail_on_option
from ktrial.cli.shared.trial_options import designed_here_options, measured_options, watched_options


@click.command(cls=TakesCommand, short_help="Find the best scheduler for a workload here.")
@click.option("--only", multiple=True, metavar="NAME", help="Compare only this scheduler, such as lavd. Repeatable.")
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(("auto", "gaming", "powersave", "lowlatency", "server", "all")),
    help="Mode in which scx_loader starts each scheduler; all stands for the five others. Repeatable.  [auto]",
)
@click.option("--live", is_flag=True, help="Compare while the machine does its usual work, which --metric measures.")
@watched_options
@measured_options
@env_option
@guard_option
@secondary_option
@click.option("--placebo", is_flag=True, help="Also compare the kernel's own scheduler with itself.")
@click.option("--name", metavar="NAME", help="Name of the trial.  [schedulers]")
@fail_on_option
@designed_here_options
@long_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Compare the sched_ext schedulers that are installed here with the kernel's own, and say which scheduler to use.

    \b
    ktrial schedulers
    ktrial schedulers --only lavd --only bpfland --suite frames --primary agent-pressure.frame-p99
    ktrial schedulers --only lavd --mode all -- make -j8
    ktrial schedulers --live --metric 'ms:lower=log:/var/log/app.log?match=([0-9.]+) ms' --for 2h

    The schedulers take turns in random order within one boot. If the kernel ejects a scheduler, that run fails. At the
    end ktrial restores the kernel's own scheduler.

    Without --suite, --live or CMD, ktrial measures the suite `schedulers`. The options from --covariate to --disturbing
    need --live. With --live, write --metric as for `ktrial live`.
    """
    from ktrial.cli.shared.run_trial import run_file, show_protocol
    from ktrial.cli.shared.schedulers import schedulers_file, startable

    app: App = ctx.obj
    file = schedulers_file(app, own_words(ctx), options)
    dangerous = options["yes_dangerous"]
    if options["dry_run"]:
        show_protocol(app, file, allow_dangerous=dangerous)
        return 0
    return run_file(
        app,
        startable(app, file),
        allow_dangerous=dangerous,
        profile=not options["no_profile"],
        as_json=options["as_json"],
        anyway=options["anyway"],
    )
