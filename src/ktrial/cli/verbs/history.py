# SPDX-License-Identifier: Apache-2.0
"""`ktrial history`: show an outcome over the stored sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, output_option, write_answer
from ktrial.compare.files import write_file

if TYPE_CHECKING:
    from ktrial.compare.history.model import History


@click.command(short_help="Show an outcome over time, and where its level changed.")
@click.argument("outcome", metavar="OUTCOME")
@click.option("--label", metavar="NAME", help="Show only sessions with this label.")
@click.option(
    "--by",
    type=click.Choice(["session", "kernel"]),
    default="session",
    show_default=True,
    help="Show one value per session or per kernel.",
)
@output_option("Also draw the history to FILE: .svg or .png.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@json_option
@click.pass_obj
def command(app: App, outcome: str, label: str | None, by: Any, output: Path | None, force: bool, as_json: bool) -> int:
    """Show the median of OUTCOME in each session over time, and where its level changed.

    \b
    ktrial history wakeup.p99 --label nightly
    ktrial history p99 --by kernel

    For each change ktrial shows the size of the effect, and what else differs between the sessions before and
    after it. ktrial leaves out sessions of trials, and needs 10 values or more to find a change.
    """
    from ktrial.cli.shared.bench import check_picture
    from ktrial.compare.history.history import history
    from ktrial.compare.history.text import history_text

    check_picture(output, force=force)
    found = history(outcome, app.store, label=label, by=by)
    if output is not None:
        write_file(output, _picture(found, output))
        app.say(f"wrote {output}")
    write_answer(as_json, lambda: found, lambda width: history_text(found, width=width))
    return 0


def _picture(found: History, output: Path) -> bytes:
    from ktrial.reports.charts.drawing import Style
    from ktrial.reports.charts.history import history_chart
    from ktrial.reports.charts.svg import png_bytes, svg_bytes

    return (svg_bytes if output.suffix.lower() == ".svg" else png_bytes)(history_chart(found, Style(width=900)))
