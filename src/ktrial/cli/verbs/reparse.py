# SPDX-License-Identifier: Apache-2.0
"""`ktrial reparse`: parse stored raw output again."""

from __future__ import annotations

import sys

import click

from ktrial.cli.app import App
from ktrial.cli.completion import session_names
from ktrial.cli.options import json_option, write_json

EXIT_CHANGED = 1


@click.command(short_help="Read stored raw output again; check the stored numbers.")
@click.argument("sessions", nargs=-1, shell_complete=session_names, metavar="[SESSION…]")
@json_option
@click.pass_obj
def command(app: App, sessions: tuple[str, ...], as_json: bool) -> int:
    """Check that this version of ktrial still reads the stored numbers from the raw output.

    ktrial parses the output of each SESSION again (default: all sessions), shows which stored numbers would change, and
    writes nothing. The exit status is 1 if anything would change. `ktrial recheck` checks a bundle or a published
    folder, `ktrial trial recheck` a stored trial.
    """
    from ktrial.evidence.reparse import reparse
    from ktrial.kit.tables import columns
    from ktrial.results.text import reparsed_text

    chosen = [app.store.session(name) for name in sessions] if sessions else app.store.sessions()
    found = list(reparse((one.session for one in chosen), app.store, app.benchmarks))
    if as_json:
        write_json({"schema": "ktrial.reparsed/1", "runs": found})
    else:
        rows = [(f"{one.session}/{one.run}", one.benchmark, one.changes, one.unread) for one in found]
        sys.stdout.write(reparsed_text(rows, width=columns()))
    return EXIT_CHANGED if any(one.changes for one in found) else 0
