# SPDX-License-Identifier: Apache-2.0
"""`ktrial demo`: a trial of which everybody knows beforehand what must come out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option

if TYPE_CHECKING:
    from ktrial.machine.ports import Machine
    from ktrial.studies.demo.model import Demo, DemoResult


@click.command(short_help="Run a short example trial of four known settings.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the report to FILE.")
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Reproduce the run order of an earlier trial."
)
@click.option("--run-s", type=click.FloatRange(0.05, 1.5), default=0.6, hidden=True)
@click.option("--cap", type=click.IntRange(12, 60), default=40, hidden=True)
@json_option
@click.pass_obj
def command(app: App, output: Path | None, seed: int | None, run_s: float, cap: int, as_json: bool) -> int:
    """Run a short trial of four changes whose effects are known.

    The placebo changes nothing, the copium cannot matter for this load, `help` makes it faster and `hurt` slower.
    As root, ktrial changes kernel settings and restores them; without root, it changes what the program itself asks
    for.
    """
    from ktrial.cli.shared.demo import run_demo
    from ktrial.kit import interruption
    from ktrial.kit.tables import columns
    from ktrial.studies.demo.demo import choose_demo
    from ktrial.studies.demo.text import demo_plan

    machine, is_root = _machine(app)
    demo = choose_demo(machine, app.catalog, run_s, cap=cap, seed=seed)
    sys.stderr.write(demo_plan(demo, width=columns()))
    found = run_demo(app, demo, machine, output, as_json=as_json)
    if as_json:
        from ktrial.kit import plain_json

        sys.stdout.write(plain_json.line({"event": "demo", "demo": found}))
    else:
        sys.stdout.write(_closing_text(demo, found, asked=not is_root))
    if found.interrupted:
        app.say(f"{interruption.words(app.interrupts.number)}; `ktrial demo` begins anew")
        return interruption.status(app.interrupts.number)
    return 0


def _machine(app: App) -> tuple[Machine, bool]:
    """Return the session of root where it may be had; the user's, and the demo without root, where that is refused."""
    from ktrial.agent.session import RootNotGranted

    if not app.can_be_root:
        return app.user_session, False
    try:
        return app.root_session("the settings of the demo, which are put back"), True
    except RootNotGranted as error:
        app.say(f"{error.message}: this is the demo without root")
        return app.user_session, False


def _closing_text(demo: Demo, result: DemoResult, *, asked: bool) -> str:
    """Return the table, the story, the page, and what became of the machine."""
    from ktrial.kit.tables import columns
    from ktrial.studies.demo.text import as_before, demo_text, without_root

    width = columns()
    machine = as_before(result.before, result.after, width=width)
    if result.interrupted:
        return machine
    text = demo_text(demo, result.found, width=width)
    return f"{text}\nThe report: {result.report}\n\n{machine}{without_root(demo, asked=asked, width=width)}"
