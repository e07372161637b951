# SPDX-License-Identifier: Apache-2.0
"""Finds the programs of arms, and undoes the arm commands that a killed trial left in force."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ktrial.bench.around.system_bus import LOADER, LOADER_PATH
from ktrial.bench.command_benchmark import OwnBenchmark
from ktrial.bench.environment import basic_variables
from ktrial.bench.run.undoable_command import ArmBuild, ArmCheck, ArmCommand, ArmExtras, ArmScheduler
from ktrial.cli.shared.bench import choose, program_of
from ktrial.cli.shared.command_environment import shell_environment
from ktrial.kit.errors import Busy
from ktrial.trial.arms.commands import undo_left
from ktrial.trial.protocol.file import COMPARED, LOADER_MODES, CommandFile

if TYPE_CHECKING:
    from ktrial.cli.app import App
    from ktrial.trial.protocol.file import ArmFile, SchedExtFile, TrialFile


def extras_of(app: App, file: TrialFile) -> dict[str, ArmExtras]:
    """Return the programs that each arm runs in the current folder. Raise BadInput if one is missing.

    A build gets the shell's environment. Commands and schedulers get only the shell's basic variables.
    """
    environment, directory = basic_variables(os.environ), str(Path.cwd())
    shell = shell_environment(app, clean=bool(file.clean_environment)).environment

    def resolved(words: tuple[str, ...]) -> tuple[str, ...]:
        return (str(program_of(words[0])), *words[1:])

    def of(arm: ArmFile) -> ArmExtras:
        scheduler, commands = None, arm.commands
        if arm.sched_ext is not None:
            argv = () if arm.sched_ext.mode else resolved(arm.sched_ext.run)
            scheduler = ArmScheduler(argv=argv, ops=arm.sched_ext.name, environment=environment, directory=directory)
            commands = (*commands, *loader_commands(arm.sched_ext))
        return ArmExtras(
            commands=tuple(
                ArmCommand(run=resolved(one.run), undo=resolved(one.undo), environment=environment, directory=directory)
                for one in commands
            ),
            checks=tuple(
                ArmCheck(argv=resolved(one.check), environment=environment, directory=directory)
                for one in arm.commands
                if one.check
            ),
            scheduler=scheduler,
            measured=command_of_arm(app, file, arm) if arm.command else None,
            build=None
            if arm.build is None
            else ArmBuild(
                argv=resolved(arm.build.run),
                artefact=str(Path(directory, arm.build.artefact)),
                environment=shell,
                directory=directory,
            ),
        )

    return {
        name: of(arm)
        for name, arm in file.full_arms.items()
        if arm.commands or arm.sched_ext is not None or arm.build is not None or arm.command
    }


def loader_commands(scheduler: SchedExtFile) -> tuple[CommandFile, ...]:
    """Return the calls that make scx_loader start and stop a scheduler; none if ktrial starts the scheduler itself."""
    if not scheduler.mode:
        return ()
    call = ("busctl", "call", LOADER, LOADER_PATH, LOADER)
    started = ("StartScheduler", "su", scheduler.run[0], str(LOADER_MODES.index(scheduler.mode)))
    return (CommandFile(run=(*call, *started), undo=(*call, "StopScheduler")),)


def command_of_arm(app: App, file: TrialFile, arm: ArmFile) -> OwnBenchmark:
    """Return the command that an arm measures, as a benchmark with the same name in all arms."""
    words, steps = arm.command or None, arm.prepare or ()
    # In a race only the control is warmed up: any other arm may fail, which means that it lost.
    clean, warm_ups = bool(file.clean_environment), 0 if file.race else max(1, file.warm_ups or 0)
    _, found = choose(app, None, words, file.metrics, file.limit_s, clean=clean, steps=steps, warm_ups=warm_ups)
    (own,) = found.values()
    assert isinstance(own, OwnBenchmark), "a command of the user"
    return msgspec.structs.replace(own, name=COMPARED, any_status=bool(file.ignore_failure))


def undo_left_commands(app: App) -> int:
    """Undo the arm commands that a killed trial left in force, and return their number.

    The caller must hold the lock for measuring. Trials in guests leave no commands in force.
    """
    journal = app.measuring_place.commands
    if app.host is not None or not journal.left():
        return 0

    return undo_left(journal, app.executor, app.say)


def recover_commands(app: App) -> int:
    """Undo the arm commands that a killed trial left in force, unless a measurement runs now; return their number."""
    if app.host is not None or not app.measuring_place.commands.left():
        return 0
    try:
        app.lock_runs()
    except Busy:
        return 0
    return undo_left_commands(app)
