# SPDX-License-Identifier: Apache-2.0
"""`ktrial noise`: measure how much the runs of a benchmark differ by chance on this machine."""

from __future__ import annotations

from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import measurable_names
from ktrial.cli.options import (
    json_option,
    limit_option,
    long_option,
    metric_option,
    parameter_option,
    prepare_option,
    when_idle_option,
    write_answer,
)
from ktrial.cli.shared.bench import TakesCommand, own_words
from ktrial.cli.shared.command_environment import clean_env_option, env_option


@click.command(cls=TakesCommand, short_help="Measure the noise of a benchmark here.")
@click.argument("suite", shell_complete=measurable_names, required=False, metavar="[SUITE|BENCHMARK]")
@metric_option
@prepare_option
@limit_option
@env_option
@clean_env_option
@parameter_option
@click.option("--primary", metavar="OUTCOME", help="Outcome for which to show the effects that a trial can detect.")
@click.option("--settle", metavar="TIME", help="Time to wait before each run.  [0s]")
@click.option("--fresh", is_flag=True, help="Start over instead of resuming an interrupted measurement.")
@when_idle_option
@long_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, suite: str | None, **options: Any) -> int:
    """Measure how much a benchmark's runs differ if nothing changes; without a benchmark, list what was measured.

    \b
    ktrial noise
    ktrial noise memory-pressure
    ktrial noise quick --primary agent-lock.event-rate
    ktrial noise --metric 'rate_per_s:higher=([0-9.]+) ops' -- ./my-test

    ktrial makes ten blocks (rounds) of two runs, and stores the differences as a noise profile. Trials of the same
    benchmark and parameters use the newest profile for 30 days, or until the kernel, the governor or the tool changes.
    ktrial then knows before a trial which effects the trial can detect, and may plan fewer blocks. A huge effect may
    end the trial after four blocks.
    """
    from ktrial.cli.shared.noise import measure, stored_profiles
    from ktrial.trial.outcome.noise_text import profiles_text

    app: App = ctx.obj
    own = own_words(ctx)
    if suite is not None or own is not None:
        return measure(app, suite, own, options)
    found = stored_profiles(app)
    write_answer(
        options["as_json"],
        lambda: {"schema": "ktrial.noise/1", "profiles": found},
        lambda width: profiles_text(found, width=width),
    )
    return 0
