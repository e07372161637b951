# SPDX-License-Identifier: Apache-2.0
"""`ktrial show`: show a stored session or run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.completion import session_names
from ktrial.cli.options import json_option, write_json
from ktrial.kit.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from ktrial.results.model import StoredRun


@click.command(short_help="Show a session, a run, or a run's raw output.")
@click.argument("place", shell_complete=session_names, metavar="SESSION[/RUN]")
@click.option("--raw", "name", metavar="NAME", help="Print this raw output of a run, such as stdout or files/NAME.")
@json_option
@click.pass_obj
def command(app: App, place: str, name: str | None, as_json: bool) -> int:
    """Show a session (all runs of one measurement) with its outcomes, or one run with its full record.

    You may shorten a session's name as long as it stays unique.

    \b
    ktrial show 20261121T2
    ktrial show 20261121T214239Z-1f2e3d/4 --raw stdout
    """
    from ktrial.kit.tables import columns
    from ktrial.results.model import kept_findings, summaries
    from ktrial.results.text import run_text, session_text

    session_name, slash, run_number = place.rpartition("/")
    session = app.store.session(session_name if slash else place)
    if not slash:
        if name is not None:
            raise BadInput("--raw requires a run", hint=f"ktrial show {session.session}/1 --raw {name}")
        runs = list(app.store.runs(session.session))
        found, doubts = summaries(runs), kept_findings(session, runs)
        if as_json:
            fields = {"session": session, "summaries": found, "findings": doubts, "runs": runs}
            write_json({"schema": "ktrial.session/1", **fields})
        else:
            sys.stdout.write(session_text(session, found, runs, doubts, width=columns()))
        return 0
    run = _find(app, session.session, run_number)
    if name is not None:
        _write_raw(app, run, name)
    elif as_json:
        write_json({"schema": "ktrial.session/1", "session": session, "runs": [run]})
    else:
        sys.stdout.write(run_text(run, width=columns()))
    return 0


def _find(app: App, session: str, number: str) -> StoredRun:
    runs = {str(run.number): run for run in app.store.runs(session)}
    if number not in runs:
        hint = f"use a number from 1 to {max(map(int, runs))}" if runs else "run `ktrial runs` to list other sessions"
        raise UnknownName(f"run of {session}", number, (), hint=hint)
    return runs[number]


def _write_raw(app: App, run: StoredRun, name: str) -> None:
    if name not in run.raw:
        hint = f"use one of: {', '.join(sorted(run.raw))}" if run.raw else "choose a run that has raw output"
        raise UnknownName(f"raw output of {run.session}/{run.number}", name, run.raw, hint=hint)
    sys.stdout.flush()
    sys.stdout.buffer.write(app.store.raw(run.raw[name]))
    sys.stdout.buffer.flush()
