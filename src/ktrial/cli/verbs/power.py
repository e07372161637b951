# SPDX-License-Identifier: Apache-2.0
"""`ktrial power`: how many blocks an effect needs, and what the present noise lets one see."""

from __future__ import annotations

import sys
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.completion import result_names
from ktrial.cli.options import json_option, write_json
from ktrial.cli.shared.compare import gathered, share, table_options
from ktrial.kit.errors import BadInput


@click.command(short_help="Say how many blocks a trial needs to see an effect.")
@click.argument("words", nargs=-1, shell_complete=result_names, metavar="[LABEL|SESSION|[NAME=]FILE…]")
@click.option("--detect", default="5%", metavar="5%", help="Smallest effect worth finding.")
@click.option("--margin", metavar="2%", help="Differences below this do not matter.  [2 %; p95 5 %, p99 10 %]")
@click.option("--budget", default=20, type=click.IntRange(7, 60), metavar="20", help="Maximum number of blocks.")
@click.option("--sd", metavar="3%", help="Spread of runs, if you have no results yet.")
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
    """Plan a trial from the noise of existing results, or from a given spread.

    \b
    ktrial power stock --detect 3%
    ktrial power --sd 3% --detect 5%

    ktrial takes successive runs of a label or file as pairs of equal arms: 20 runs make 10 pairs.
    """
    from ktrial.judge.model.power import PowerAsked
    from ktrial.kit.tables import columns
    from ktrial.trial.protocol.power import power_of, power_of_spread
    from ktrial.trial.protocol.power_text import power_text

    effect, spread = share(detect, "--detect"), share(sd, "--sd")
    assert effect is not None, "it has a default"
    asked = PowerAsked(detect=effect, margin=share(margin, "--margin"), budget=budget)
    if bool(words) == (spread is not None):
        raise BadInput(
            "the noise is told twice" if words else "the noise is not told",
            hint="name a label, session or file of runs, or --sd 3%",
        )
    found = power_of(gathered(app, words, options).arms, asked) if spread is None else (power_of_spread(spread, asked),)
    if as_json:
        write_json({"schema": "ktrial.power/1", "asked": asked, "outcomes": found})
    else:
        sys.stdout.write(power_text(found, asked, width=columns()))
    return 0
