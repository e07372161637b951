# SPDX-License-Identifier: Apache-2.0
"""`ktrial export-runs`: write results in other tools' formats."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.completion import session_names
from ktrial.cli.options import output_option
from ktrial.cli.shared.bench import check_output
from ktrial.compare.files import write_file
from ktrial.kit.errors import UnknownName
from ktrial.results.exporters import run_formats


def _formats(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in run_formats() if name.startswith(incomplete)]


@click.command(short_help="Write measured runs in another tool's format.")
@click.argument("sessions", nargs=-1, required=True, shell_complete=session_names, metavar="SESSION…")
@click.option(
    "--format",
    "format_",
    metavar="|".join(run_formats()),
    required=True,
    shell_complete=_formats,
    help="Format in which to write the runs.",
)
@output_option("Write to FILE instead of stdout.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.pass_obj
def command(app: App, sessions: tuple[str, ...], format_: str, output: Path | None, force: bool) -> int:
    """Export the runs of sessions as hyperfine JSON, Go benchmark text, margine-bench-kernel/1 JSON, or tidy CSV.

    ktrial lists on stderr what the format cannot represent. To export all data of a session, use `ktrial bundle`.

    \b
    ktrial export-runs 20261121T2 --format csv -o results.csv
    ktrial export-runs 20261121T2 20261120T1 --format gobench -o stock.txt
    """
    from ktrial.results.exporters import run_exporters
    from ktrial.results.model import SessionRuns
    from ktrial.results.text import iso_date

    check_output(output, force=force)
    exporters = run_exporters(app.say)
    if format_ not in exporters:
        raise UnknownName("format", format_, exporters, hint=f"use one of: {', '.join(exporters)}")
    chosen = [app.store.session(name) for name in sessions]
    _, write = exporters[format_]
    made = write(
        [
            SessionRuns(session=one, runs=tuple(app.store.runs(one.session)), date=iso_date(one.started_unix_ms))
            for one in chosen
        ]
    )
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(made.data)
    else:
        write_file(output, made.data)
    for text in made.left_out:
        app.say(f"not in {format_}: {text}")
    return 0
