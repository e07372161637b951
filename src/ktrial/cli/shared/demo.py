# SPDX-License-Identifier: Apache-2.0
"""Carries a demo out: its trial, its page, and what it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktrial.agent.user_folders import reports_folder
from ktrial.cli.shared.run_trial import part_of_question, write_report
from ktrial.cli.shared.trial_outcome import load_comparison
from ktrial.studies.demo.demo_story import found_in
from ktrial.studies.demo.model import DemoResult
from ktrial.trial.outcome.summary import judgement_of
from ktrial.trial.run.progress import TrialProgress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ktrial.cli.app import App
    from ktrial.machine.ports import Machine
    from ktrial.studies.demo.model import Demo
    from ktrial.trial.record import StoredTrial


def run_demo(app: App, demo: Demo, machine: Machine, output: Path | None, *, as_json: bool) -> DemoResult:
    """From the noise of this machine to the page; whoever interrupts gets no page."""
    before = _values(machine, demo.paths)
    listen = TrialProgress(app.clock, as_json=as_json)
    with app.interrupts, listen:
        stored, carried = part_of_question(
            app, demo.file, None, lambda _: None, listen, allow_dangerous=False, profile=True
        )
    interrupted = carried.interrupted
    log = app.trials.log(stored.trial)
    return DemoResult(
        trial=stored.trial,
        interrupted=interrupted,
        what=demo.what,
        why=demo.why,
        found=found_in(log, judgement_of(log)),
        before=before,
        after=_values(machine, demo.paths),
        passed=demo.passed,
        report=None if interrupted else _write_report(app, stored, output),
    )


def _write_report(app: App, stored: StoredTrial, output: Path | None) -> str:
    path = output or reports_folder() / f"{stored.trial}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_report(load_comparison(app, stored), path)
    return str(path)


def _values(machine: Machine, paths: Sequence[str]) -> dict[str, str | None]:
    found = machine.read(paths) if paths else {}
    return {path: None if reading is None else reading.text for path, reading in found.items()}
