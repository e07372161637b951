# SPDX-License-Identifier: Apache-2.0
"""`ktrial blame`: find which of several settings is responsible for an effect."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import (
    boot_anyway_option,
    boots_options,
    dangerous_option,
    json_option,
    margin_option,
    output_option,
    secondary_option,
    seed_option,
    when_idle_option,
    words_argument,
)
from ktrial.cli.shared.bench import TakesCommand, check_picture, own_words
from ktrial.cli.shared.trial_options import build_options, guest_options, measured_options


@click.command(cls=TakesCommand, short_help="Find which of many settings helps or does harm.")
@words_argument("[PROFILE|FILE|KNOB=VALUE…]")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="PROFILE|FILE",
    help="Profile whose settings are the suspects. Repeatable.",
)
@measured_options
@secondary_option
@click.option(
    "--known",
    type=click.Choice(["better", "worse", "either"]),
    help="Effect of all settings together, if you know it; `either` finds both helpful and harmful settings."
    "  [measured first, by a trial]",
)
@click.option(
    "--detect",
    default="5%",
    show_default=True,
    metavar="SHARE",
    help="Size of the effect to find. If a trial stays undecided, `ktrial trial show` says how many blocks it needs.",
)
@margin_option
@click.option(
    "--budget",
    type=click.IntRange(9, 60),  # fewer blocks cannot decide the three comparisons of a confirming trial
    default=25,
    show_default=True,
    metavar="N",
    help="Maximum number of blocks (rounds) of each trial that measures or confirms an effect.",
)
@click.option(
    "--cap",
    type=click.IntRange(12, 72),
    default=72,
    show_default=True,
    metavar="N",
    help="Maximum number of blocks (rounds) of each search for suspects.",
)
@click.option("--time", "time_", metavar="TIME", help="Time limit of each trial.  [none]")
@click.option("--settle", metavar="TIME", help="Time to wait after each change.  [chosen per setting]")
@click.option(
    "--env",
    "environment",
    multiple=True,
    metavar="NAME=VALUE",
    help="Environment variable to add to the suspects. Repeatable.",
)
@click.option(
    "--guest", is_flag=True, help="Measure a suite in guests (virtual machines), with a boot for each measurement."
)
@click.option(
    "--boot",
    "boots",
    multiple=True,
    metavar="ARGUMENTS",
    help="Kernel arguments to add to the suspects; ktrial then reboots this machine, or boots guests. Repeatable.",
)
@click.option("--kernel", metavar="KERNEL", help="Kernel to boot in guests; implies --guest.  [running]")
@build_options
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SYMBOL=VALUE…",
    help="With --tree: Kconfig symbols to add as one suspect; at most four such suspects. Repeatable.",
)
@guest_options
@seed_option(2**62)
@click.option("--fresh", is_flag=True, help="Start over instead of resuming an interrupted blame.")
@boots_options
@when_idle_option
@boot_anyway_option
@output_option("Also draw a chart of the effects to FILE: .svg or .png.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.option(
    "--dry-run", is_flag=True, help="Show the suspects, the number of runs and the time needed; measure nothing."
)
@dangerous_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], profiles: tuple[str, ...], **options: Any) -> int:
    """Find which of several settings is responsible for the effect of all of them together.

    \b
    ktrial blame --profile ktweak --suite agent-messaging-pipe
    ktrial profile import tweaks.conf -o tweaks.toml
    ktrial blame ./tweaks.toml --suite memory-pressure --dry-run
    ktrial blame vm.swappiness=10 vm.dirty_ratio=5 thp:enabled=never --known worse --suite memory-pressure
    ktrial blame --env MALLOC_ARENA_MAX=1 --env OMP_NUM_THREADS=1 -- ./my-test
    ktrial blame --boot nohz=off --boot highres=off --boot threadirqs --suite wakeups-busy --yes
    ktrial blame --boot nohz=off --boot highres=off --guest --suite wakeups-busy
    ktrial blame --tree linux.tar.xz --set HZ_100=y --set PREEMPT=y vm.swappiness=10 --suite wakeups-busy

    Each block (round) measures a random half of the settings, and the other half. Then a trial confirms each suspect.
    ktrial leaves out settings that are in force already; to include them, undo them first. Run the same command again
    to resume. With --boot and without guests, this machine reboots for each measurement, until the answer is known;
    --yes allows the reboots.
    """
    from ktrial.cli.shared.blame import Budgets, blame_question, find_answer, picture, question_of, show, show_cost
    from ktrial.compare.files import write_file
    from ktrial.kit.tables import columns
    from ktrial.studies.blame.text import question_text

    app: App = ctx.obj
    output: Path | None = options["output"]
    check_picture(output, force=options["force"])
    catalog, names = app.catalog_for((*profiles, *words))
    arm, template = blame_question(catalog, names, own_words(ctx), options)
    dangerous = options["yes_dangerous"]
    question, left_out = question_of(
        app,
        catalog,
        arm,
        template,
        Budgets(options["known"], options["cap"], options["budget"]),
        options["boots"],
        options["settings"],
        seed=options["seed"],
        allow_dangerous=dangerous,
    )
    sys.stderr.write(question_text(question, left_out, is_dry_run=options["dry_run"], width=columns()))
    if options["dry_run"]:
        show_cost(app, question, allow_dangerous=dangerous)
        return 0
    found = find_answer(app, question, left_out, template.name, options)
    if isinstance(found, int):
        return found
    show(found, as_json=options["as_json"])
    if output is not None and found.screenings:
        write_file(output, picture(found, output.suffix.lower()))
        app.say(f"wrote {output}")
    return 0
