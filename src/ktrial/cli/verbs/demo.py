# SPDX-License-Identifier: Apache-2.0
"""`ktrial demo`: run a trial whose results are known in advance."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.app import App
from ktrial.cli.options import json_option, output_option, seed_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.machine.ports import Machine
    from ktrial.studies.demo.model import Demo, DemoResult


@click.command(short_help="Run a short trial of four changes with known effects.")
@output_option("File for the HTML report.  [~/.local/share/ktrial/reports/TRIAL.html]")
@seed_option()
@click.option("--run-s", type=click.FloatRange(0.05, 1.5), default=0.6, hidden=True)
@click.option("--cap", type=click.IntRange(12, 60), default=40, hidden=True)
@json_option
@click.pass_obj
def command(app: App, output: Path | None, seed: int | None, run_s: float, cap: int, as_json: bool) -> int:
    """Run a short trial of four changes whose effects are known.

    `placebo` changes nothing, `copium` cannot matter for this load, `help` makes the load faster, and `hurt`
    makes it slower. As root, ktrial changes kernel settings and restores them. Without root, ktrial changes what the
    test program requests from the kernel.
    """
    from ktrial.kit.tables import columns
    from ktrial.studies.demo.demo import choose_demo
    from ktrial.studies.demo.text import demo_plan

    machine, is_root = _machine(app)
    demo = choose_demo(machine, app.catalog, run_s, cap=cap, seed=seed)
    sys.stderr.write(demo_plan(demo, width=columns()))
    found = _run(app, demo, machine, output, as_json=as_json)
    if as_json:
        from ktrial.kit import plain_json

        sys.stdout.write(plain_json.line({"event": "demo", "demo": found}))
    else:
        sys.stdout.write(_closing_text(demo, found, asked=not is_root))
    if found.interrupted:
        return app.end_interrupted("`ktrial demo` starts over")
    return 0


def _run(app: App, demo: Demo, machine: Machine, output: Path | None, *, as_json: bool) -> DemoResult:
    from ktrial.agent.user_folders import reports_folder
    from ktrial.cli.shared.long_runs import TimedTrial
    from ktrial.cli.shared.run_trial import part_of_question, write_report
    from ktrial.cli.shared.trial_outcome import load_comparison
    from ktrial.studies.demo.demo import found_in
    from ktrial.studies.demo.model import DemoResult
    from ktrial.trial.outcome.summary import judgement_of
    from ktrial.trial.run.progress import TrialProgress

    before = _values(machine, demo.paths)
    listen = TrialProgress(app.clock, as_json=as_json)
    timed = TimedTrial(app, listen, ask=not as_json)
    with app.interrupts, listen:
        stored, carried = part_of_question(
            app, demo.file, None, lambda _: None, timed, allow_dangerous=False, profile=True
        )
    report = None
    if not carried.interrupted:
        report = output or reports_folder() / f"{stored.trial}.html"
        report.parent.mkdir(parents=True, exist_ok=True)
        write_report(load_comparison(app, stored), report)
    log = app.trials.log(stored.trial)
    return DemoResult(
        trial=stored.trial,
        interrupted=carried.interrupted,
        what=demo.what,
        why=demo.why,
        found=found_in(log, judgement_of(log)),
        before=before,
        after=_values(machine, demo.paths),
        passed=demo.passed,
        report=None if report is None else str(report),
    )


def _values(machine: Machine, paths: Sequence[str]) -> dict[str, str | None]:
    readings = machine.read(paths) if paths else {}
    return {path: None if reading is None else reading.text for path, reading in readings.items()}


def _machine(app: App) -> tuple[Machine, bool]:
    """Return a root session if the user allows one, otherwise a session as the user; also return whether it is root."""
    from ktrial.agent.session import RootNotGranted

    if not app.can_be_root:
        return app.user_session, False
    try:
        return app.root_session("changing the settings of the demo, and restoring them"), True
    except RootNotGranted as error:
        app.say(f"{error.message}: running the demo without root")
        return app.user_session, False


def _closing_text(demo: Demo, result: DemoResult, *, asked: bool) -> str:
    from ktrial.kit.tables import columns
    from ktrial.studies.demo.text import as_before, demo_text, without_root

    width = columns()
    machine = as_before(result.before, result.after, width=width)
    if result.interrupted:
        return machine
    text = demo_text(demo, result.found, width=width)
    return f"{text}\nThe report: {result.report}\n\n{machine}{without_root(demo, asked=asked, width=width)}"
