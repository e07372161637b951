# SPDX-License-Identifier: Apache-2.0
"""`ktrial demo`: a trial of which everybody knows beforehand what must come out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktrial.cli.wiring import App

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktrial.domain.demo import Demo
    from ktrial.domain.stored_trial import StoredTrial
    from ktrial.services.ports import Machine
    from ktrial.services.trial_ready import Prepared


@click.command(short_help="See a trial: a placebo, a copium, a help and a hurt.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where the report is written.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Draw the same orders again.")
@click.option("--run-s", type=click.FloatRange(0.05, 1.5), default=0.6, hidden=True)
@click.option("--cap", type=click.IntRange(12, 60), default=40, hidden=True)
@click.pass_obj
def command(app: App, output: Path | None, seed: int | None, run_s: float, cap: int) -> int:
    """Put four changes on trial of which it is known what they do, in a few minutes.

    The placebo changes nothing, the copium cannot matter for what is measured, the help helps and the hurt hurts. As
    root they are settings of the kernel, which are put back; without root, what the measured program asks for.
    """
    from ktrial.cli import interruption
    from ktrial.cli.trying import prepare
    from ktrial.report.demo import as_before, demo_plan, without_root
    from ktrial.report.terminal import columns
    from ktrial.services.demo import choose_demo

    width = columns()
    machine: Machine = app.user_session
    if app.can_be_root:
        machine = app.root_session("the settings of the demo, which are put back")
    demo = choose_demo(machine, app.catalog, run_s, cap=cap, seed=seed)
    before = values(machine, demo.paths)
    sys.stderr.write(demo_plan(demo, width=width))
    app.lock_runs()
    ready = prepare(app, demo.file, allow_dangerous=False)
    stored, interrupted = _carry_out(app, ready)
    if not interrupted:
        _tell(app, demo, stored, output)
    sys.stdout.write(as_before(before, values(machine, demo.paths), width=width))
    if interrupted:
        app.say(f"{interruption.words(app.interrupts.number)}; `ktrial demo` begins anew")
        return interruption.status(app.interrupts.number)
    sys.stdout.write(without_root(demo, asked=not app.can_be_root, width=width))
    return 0


def _carry_out(app: App, ready: Prepared) -> tuple[StoredTrial, bool]:
    """The trial, from its noise profile to its end; whether it was interrupted."""
    from ktrial.cli.trial_progress import TrialProgress
    from ktrial.services.trial_conduct import begin, carry_on, planned
    from ktrial.services.trial_ready import rig_of

    rig = rig_of(app, ready)
    listen = TrialProgress(app.clock, as_json=False)
    with app.interrupts, listen:
        app.say("first the noise of this machine: 20 runs of the control against itself")
        protocol = planned(app, ready, rig, listen, profile=True).protocol
        listen.announce(ready, protocol)
        stored = begin(app, ready, protocol)
        _, interrupted = carry_on(app, stored, ready, rig, listen)
    return stored, interrupted


def _tell(app: App, demo: Demo, stored: StoredTrial, output: Path | None) -> None:
    """The table, the story, and the page."""
    from ktrial.cli.trying import told, write_report
    from ktrial.host.folders import reports_folder
    from ktrial.report.demo import demo_text
    from ktrial.report.terminal import columns
    from ktrial.services.demo_story import found_in
    from ktrial.services.trial_summary import judgement_of

    log = app.trials.log(stored.trial)
    found = found_in(log, judgement_of(log))
    sys.stdout.write(demo_text(demo, found, width=columns()))
    path = output or reports_folder() / f"{stored.trial}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_report(told(app, stored), path)
    sys.stdout.write(f"\nThe report: {path}\n\n")


def values(machine: Machine, paths: Sequence[str]) -> dict[str, str | None]:
    """What each file shows."""
    found = machine.read(paths) if paths else {}
    return {path: None if reading is None else reading.text for path, reading in found.items()}
