# SPDX-License-Identifier: Apache-2.0
"""`ktrial report`: write a comparison as HTML, Markdown, a picture or JUnit XML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.completion import published_names
from ktrial.cli.shared.bench import check_output
from ktrial.compare.files import write_file
from ktrial.kit.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from ktrial.judge.model.comparison import Comparison
    from ktrial.reports.charts.drawing import Chart

_ENDINGS = (".html", ".md", ".svg", ".png", ".xml")
_WIDE, _NARROW = 900, 400


@click.command(short_help="Write a comparison as HTML, Markdown, SVG, PNG or JUnit.")
@click.argument("what", shell_complete=published_names, metavar="COMPARISON.json|TRIAL")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    required=True,
    help="File to write; its extension selects the format.",
)
@click.option(
    "--chart",
    "name",
    metavar="NAME",
    help="For .svg and .png: chart to draw, such as forest (all effects) or runs.  [forest; with --outcome, runs]",
)
@click.option(
    "--outcome",
    metavar="OUTCOME",
    help="For .svg and .png charts of one outcome: the outcome to draw.  [the primary outcome]",
)
@click.option("--summary", is_flag=True, help="Write a few lines of Markdown, for the summary of a CI step.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.pass_obj
def command(
    app: App, what: str, output: Path, name: str | None, outcome: str | None, summary: bool, force: bool
) -> int:
    """Write a trial or the result of `ktrial compare -o` as .html, .md, .svg, .png, or .xml (JUnit).

    The HTML report is one file that works offline.

    \b
    ktrial compare stock tuned -o found.json
    ktrial report found.json -o found.html
    ktrial report swappiness-10-3fa9c1 -o trial.html
    ktrial report found.json -o runs.svg --chart runs --outcome fio.write_p99
    ktrial report found.json -o "$GITHUB_STEP_SUMMARY" --summary --force
    """
    ending = ".md" if summary else output.suffix.lower()
    if ending not in _ENDINGS:
        raise BadInput(f"-o {output}: unknown report format", hint=f"name a file that ends in {', '.join(_ENDINGS)}")
    check_output(output, force=force)
    from ktrial.cli.shared.trial_outcome import comparison_named
    from ktrial.reports.charts import left_out

    comparison = comparison_named(app, what)

    write_file(output, _report_bytes(comparison, ending, name, outcome, summary=summary))
    for warning in left_out():
        app.say(warning)
    app.say(f"wrote {output}")
    return 0


def _report_bytes(
    comparison: Comparison, ending: str, name: str | None, outcome: str | None, *, summary: bool
) -> bytes:
    if ending == ".html":
        from ktrial.reports.html import html_page

        return html_page(comparison).encode()
    if ending == ".xml":
        from ktrial.reports.junit import junit_xml

        return junit_xml(comparison)
    if ending == ".md":
        from ktrial.reports.markdown import markdown, step_summary

        return (step_summary if summary else markdown)(comparison).encode()
    from ktrial.reports.charts.svg import png_bytes, svg_bytes

    return (svg_bytes if ending == ".svg" else png_bytes)(_chart(comparison, name, outcome))


def _chart(comparison: Comparison, name: str | None, outcome: str | None) -> Chart:
    """Return the named chart.

    Without a name, return the outcome's first chart; without an outcome too, the chart of all effects or the first one.
    """
    from ktrial.reports.charts import comparison_charts, outcome_charts
    from ktrial.reports.charts.drawing import Style
    from ktrial.reports.order import by_weight

    outcomes = {one.name: one for one in by_weight(comparison.outcomes)}
    if outcome is not None and outcome not in outcomes:
        raise UnknownName("outcome", outcome, outcomes, hint=f"use one of: {', '.join(outcomes)}")
    charts = {chart.name: chart for chart in comparison_charts(comparison, Style(width=_WIDE))}
    chosen = outcomes[outcome] if outcome is not None else next(iter(outcomes.values()), None)
    own = () if chosen is None else outcome_charts(comparison, chosen, Style(width=_NARROW))
    charts |= {chart.name: chart for chart in own}
    if not charts:
        raise BadInput(
            "cannot draw a chart: this comparison has nothing to draw", hint="write the report to a .html or .md file"
        )
    name = name or (own[0].name if outcome is not None and own else next(iter(charts)))
    if name not in charts:
        raise UnknownName("chart", name, charts, hint=f"use one of: {', '.join(charts)}")
    return charts[name]
