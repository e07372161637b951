# SPDX-License-Identifier: Apache-2.0
"""`ktrial ab`: compare commands in random blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import (
    budget_option,
    json_option,
    limit_option,
    long_option,
    metric_option,
    secondary_option,
    seed_option,
    when_idle_option,
    with_options,
)
from ktrial.cli.shared.command_environment import clean_env_option, env_option
from ktrial.cli.shared.fail_on import fail_on_option

#: Options with the names that hyperfine uses.
_around_options = with_options(
    click.option(
        "-w",
        "--warmup",
        type=click.IntRange(0, 1000),
        default=0,
        metavar="N",
        help="Run each command at least N times first; these runs do not count.  [1; 2 for the first command]",
    ),
    click.option(
        "-p",
        "--prepare",
        multiple=True,
        metavar="COMMAND",
        help="Command to run before each run, not measured. Give one --prepare for all commands, or one for each.",
    ),
    click.option(
        "-s",
        "--setup",
        multiple=True,
        metavar="COMMAND",
        help="Command to run once at the start. If each command has its own --setup, ktrial runs it at each change of"
        " command.",
    ),
    click.option(
        "-c",
        "--cleanup",
        multiple=True,
        metavar="COMMAND",
        help="Command that undoes --setup; ktrial runs it before another setup and at the end.",
    ),
    click.option(
        "-L",
        "--parameter-list",
        "parameters",
        nargs=2,
        multiple=True,
        metavar="NAME VALUES",
        help="Values (a,b,c) to put in place of {NAME}; ktrial compares all combinations. Repeatable.",
    ),
    click.option(
        "-n",
        "--command-name",
        "names",
        multiple=True,
        metavar="NAME",
        help="Name to show for a command; the first -n names the first command, and so on. Repeatable.",
    ),
    click.option("-S", "--shell", metavar="SHELL", help="Shell that runs the commands, such as bash.  [none]"),
    click.option("-N", "no_shell", is_flag=True, help="Run the commands without a shell. This is the default."),
    click.option("-i", "--ignore-failure", is_flag=True, help="Accept any exit status of the commands."),
)
_design_options = with_options(
    click.option(
        "--primary",
        metavar="OUTCOME",
        help="Outcome that decides.  [wall, the elapsed time; with one --metric, that metric]",
    ),
    secondary_option,
    click.option(
        "--detect",
        default="5%",
        show_default=True,
        metavar="SHARE",
        help="Size of the effect to find. If a comparison stays undecided, ktrial says how many blocks it needs.",
    ),
    click.option(
        "--margin", metavar="SHARE", help="Treat smaller differences of the primary outcome as equivalent.  [2%]"
    ),
    budget_option,
    click.option(
        "--settle",
        metavar="TIME",
        help="Time to wait before each run.  [0; 1s if the commands differ in --setup or --cleanup]",
    ),
    click.option("--time", "time_", metavar="TIME", help="Time limit of the comparison.  [none]"),
    seed_option(),
    click.option("--name", metavar="NAME", help="Name of the trial.  [ab, or the name of the campaign]"),
    click.option(
        "--campaign",
        metavar="NAME",
        help="Name of a campaign, a series of decisions to keep or revert that share one error limit of 5 %.",
    ),
    click.option(
        "--of",
        type=int,
        metavar="N",
        help="Planned number of decisions in the campaign, at most 64; the number cannot change later.",
    ),
    click.option(
        "--export-json",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the times to FILE in hyperfine's format.",
    ),
    click.option("--dry-run", is_flag=True, help="Print the protocol and check it here; measure nothing."),
)


@click.command(short_help="Compare commands and say which is faster.")
@click.argument("commands", nargs=-1, metavar="'CMD1' 'CMD2'…")
@_around_options
@metric_option
@limit_option
@env_option
@clean_env_option
@_design_options
@when_idle_option
@long_option
@fail_on_option
@json_option
@click.pass_obj
def command(app: App, /, commands: tuple[str, ...], export_json: Path | None, **options: Any) -> int:
    """Run commands in rounds, in random order, until ktrial knows which is faster or --budget is used up.

    \b
    ktrial ab 'sort data' 'sort -n data'
    ktrial ab -L jobs 1,2,4 --prepare 'make clean' 'make -j{jobs}'
    ktrial ab -S bash 'grep x *.log | wc -l' 'cat *.log | grep -c x'
    ktrial ab --campaign tune --of 32 ./old ./new && mv new old

    A block (round) runs each command once. ktrial compares each command with the first, and decides after seven blocks
    at the earliest; more commands or a campaign need more blocks. In a campaign ktrial prints one line; the exit
    status is then 0 to keep the second command, 3 to revert to the first, 4 if the campaign has no decision left.
    """
    from ktrial.cli.shared.ab import arms_of_line, exporter, protocol_of_commands
    from ktrial.cli.shared.run_trial import run_file, show_protocol

    arms = arms_of_line(commands, options)
    file = protocol_of_commands(arms, options)
    export = exporter(app, export_json, arms)
    if options["dry_run"]:
        show_protocol(app, file, allow_dangerous=False)
        return 0
    return run_file(app, file, allow_dangerous=False, profile=False, as_json=options["as_json"], export=export)
