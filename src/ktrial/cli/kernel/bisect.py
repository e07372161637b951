# SPDX-License-Identifier: Apache-2.0
"""`ktrial kernel bisect`: find the commit that made the difference between two kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, write_answer


@click.command(short_help="Boot commits in guests to find the one that changed an outcome.")
@click.argument("good")
@click.argument("bad")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM ARGUMENT…]")
@click.option(
    "--outcome",
    required=True,
    metavar="NAME",
    help="Outcome that changed: LOAD.RESULT, such as wakeup.p99_ns; with PROGRAM, any name.",
)
@click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of the built-in load. Repeatable.",
)
@click.option(
    "--tree",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="TREE",
    help="Git tree that contains GOOD and BAD.  [current folder]",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Kernel configuration for every commit; required without --build.",
)
@click.option(
    "--build",
    "builds",
    multiple=True,
    metavar="COMMAND",
    help="Command to run in the tree instead of make; several commands run in the given order. Repeatable.",
)
@click.option(
    "--image",
    metavar="PATH",
    help="Kernel image that the build writes, relative to the tree.  [arch/x86/boot/bzImage; required with --build]",
)
@click.option(
    "--build-limit", default="2h", show_default=True, metavar="TIME", help="Time limit of each build command."
)
@click.option(
    "--tool", "tools", multiple=True, metavar="NAME|PATH", help="Extra program to put into the guests. Repeatable."
)
@click.option("--memory", default="1GiB", show_default=True, metavar="SIZE", help="Memory of the guests.")
@click.option(
    "--runs",
    type=click.IntRange(16, 60),
    default=30,
    show_default=True,
    metavar="N",
    help="Maximum number of boots per commit.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    metavar="N",
    help="Seed of the dummy kernel arguments that make boots differ.",
)
@click.option("--limit", default="120s", show_default=True, metavar="TIME", help="Time limit of each guest.")
@json_option
@click.pass_obj
def command(app: App, /, as_json: bool, **options: Any) -> int:
    """Find the commit after GOOD, up to BAD, that changed an outcome.

    \b
    ktrial kernel config . --config tinyconfig --fragment guest -o /tmp/guest
    ktrial kernel bisect v6.11 v6.12 --config /tmp/guest/.config --outcome wakeup.p99_ns
    ktrial kernel bisect HEAD~9 HEAD --build ./mk --image bzImage --outcome ms -- ./bench

    ktrial builds commits in a copy of the tree and boots them in exact guests, where only the kernel and its arguments
    decide the result. Each boot gets a different dummy argument. ktrial boots a commit repeatedly, until its outcome
    is clearly closer to GOOD or to BAD, and skips a commit that stays undecided. ktrial names a commit only if its
    outcome also differs from its parent's.

    The outcome is LOAD.RESULT: one of ktrial's built-in loads (wakeup, pagefault, contextswitch, …) and one of its
    results; docs/formats.md lists all. With PROGRAM, the outcome is the number that PROGRAM prints as its last line.
    """
    from ktrial.cli.shared.bisect import BisectQuery, run_bisect
    from ktrial.studies.bisect.text import bisected_json, bisected_text

    found = run_bisect(app, BisectQuery(**options))
    write_answer(as_json, lambda: bisected_json(found), lambda width: bisected_text(found, width=width))
    return 0
