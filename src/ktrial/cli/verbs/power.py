# SPDX-License-Identifier: Apache-2.0
"""`ktrial power`: compute how many blocks a trial needs, given the noise."""

from __future__ import annotations

from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import result_names
from ktrial.cli.options import json_option, write_answer
from ktrial.cli.shared.compare import gathered, share, table_options
from ktrial.kit.errors import BadInput


@click.command(short_help="Plan how many blocks a trial needs to detect an effect.")
@click.argument("words", nargs=-1, shell_complete=result_names, metavar="[LABEL|SESSION|[NAME=]FILE…]")
@click.option("--detect", default="5%", show_default=True, metavar="SHARE", help="Size of the effect to find.")
@click.option("--margin", metavar="SHARE", help="Treat smaller differences as equivalent.  [2%; p95 5%, p99 10%]")
@click.option(
    "--budget",
    default=20,
    show_default=True,
    type=click.IntRange(7, 60),
    metavar="BLOCKS",
    help="Maximum number of blocks (rounds) of the trial.",
)
@click.option(
    "--sd", metavar="SHARE", help="Relative standard deviation of runs to assume if you have no results, such as 3%."
)
@table_options
@json_option
@click.pass_obj
def command(
    app: App,
    /,
    words: tuple[str, ...],
    detect: str,
    margin: str | None,
    budget: int,
    sd: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Compute how many blocks (rounds) a trial needs, from the noise of existing results or from --sd.

    \b
    ktrial power stock --detect 3%
    ktrial power --sd 3% --detect 5%

    ktrial pairs successive runs of a label or file, as if each pair compared two configurations: 20 runs make 10
    pairs.
    """
    from ktrial.judge.model.power import PowerAsked
    from ktrial.trial.protocol.power import power_of, power_of_spread, power_text

    effect, spread = share(detect, "--detect"), share(sd, "--sd")
    assert effect is not None, "it has a default"
    query = PowerAsked(detect=effect, margin=share(margin, "--margin"), budget=budget)
    if bool(words) == (spread is not None):
        raise BadInput(
            "cannot combine results with --sd" if words else "cannot plan a trial: the noise of its runs is unknown",
            hint="leave out --sd" if words else "name a label, session or file of runs, or add --sd 3%",
        )
    found = power_of(gathered(app, words, options).arms, query) if spread is None else (power_of_spread(spread, query),)
    write_answer(
        as_json,
        lambda: {"schema": "ktrial.power/1", "asked": query, "outcomes": found},
        lambda width: power_text(found, query, width=width),
    )
    return 0
