# SPDX-License-Identifier: Apache-2.0
"""`ktrial trial`: run trials from protocol files, resume trials, and show results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import dangerous_option, json_option, output_option, when_idle_option
from ktrial.cli.shared.fail_on import fail_on_option
from ktrial.cli.shared.trial_options import boot_consent, extend_options, file_options, of_trial, resume_options

_LIMIT_BYTES = 1 << 20


@click.group(short_help="Resume and show trials, or run one from a file.")
def command() -> None:
    """Run trials from protocol files, resume them, and show results."""


@command.command(short_help="Run the trial of a protocol file.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@file_options
@fail_on_option
@json_option
@click.pass_obj
def run(app: App, /, file: Path, **options: Any) -> int:
    """Run the trial that the protocol FILE describes, up to its verdict (docs/trial.md).

    If FILE compares kernels or kernel arguments outside of guests, the machine reboots for each turn of a configuration
    (visit); --yes allows the reboots. If you set up the configurations by hand, run `ktrial trial next` for each visit.
    """
    from ktrial.cli.shared.run_trial import run_file
    from ktrial.kit.files import read_file
    from ktrial.trial.protocol.read import parse_trial_file

    trial = parse_trial_file(read_file(file, _LIMIT_BYTES), str(file))
    profile, anyway = not options["no_profile"], options["anyway"]
    consent = boot_consent(options)
    return run_file(app, trial, profile=profile, anyway=anyway, consent=consent, export=None, **_manner(options))


@command.command(short_help="Continue an interrupted trial.")
@of_trial
@resume_options
@fail_on_option
@json_option
def resume(app: App, /, name: str | None, **options: Any) -> int:
    """Continue an interrupted or paused trial (default: the newest trial)."""
    from ktrial.cli.shared.run_trial import resume_trial

    consent = boot_consent({"anyway": False, **options})
    return resume_trial(app, app.trials.find(name), consent=consent, **_manner(options))


def _manner(options: dict[str, Any]) -> dict[str, bool]:
    """Return the arguments of the run functions that these options set."""
    names = {"allow_dangerous": "yes_dangerous", "as_json": "as_json", "unattended": "unattended"}
    return {argument: options[name] for argument, name in names.items()}


@command.command("next", short_help="Measure the next configuration of a manual trial.")
@of_trial
@click.option("--done", metavar="ARM", help="Confirm that the configuration ARM is active, if ktrial cannot detect it.")
@click.option("--dry-run", is_flag=True, help="Show which configuration is next; measure nothing.")
@click.option("--boots", is_flag=True, hidden=True)
@when_idle_option
@dangerous_option
@fail_on_option
@json_option
def next_(
    app: App, name: str | None, done: str | None, dry_run: bool, boots: bool, yes_dangerous: bool, as_json: bool
) -> int:
    """Measure the next configuration, which you set up by hand, of a manual trial (default: the newest one)."""
    if boots and name is not None:
        from ktrial.cli.shared.boot_questions import go_on
        from ktrial.cli.shared.boot_trials import continue_in_boots

        return continue_in_boots(app, name, go_on)
    from ktrial.cli.shared.manual_trials import next_visit

    return next_visit(app, name, done=done, dry_run=dry_run, allow_dangerous=yes_dangerous, as_json=as_json)


@command.command(short_help="Pause a running live trial.")
@of_trial
def pause(app: App, name: str | None) -> int:
    """Pause a live trial (default: the running one), and restore everything until `ktrial trial resume`."""
    from ktrial.cli.shared.live_control import pause_trial

    return pause_trial(app, name)


@command.command(short_help="Stop a live trial, or one that this machine continues by itself.")
@of_trial
def stop(app: App, name: str | None) -> int:
    """Stop a live, unattended or rebooting trial (default: the running one); restore settings and keep the results."""
    from ktrial.cli.shared.unattended import stop_trial

    return stop_trial(app, name)


@command.command(short_help="Add blocks to an inconclusive trial.")
@of_trial
@click.option(
    "--blocks", type=click.IntRange(1, 1000), required=True, metavar="N", help="New total number of blocks (rounds)."
)
@extend_options
@fail_on_option
@json_option
def extend(app: App, name: str | None, blocks: int, yes_dangerous: bool, as_json: bool) -> int:
    """Continue an inconclusive trial (default: the newest trial) whose protocol has `[design] extend = true`."""
    from ktrial.cli.shared.run_trial import extend_trial

    return extend_trial(app, app.trials.find(name), blocks, allow_dangerous=yes_dangerous, as_json=as_json)


@command.command("list", short_help="List the stored trials.")
@click.argument("name", required=False, metavar="[NAME]")
@json_option
@click.pass_obj
def list_(app: App, name: str | None, as_json: bool) -> None:
    """List the stored trials with their verdicts, the newest first; with NAME, list only trials of that name."""
    from ktrial.cli.shared.trial_outcome import list_trials

    list_trials(app, name, as_json=as_json)


@command.command(short_help="Show what a trial found.")
@of_trial
@click.option(
    "--all", "everything", is_flag=True, help="Show all figures, and outcomes that were not part of the question."
)
@fail_on_option
@json_option
def show(app: App, name: str | None, everything: bool, as_json: bool) -> None:
    """Show what a trial (default: the newest) found so far."""
    from ktrial.cli.shared.boot_questions import show_question
    from ktrial.cli.shared.trial_outcome import show_trial

    trial = app.trials.find(name)
    if not as_json:
        show_question(app, trial)
    show_trial(app, trial, everything=everything, as_json=as_json)


@command.command(short_help="Write the report of a trial.")
@of_trial
@output_option("File to write.  [TRIAL.html]")
def report(app: App, name: str | None, output: Path | None) -> None:
    """Write the report of a trial (default: the newest) as a single self-contained HTML file."""
    from ktrial.cli.shared.run_trial import report_trial

    report_trial(app, app.trials.find(name), output)


@command.command(short_help="Recompute a trial's verdicts from its runs.")
@of_trial
def recheck(app: App, name: str | None) -> int:
    """Check a trial (default: the newest) against its own data.

    ktrial recomputes run orders, numbers and verdicts. The exit status is 1 if anything differs.
    """
    from ktrial.cli.shared.run_trial import recheck_trial

    recheck_trial(app, app.trials.find(name))
    return 0
