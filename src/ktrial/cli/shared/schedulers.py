# SPDX-License-Identifier: Apache-2.0
"""Finds the schedulers of this machine for `ktrial schedulers`, and tests which of them can start here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ktrial.bench.around.session_bus import BusError
from ktrial.bench.around.system_bus import loader_schedulers
from ktrial.bench.benchmark import PROGRAM_FOLDERS, Invocation
from ktrial.bench.suite import Suite
from ktrial.cli.shared.arm_commands import extras_of, undo_left_commands
from ktrial.cli.shared.live_sources import live_file
from ktrial.cli.shared.trial_options import protocol_file
from ktrial.cli.shared.trial_start import look_at
from ktrial.kit.errors import BadInput, Refused
from ktrial.studies.schedulers import (
    PRIMARY,
    SUITE,
    of_loader,
    other_outcomes,
    programs_among,
    scheduler_arms,
    select_schedulers,
)
from ktrial.trial.arms.arms import ArmLost
from ktrial.trial.arms.commands import Beside, CommandedArms
from ktrial.trial.arms.scheduler import SchedulerSeat
from ktrial.trial.protocol.file import CONTROL, LOADER_MODES, LoaderMode
from ktrial.trial.protocol.from_words import pairs
from ktrial.trial.protocol.protocol import outcomes_around
from ktrial.trial.protocol.read import check_trial_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktrial.cli.app import App
    from ktrial.studies.schedulers import InstalledScheduler
    from ktrial.trial.protocol.file import TrialFile

_UNITS = ("scx.service", "scx_loader.service")
_LIMIT_S = 30.0
#: Options that only live trials have, with their parameters.
_ONLY_LIVE = {
    "--covariate": "covariates",
    "--adjust": "adjust",
    "--limit-metric": "limits",
    "--for": "for_",
    "--period": "period",
    "--washout": "washout",
    "--poll": "poll",
    "--quiet": "quiet",
    "--switches": "switches",
    "--rate": "rate",
    "--blind": "blind",
    "--disturbing": "disturbing",
}
_ONLY_BENCHMARK = {
    "--suite": "suite",
    "--prepare": "prepare",
    "--limit": "limit",
    "--clean-env": "clean_env",
    "-p": "given",
    "--env": "variables",
    "--settle": "settle",
    "--time": "time_",
}


def schedulers_file(app: App, own: tuple[str, ...] | None, options: Mapping[str, Any]) -> TrialFile:
    """Return the trial of the schedulers of this machine. Raise an error if the machine cannot run such a trial."""
    _refuse_mixture(own, options)
    if app.host is not None:
        raise BadInput(
            f"--host {app.host.word}: ktrial compares schedulers on this machine only", hint="leave out --host"
        )
    seat = SchedulerSeat(app.looking_session, app.executor, app.clock)
    seat.refuse_another(needs_root=False)
    if not app.may_run_trials:
        raise Refused("trials run on machines, not in folders", hint="leave out --machine-root")
    found = select_schedulers(_installed(app, options["modes"]), options["only"])
    seat.refuse_another(needs_root=any(one.mode is None for one in found))
    _tell_two_at_boot(app)
    control = str(app.looking_session.facts(["kernel"]).value("kernel.scheduler") or CONTROL)
    arms = scheduler_arms(control, found, placebo=options["placebo"])
    name = options["name"] or "schedulers"
    if options["live"]:
        file = live_file(name, arms, options, control)
        check_trial_file(file)
        return file
    suite, primary = options["suite"], options["primary"]
    if suite is None and own is None:
        suite, primary = SUITE, primary or PRIMARY
    file = protocol_file(
        name,
        suite,
        own,
        {**options, "primary": primary},
        guards=pairs(options["guards"], "--guard"),
        secondary=options["secondary"],
        control=control,
        arms=arms,
    )
    check_trial_file(file)
    return file if options["secondary"] else _with_outcomes(app, file)


def _refuse_mixture(own: tuple[str, ...] | None, options: Mapping[str, Any]) -> None:
    """Raise BadInput for an option of live work without --live, and for a benchmark with --live."""
    names = _ONLY_BENCHMARK if options["live"] else _ONLY_LIVE
    given = next((word for word, name in names.items() if options.get(name)), None)
    if own is not None and options["live"]:
        given = "a command after --"
    if given is not None and options["live"]:
        raise BadInput(
            f"cannot use {given} with --live, which watches the work that runs anyway", hint=f"leave out {given}"
        )
    if given is not None:
        raise BadInput(f"{given} requires --live", hint="add --live with a metric of your work")


def _installed(app: App, modes: Sequence[str]) -> tuple[InstalledScheduler, ...]:
    """Return the schedulers that scx_loader can start, if it runs; otherwise those in the folders of programs."""
    wanted = LOADER_MODES if "all" in modes else cast("tuple[LoaderMode, ...]", tuple(modes)) or LOADER_MODES[:1]
    try:
        return of_loader(loader_schedulers(), wanted)
    except BusError as error:
        if modes:
            raise BadInput(
                f"cannot use --mode: scx_loader does not answer ({error})",
                hint="run `systemctl start scx_loader`, or leave out --mode to start the programs themselves",
            ) from None
    files = (str(path) for folder in PROGRAM_FOLDERS for path in sorted(Path(folder).glob("scx_*")))
    return programs_among(path for path in files if os.access(path, os.X_OK))


def _with_outcomes(app: App, file: TrialFile) -> TrialFile:
    """Return the trial with every main outcome as secondary, and power where it can be read."""
    from ktrial.bench.around.around_run import Around
    from ktrial.trial.protocol.protocol import protocol_of

    tasks = look_at(app, file, allow_dangerous=False)
    suite = app.suites.get(file.suite or "") or Suite(name=file.name, summary="", benchmark=())
    around = outcomes_around(suite, Around(app.looking_session, app.clock).counters)
    primary = protocol_of(file, tasks, {}, 0, None, 1, around).primary
    return msgspec.structs.replace(file, secondary=other_outcomes(tasks, around, primary))


def _tell_two_at_boot(app: App) -> None:
    """Warn if two services start a scheduler at boot: the second one fails, or replaces the scheduler of the first."""
    raw = app.executor.run(Invocation(argv=("systemctl", "is-enabled", *_UNITS), limit_s=_LIMIT_S)).raw
    if raw.stdout.decode(errors="replace").split() == ["enabled"] * len(_UNITS):
        app.say(f"{' and '.join(_UNITS)} both start a scheduler at boot; disable one: systemctl disable {_UNITS[0]}")


def startable(app: App, file: TrialFile) -> TrialFile:
    """Start each scheduler once, and return the trial with only the schedulers that the kernel showed in force.

    Raise BadInput if no scheduler is left.
    """
    app.lock_trials()
    undo_left_commands(app)
    extras = extras_of(app, file)
    seat = SchedulerSeat(app.looking_session, app.executor, app.clock)
    beside = Beside(file.name, extras, app.executor, app.measuring_place.commands, seat)
    arms = CommandedArms(None, {}, lambda _drift, _own: None, beside)
    failed: dict[str, str] = {}
    with app.interrupts:
        for name in extras:
            try:
                arms.enter(name)
            except ArmLost as error:
                failed[name] = error.message.partition(": ")[2]
            finally:
                arms.leave()
    for name, why in failed.items():
        app.say(f"skipped {name}: {why}")
    left = {name: arm for name, arm in file.arms.items() if name not in failed}
    file = msgspec.structs.replace(file, arms=left)
    if not file.compares_schedulers:
        raise BadInput(
            "no scheduler starts on this machine", hint="start a scheduler by hand, as root, to see all of its output"
        )
    return file
