# SPDX-License-Identifier: Apache-2.0
"""`ktrial fleet`: one trial over the machines of an Ansible inventory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import idle_option, json_option, with_options

_NAME = "[FLEET]"
_machines_options = with_options(
    click.option(
        "-i", "--inventory", multiple=True, metavar="INVENTORY", help="Ansible inventory. Repeatable.  [required]"
    ),
    click.option("--limit", metavar="PATTERN", help="Use only these hosts or groups of the inventory."),
    click.option(
        "--forks",
        type=click.IntRange(1, 500),
        default=8,
        show_default=True,
        metavar="N",
        help="Number of machines to reach at once.",
    ),
)


@click.group(short_help="Run a trial on many machines, then roll out the result.")
def command() -> None:
    """Run one trial on the machines of an Ansible inventory; each machine counts as one observation.

    \b
    ktrial fleet run backlog.toml -i hosts.ini --limit web
    ktrial fleet status
    ktrial fleet report
    ktrial fleet rollout -i hosts.ini
    """


@command.command(short_help="Run a fleet's trial, or continue it.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@_machines_options
@idle_option("Measure a machine only while nobody and nothing else uses it; repeat disturbed blocks.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show the waves and how long they take, or the status of this file's unfinished trial; measure nothing.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before measuring.")
@json_option
@click.pass_obj
def run(app: App, /, file: Path, **options: Any) -> int:
    """Run the trial of the protocol FILE on many machines, wave by wave.

    `ktrial try … --dry-run` prints a protocol; add the table [fleet] to it, as docs/fleets.md shows.

    If the trial of this file has not ended, for example after Ctrl-C, ktrial continues it. If a wave does harm or
    gives no result, ktrial stops the trial and restores the machines; the exit status is then 3.
    """
    from ktrial.cli.shared.fleet import MachineChoice, run_fleet

    chosen = MachineChoice(*(options.pop(one) for one in ("inventory", "limit", "forks")))
    return run_fleet(app, file, chosen, **options)


@command.command(short_help="Show the progress of a trial.")
@click.argument("name", required=False, metavar=_NAME)
@json_option
@click.pass_obj
def status(app: App, name: str | None, as_json: bool) -> None:
    """Show each machine's state, and on which machine `ktrial fleet run` runs.

    FLEET is the name that `ktrial fleet run` printed, or its first letters; the default is the newest trial.
    """
    from ktrial.cli.shared.fleet import show_status

    show_status(app, name, as_json=as_json)


@command.command(short_help="Stop a trial and restore all machines.")
@click.argument("name", required=False, metavar=_NAME)
@_machines_options
@json_option
@click.pass_obj
def stop(app: App, name: str | None, inventory: tuple[str, ...], limit: str | None, forks: int, as_json: bool) -> int:
    """Stop a fleet's trial. Each machine that ktrial reaches restores its settings at once; the results stay.

    A machine that is away restores its settings later, by itself.

    FLEET is the name that `ktrial fleet run` printed, or its first letters; the default is the newest trial.
    """
    from ktrial.cli.shared.fleet import MachineChoice, stop_fleet

    return stop_fleet(app, name, MachineChoice(inventory, limit, forks), as_json=as_json)


@command.command(short_help="Fetch results of machines that were away.")
@click.argument("name", required=False, metavar=_NAME)
@_machines_options
@json_option
@click.pass_obj
def collect(
    app: App, name: str | None, inventory: tuple[str, ...], limit: str | None, forks: int, as_json: bool
) -> int:
    """Fetch the results of machines that were away when the trial ended, and judge the trial again.

    FLEET is the name that `ktrial fleet run` printed, or its first letters; the default is the newest trial.
    """
    from ktrial.cli.shared.fleet import MachineChoice, collect_fleet

    return collect_fleet(app, name, MachineChoice(inventory, limit, forks), as_json=as_json)


@command.command(short_help="Keep a proven setting on all machines.")
@click.argument("name", required=False, metavar=_NAME)
@_machines_options
@click.option(
    "--arm", metavar="ARM", help="Configuration (arm) of the trial to keep.  [the better arm; else the first]"
)
@click.option("--undo", is_flag=True, help="Undo the roll-out, wave by wave.")
@click.option("--anyway", is_flag=True, help="Keep the arm even if the trial did not prove it better.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before writing.")
@json_option
@click.pass_obj
def rollout(app: App, /, name: str | None, **options: Any) -> int:
    """Keep the proven settings of a fleet's trial on the machines of an inventory, wave by wave.

    If a machine fails, ktrial stops the roll-out and undoes what that machine's wave changed. If a machine fails
    during --undo, ktrial only stops.

    FLEET is the name that `ktrial fleet run` printed, or its first letters; the default is the newest trial.
    """
    from ktrial.cli.shared.fleet import MachineChoice, roll_out_fleet

    chosen = MachineChoice(*(options.pop(one) for one in ("inventory", "limit", "forks")))
    return roll_out_fleet(app, name, chosen, **options)


@command.command(short_help="Show the result of a trial.")
@click.argument("name", required=False, metavar=_NAME)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Page to write: .html (one file that works offline) or .md.",
)
@click.option("--markdown", is_flag=True, help="Write Markdown to stdout.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@json_option
@click.pass_obj
def report(app: App, name: str | None, output: Path | None, markdown: bool, force: bool, as_json: bool) -> int:
    """Show the effect, how much it differs between machines, and for which machines the verdict holds.

    The exit status is 3 if ktrial stopped the trial after a wave that did harm or gave no result.

    FLEET is the name that `ktrial fleet run` printed, or its first letters; the default is the newest trial.
    """
    from ktrial.cli.shared.fleet import show_result, write_report

    if output is not None or markdown:
        return write_report(app, name, output, markdown=markdown, force=force, as_json=as_json)
    return show_result(app, name, as_json=as_json)
