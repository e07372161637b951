# SPDX-License-Identifier: Apache-2.0
"""`ktrial trial`: trials from files, and all that were made here."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.completion import trial_names
from ktrial.cli.options import anyway_option, dangerous_option, json_option, write_json
from ktrial.cli.shared.fail_on import fail_on_option
from ktrial.kit.errors import BadInput, KtrialError

_LIMIT_BYTES = 1 << 20
_NAME = "[TRIAL]"


@click.group(short_help="Run trials from protocol files, resume and show them.")
def command() -> None:
    """Run trials from protocol files, resume them, and show results."""


@command.command(short_help="Run the trial of a protocol file.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--no-profile", is_flag=True, help="Skip the noise profile; plan the cap from the first seven blocks.")
@anyway_option
@dangerous_option
@fail_on_option
@json_option
@click.pass_obj
def run(app: App, file: Path, no_profile: bool, anyway: bool, yes_dangerous: bool, as_json: bool) -> int:
    """Run the trial that FILE describes (docs/trial.md), from its first block to its verdict."""
    from ktrial.cli.shared.run_trial import run_file
    from ktrial.kit.files import read_file
    from ktrial.trial.protocol.read import parse_trial_file

    trial = parse_trial_file(read_file(file, _LIMIT_BYTES), str(file))
    return run_file(app, trial, allow_dangerous=yes_dangerous, profile=not no_profile, as_json=as_json, anyway=anyway)


@command.command(short_help="Go on with a trial that was interrupted.")
@click.argument("name", required=False, shell_complete=trial_names, metavar=_NAME)
@dangerous_option
@fail_on_option
@json_option
@click.pass_obj
def resume(app: App, name: str | None, yes_dangerous: bool, as_json: bool) -> int:
    """Continue an interrupted trial; by default the newest."""
    from ktrial.cli.shared.run_trial import resume_trial

    return resume_trial(app, app.trials.find(name), allow_dangerous=yes_dangerous, as_json=as_json)


@command.command("next", short_help="Make the visit that is due.")
@click.argument("name", required=False, shell_complete=trial_names, metavar=_NAME)
@click.option("--done", metavar="ARM", help="Confirm that ARM is active when ktrial cannot detect it.")
@click.option("--dry-run", is_flag=True, help="Only show which visit is due.")
@dangerous_option
@fail_on_option
@json_option
@click.pass_obj
def next_(app: App, name: str | None, done: str | None, dry_run: bool, yes_dangerous: bool, as_json: bool) -> int:
    """Make the next visit of a trial whose arms you set up yourself, or whose visits are boots."""
    from ktrial.cli.shared.manual_trials import next_visit

    return next_visit(app, name, done=done, dry_run=dry_run, allow_dangerous=yes_dangerous, as_json=as_json)


@command.command(short_help="Go on beyond a trial's end.")
@click.argument("name", required=False, shell_complete=trial_names, metavar=_NAME)
@click.option("--blocks", type=click.IntRange(1, 1000), required=True, metavar="N", help="Number of blocks in all.")
@dangerous_option
@fail_on_option
@json_option
@click.pass_obj
def extend(app: App, name: str | None, blocks: int, yes_dangerous: bool, as_json: bool) -> int:
    """Continue an inconclusive trial whose protocol has `extend = true`."""
    from ktrial.cli.shared.run_trial import extend_trial

    return extend_trial(app, app.trials.find(name), blocks, allow_dangerous=yes_dangerous, as_json=as_json)


@command.command("list", short_help="List all trials.")
@json_option
@click.pass_obj
def list_(app: App, as_json: bool) -> None:
    """List all trials of the store, the newest first, with their verdicts."""
    from ktrial.kit.tables import columns
    from ktrial.trial.outcome.summary import summary_of
    from ktrial.trial.outcome.text import trials_text

    found = [summary_of(one, app.trials.log(one.trial)) for one in app.trials.all()]
    if as_json:
        write_json({"schema": "ktrial.trials/1", "trials": found})
    else:
        sys.stdout.write(trials_text(found, width=columns()))


@command.command(short_help="Show what a trial found.")
@click.argument("name", required=False, shell_complete=trial_names, metavar=_NAME)
@click.option("--all", "everything", is_flag=True, help="Show all figures, and exploratory outcomes.")
@fail_on_option
@json_option
@click.pass_obj
def show(app: App, name: str | None, everything: bool, as_json: bool) -> None:
    """Show what a trial found so far; by default the newest."""
    from ktrial.cli.shared.trial_outcome import show_trial

    show_trial(app, app.trials.find(name), everything=everything, as_json=as_json)


@command.command(short_help="Write the report of a trial.")
@click.argument("name", required=False, shell_complete=trial_names, metavar=_NAME)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="File to write.  [TRIAL.html]")
@click.pass_obj
def report(app: App, name: str | None, output: Path | None) -> None:
    """Write a trial's report as a single self-contained HTML file."""
    from ktrial.cli.shared.run_trial import write_report
    from ktrial.cli.shared.trial_outcome import load_comparison

    stored = app.trials.find(name)
    if stored.file.screen is not None:
        raise BadInput(f"{stored.trial} screens settings", hint="`ktrial trial show` shows it; `blame -o` draws it")
    path = output or Path(f"{stored.trial}.html")
    write_report(load_comparison(app, stored), path)
    app.say(f"the report is {path}")


@command.command(short_help="Reach a trial's verdicts again, from its runs.")
@click.argument("name", required=False, shell_complete=trial_names, metavar=_NAME)
@click.pass_obj
def recheck(app: App, name: str | None) -> int:
    """Draw every order again from the seed and reach every verdict again from the runs; status 1 if one differs."""
    from ktrial.cli.shared.run_trial import recheck_trial

    stored = app.trials.find(name)
    found = recheck_trial(app, stored)
    for sentence in found:
        app.say(sentence)
    if found:
        raise KtrialError(f"{stored.trial} does not hold", hint="nothing that rests on it should be believed")
    app.say(f"{stored.trial} holds: every order is the seed's, and its runs give every verdict again")
    return 0
