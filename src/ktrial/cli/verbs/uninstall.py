# SPDX-License-Identifier: Apache-2.0
"""`ktrial uninstall`: revert all changes and remove ktrial's files."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.options import is_terminal, yes_option


@click.command(short_help="Revert all changes and remove ktrial; keep results.")
@click.option("--force", is_flag=True, help="Also restore values that another program has changed since.")
@yes_option
@click.pass_obj
def command(app: App, force: bool, yes: bool) -> int:
    """Revert every transaction, and remove the recovery unit, the journal, the cache and the built tools.

    The command also undoes `ktrial keep`. In a checkout, ktrial also removes the Python environment and the built
    agent. ktrial leaves results and trials, reports, your own knobs and profiles, files that `ktrial export` or -o
    wrote, /etc/ktrial, and the checkout. At the end, ktrial lists what it removed, and the folders that remain.
    """
    from ktrial.agent.checkout import remaining_files, remove_own_files
    from ktrial.kit.tables import columns
    from ktrial.tuning.plans.confirm import must_agree
    from ktrial.tuning.plans.transaction_text import revert_text
    from ktrial.tuning.plans.uninstall import uninstall

    if not yes and is_terminal():
        must_agree("Revert all changes and remove ktrial's unit, journal, cache, built tools and environment?")
    gone = uninstall(app.root_session("reverting all and removing the journal and the unit"), force=force)
    sys.stdout.write(revert_text(gone.reverted, width=columns()))
    removed = [*gone.files, *(remove_own_files() if app.on_this_machine else [])]
    sys.stdout.write("".join(f"removed: {path}\n" for path in removed))
    sys.stdout.write("".join(f"remains: {path}\n" for path in remaining_files()))
    return int(gone.failed)
