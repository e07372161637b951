# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel bisect`: which commit made the difference between two kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_json


@click.command(short_help="Find the commit that changed what a kernel does, in exact guests.")
@click.argument("good")
@click.argument("bad")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM ARGUMENT…]")
@click.option("--outcome", required=True, metavar="NAME", help="Outcome to bisect, such as wakeup.p99_ns.")
@click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of the load. Repeatable.",
)
@click.option(
    "--tree", type=click.Path(path_type=Path), default=Path(), metavar="DIR", help="Git tree.  [current folder]"
)
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Configuration of each commit.")
@click.option(
    "--build", "builds", multiple=True, metavar="COMMAND", help="Command that builds, instead of make. Repeatable."
)
@click.option("--image", metavar="PATH", help="Kernel image that the build writes, in the tree.")
@click.option(
    "--build-limit", default="2h", show_default=True, metavar="TIME", help="Time limit of each build command."
)
@click.option(
    "--tool", "tools", multiple=True, metavar="NAME|PATH", help="Also put this program into the guests. Repeatable."
)
@click.option("--memory", default="1GiB", show_default=True, metavar="SIZE", help="Memory of the guests.")
@click.option(
    "--runs", type=click.IntRange(16, 60), default=30, show_default=True, help="Maximum number of boots per commit."
)
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Seed of the words in which boots differ."
)
@click.option("--limit", default="120s", show_default=True, metavar="TIME", help="Time limit of each guest.")
@json_option
@click.pass_obj
def command(
    app: App,
    good: str,
    bad: str,
    program: tuple[str, ...],
    outcome: str,
    parameters: tuple[str, ...],
    tree: Path,
    config: Path | None,
    builds: tuple[str, ...],
    image: str | None,
    build_limit: str,
    tools: tuple[str, ...],
    memory: str,
    runs: int,
    seed: int,
    limit: str,
    as_json: bool,
) -> int:
    """Find the commit after GOOD, up to BAD, that changed the outcome, by building, booting and measuring.

    \b
    ktrial kernel bisect v6.11 v6.12 --config guest.config --outcome wakeup.p99_ns
    ktrial kernel bisect HEAD~9 HEAD --build ./mk --image bzImage --outcome ms -- ./bench

    ktrial builds each commit in a copy of the tree and boots it in exact guests until the judge can say on which
    side of half the difference it lies. It skips a commit that stays undecided, and never guesses. With PROGRAM,
    the outcome is the number in its last line. It names a commit only if that also differs from its parent.
    """
    from ktrial.cli.shared.bisect import BisectQuery, run_bisect
    from ktrial.kit.tables import columns
    from ktrial.studies.bisect.text import bisected_json, bisected_text

    found = run_bisect(
        app,
        BisectQuery(
            good=good,
            bad=bad,
            program=program,
            outcome=outcome,
            parameters=parameters,
            tree=tree,
            config=config,
            builds=builds,
            image=image,
            build_limit=build_limit,
            tools=tools,
            memory=memory,
            runs=runs,
            seed=seed,
            limit=limit,
        ),
    )
    if as_json:
        write_json(bisected_json(found))
    else:
        sys.stdout.write(bisected_text(found, width=columns()))
    return 0
