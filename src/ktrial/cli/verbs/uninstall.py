# SPDX-License-Identifier: Apache-2.0
"""`ktrial uninstall`: take everything away."""

from __future__ import annotations

import sys

import click

from ktrial.cli.options import is_terminal, yes_option
from ktrial.cli.wiring import App


@click.command(short_help="Revert all and remove what ktrial made.")
@click.option("--force", is_flag=True, help="Also put back what somebody else changed since.")
@yes_option
@click.pass_obj
def command(app: App, force: bool, yes: bool) -> int:
    """Revert every transaction, remove the recovery unit, the journal, the cache, the built tools and the environment.

    Own knobs and profiles, results, and the checkout itself stay; the last lines name them.
    """
    from ktrial.cli.question import must_agree
    from ktrial.host.checkout import remaining_files, remove_own_files
    from ktrial.report.terminal import columns
    from ktrial.report.transaction import revert_text
    from ktrial.services.uninstall import uninstall

    if not yes and is_terminal():
        must_agree("Revert all and remove ktrial's unit, journal, cache, built tools and environment?")
    gone = uninstall(app.root_session("reverting all and removing the journal and the unit"), force=force)
    sys.stdout.write(revert_text(gone.reverted, width=columns()))
    removed = [*gone.files, *(remove_own_files() if app.on_this_machine else [])]
    sys.stdout.write("".join(f"removed: {path}\n" for path in removed))
    sys.stdout.write("".join(f"remains: {path}\n" for path in remaining_files()))
    return int(gone.failed)
