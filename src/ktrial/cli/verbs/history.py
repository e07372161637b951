# SPDX-License-Identifier: Apache-2.0
"""`ktrial history`: an outcome over the sessions of the store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json
from ktrial.compare.files import write_file
from ktrial.kit.errors import BadInput

if TYPE_CHECKING:
    from ktrial.compare.history.model import History


@click.command(short_help="Show an outcome over time, and where its level changed.")
@click.argument("outcome", metavar="OUTCOME")
@click.option("--label", metavar="NAME", help="Show only sessions with this label.")
@click.option(
    "--by",
    type=click.Choice(["session", "kernel"]),
    default="session",
    help="Show one value per session or per kernel.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Also draw it to FILE: .svg or .png."
)
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@json_option
@click.pass_obj
def command(app: App, outcome: str, label: str | None, by: Any, output: Path | None, force: bool, as_json: bool) -> int:
    """Show the median of OUTCOME in each session, the oldest first, and where its level changed.

    \b
    ktrial history wakeup.p99 --label nightly
    ktrial history p99 --by kernel

    For each change it shows the effect, and what else is known to differ between the two sessions.
    """
    from ktrial.compare.history.history import history
    from ktrial.compare.history.text import history_text
    from ktrial.kit.tables import columns

    if output is not None:
        _check(output, force=force)
    found = history(outcome, app.store, label=label, by=by)
    if output is not None:
        write_file(output, _picture(found, output))
        app.say(f"written: {output}")
    if as_json:
        write_json(found)
    else:
        sys.stdout.write(history_text(found, width=columns()))
    return 0


def _check(output: Path, *, force: bool) -> None:
    from ktrial.cli.shared.bench import check_output

    if output.suffix.lower() not in (".svg", ".png"):
        raise BadInput(f"-o {output}: no kind of picture", hint="end its name in .svg or .png")
    check_output(output, force=force)


def _picture(found: History, output: Path) -> bytes:
    from ktrial.reports.charts.drawing import Style
    from ktrial.reports.charts.history import history_chart
    from ktrial.reports.charts.svg import png_bytes, svg_bytes

    return (svg_bytes if output.suffix.lower() == ".svg" else png_bytes)(history_chart(found, Style(width=900)))
