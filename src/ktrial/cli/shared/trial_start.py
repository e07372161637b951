# SPDX-License-Identifier: Apache-2.0
"""Checks and prepares a trial before its first run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from ktrial.bench.run.undoable_command import ArmExtras
from ktrial.bench.suite import Suite, SuiteEntry
from ktrial.cli.app_load import send_load_from
from ktrial.cli.options import is_terminal
from ktrial.cli.shared.arm_commands import command_of_arm, extras_of, undo_left_commands
from ktrial.cli.shared.bench import choose, cpus_here
from ktrial.cli.shared.live_sources import live_suite
from ktrial.kit.errors import BadInput, Refused
from ktrial.kit.tables import columns, paragraph
from ktrial.trial.arms.boot_arms import BOOT_TIME, times_boots
from ktrial.trial.outcome.text import more_text, sight_text
from ktrial.trial.run import prepare as trial_ready
from ktrial.trial.run.prepare import check_measured, look_over
from ktrial.tuning.plans.confirm import must_agree

if TYPE_CHECKING:
    from ktrial.bench.benchmark import Benchmark
    from ktrial.bench.suite import Task
    from ktrial.cli.app import App
    from ktrial.cli.hosts import Host
    from ktrial.trial.protocol.file import TrialFile
    from ktrial.trial.protocol.forecast import TrialForecast
    from ktrial.trial.run.prepare import Prepared


def what_to_measure(app: App, file: TrialFile) -> tuple[Suite, dict[str, Benchmark]]:
    """Return the suite that the protocol measures, and its benchmarks."""
    if file.live:
        return live_suite(app, file)
    if file.compares_commands:
        own = command_of_arm(app, file, file.full_arms[file.control])
        return Suite(name=own.name, summary=own.what, benchmark=(SuiteEntry(own.name),)), {own.name: own}
    send_load_from(app, file.load_from or None, file.load_address or None)
    words, steps = file.command or None, file.prepare or ()
    clean = bool(file.clean_environment)
    suite, benchmarks = choose(app, file.suite, words, file.metrics, file.limit_s, clean=clean, steps=steps)
    if not times_boots(file) or any(entry.use == BOOT_TIME for entry in suite.benchmark):
        return suite, benchmarks
    suite = msgspec.structs.replace(suite, benchmark=(*suite.benchmark, SuiteEntry(use=BOOT_TIME)))
    return suite, {**benchmarks, BOOT_TIME: app.benchmarks[BOOT_TIME]}


def refuse_in_guests(host: Host, file: TrialFile) -> None:
    """Raise BadInput for a comparison of commands in a guest, which gets all its programs when it boots."""
    if file.compares_commands and (host.is_exact or host.guest_tools is not None):
        raise BadInput(
            f"cannot compare commands with --host {host.word}: a guest gets its programs when it boots",
            hint="leave out --host, or name another machine with ssh:NAME",
        )


def prepare(app: App, file: TrialFile, *, allow_dangerous: bool) -> Prepared:
    """Find on this machine everything that the protocol names. Raise an error if something is missing."""
    if not app.may_run_trials:
        raise Refused("trials run on machines, not in folders", hint="leave out --machine-root")
    if app.host is not None:
        app.host.check_trial()
        refuse_in_guests(app.host, file)
    undo_left_commands(app)
    suite, benchmarks = what_to_measure(app, file)
    # The executor must not be used here: programs that it starts now would not get the right OOM score.
    facts = app.best_session("planning the arms").facts()
    file = msgspec.structs.replace(file, cpus=cpus_here(app, facts, file.cpus))
    extras = extras_of(app, file)
    beside = [name for name, one in extras.items() if msgspec.structs.replace(one, measured=None) != ArmExtras()]
    if beside and app.host is not None:
        raise BadInput(
            f"cannot run arm {beside[0]} with --host {app.host.word}: "
            "the commands, scheduler or build of an arm run only on this machine",
            hint="leave out --host",
        )
    return trial_ready.prepare(app, file, suite, benchmarks, extras, allow_dangerous=allow_dangerous)


def look_at(app: App, file: TrialFile, *, allow_dangerous: bool) -> tuple[Task, ...]:
    """Return what the trial would measure. Raise an error for a problem that ktrial can find without measuring.

    For guests, check only what the trial would measure.
    """
    suite, benchmarks = what_to_measure(app, file)
    if file.compares_commands:
        extras_of(app, file)
    if file.guest is None:
        return look_over(app, file, suite, benchmarks, allow_dangerous=allow_dangerous)
    return check_measured(app, file, suite, benchmarks)


def agree_to_blindness(forecast: TrialForecast, *, anyway: bool, ask: bool) -> None:
    """Raise Refused if the trial cannot detect the effect, unless the user agrees to continue."""
    if anyway:
        return
    if not ask or not is_terminal():
        raise Refused(
            f"cannot detect the requested effect: with this noise, ktrial detects {sight_text(forecast)}",
            hint=f"{more_text(forecast)}; or add --anyway to detect larger effects only",
        )

    sys.stderr.write(paragraph(more_text(forecast), width=columns()) + "\n")
    must_agree("Continue anyway and look only for larger effects?")
