# SPDX-License-Identifier: Apache-2.0
"""Arms that also run commands of the user, or build the program that they measure.

ktrial journals each command before it runs it, and undoes it when it leaves the arm.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ktrial.bench.benchmark import Invocation, RawOutput, why_failed
from ktrial.bench.run.built_file import SeenFile
from ktrial.bench.run.ports import CommandJournal, Executor
from ktrial.bench.run.undoable_command import ArmBuild, ArmCheck, ArmCommand, ArmExtras
from ktrial.kit.errors import KtrialError, Refused
from ktrial.machine.ports import Machine
from ktrial.trial.arms.arms import ArmDrift, ArmLost, Arms, BuiltFile, NamesWriter
from ktrial.trial.arms.builds import NUMBER_VARIABLE
from ktrial.trial.arms.scheduler import SchedulerSeat
from ktrial.tuning.plans.model import Plan

#: Time limit of a command, in seconds.
LIMIT_S = 300.0


class CheckFailed(ArmDrift, frozen=True, kw_only=True):
    """A change by commands or services is not in force. `wanted` is the exit status that the check should have."""

    @property
    def sentence(self) -> str:
        return f"`{self.address}` {self.now} instead of {self.wanted}"


class Beside(NamedTuple):
    """The commands, schedulers and builds of a trial's arms, and the objects that run them.

    `seat` starts and stops schedulers. `site` builds the arms that have a new build for each visit.
    """

    trial: str
    extras: Mapping[str, ArmExtras]
    executor: Executor
    journal: CommandJournal
    seat: SchedulerSeat | None = None
    site: BuildSite | None = None


class CommandedArms(Arms):
    """Arms with commands. ktrial runs commands after it applies settings, and undoes them before it undoes settings."""

    def __init__(self, root: Machine | None, plans: Mapping[str, Plan], writer_of: NamesWriter, beside: Beside) -> None:
        super().__init__(root, plans, writer_of)
        self._beside = beside
        self._seat = beside.seat
        self._site = beside.site
        self._commanded: str | None = None
        self._open: list[tuple[int, ArmCommand]] = []

    @property
    def change(self) -> object:
        extras = self._beside.extras.get(self._commanded or "", ArmExtras())
        made = (extras.commands, extras.scheduler, self.in_force)
        return made if any(made) else None

    def enter(self, arm: str) -> Sequence[ArmDrift]:
        if self._stays(arm):
            self._commanded = arm
        elif arm != self._commanded or self.failed() is not None:
            self._undo()
        drifts = super().enter(arm)
        if not drifts and arm != self._commanded:
            self._commanded = arm
            extras = self._beside.extras.get(arm, ArmExtras())
            if extras.scheduler is not None and self._seat is not None:
                self._seat.look()
            for command in extras.commands:
                self._run(arm, command)
            if extras.scheduler is not None and self._seat is not None:
                self._seat.start(arm, extras.scheduler)
        return drifts

    def _stays(self, arm: str) -> bool:
        """Return whether the commands of the current arm stay in force, because `arm` has the same commands."""
        if self._commanded is None or arm == self._commanded or self.in_force is not None or self.plan_of(arm):
            return False
        now, then = (self._beside.extras.get(one, ArmExtras()) for one in (self._commanded, arm))
        return now.commands == then.commands and now.scheduler is None and then.scheduler is None

    def renew(self, arm: str, number: int) -> BuiltFile | None:
        """Leave the current arm, then build what the next visit of this arm will measure.

        Do nothing and return None if the arm has no build.
        """
        build = self._beside.extras.get(arm, ArmExtras()).build
        if build is None or self._site is None:
            return None
        self.leave()
        return self._site.make(arm, build, number)

    def _leave_for(self, arm: str) -> None:
        if arm == self._commanded:
            super().leave()
        else:
            self.leave()

    def leave(self) -> None:
        try:
            self._undo()
        finally:
            super().leave()

    def drifted(self) -> tuple[ArmDrift, ...]:
        extras = self._beside.extras.get(self._commanded) if self._commanded is not None else None
        checks = extras.checks if extras is not None else ()
        failed = [one for check in checks if (one := _failed(self._beside.executor, check)) is not None]
        schedulers = self._seat.drifted() if self._seat is not None else ()
        return (*super().drifted(), *failed, *schedulers, *(self._site.drifted() if self._site is not None else ()))

    def failed(self) -> str | None:
        """Return why the arm's scheduler was not in force all the time; None if it was, or the arm has no scheduler."""
        return None if self._seat is None else self._seat.failed()

    def _run(self, arm: str, command: ArmCommand) -> None:
        number = self._beside.journal.begin(self._beside.trial, arm, command)
        self._open.append((number, command))
        raw = _carry(self._beside.executor, command.run, command)
        if raw.interrupted:
            raise KeyboardInterrupt
        if (failure := why_failed(raw)) is not None:
            raise ArmLost(
                f"cannot put arm {arm} in force: `{command.text}` {failure}",
                hint="run the command by hand to see why; ktrial has undone the arm's changes",
            )

    def _undo(self) -> None:
        """Undo all commands, the newest first, even if one fails."""
        self._commanded = None
        failed: list[KtrialError] = []
        scheduler = self._seat.stop() if self._seat is not None else None
        while self._open:
            number, command = self._open.pop()
            try:
                _undo_one(self._beside.executor, self._beside.journal, number, command)
            except KtrialError as error:
                failed.append(error)
        if failed:
            raise failed[0]
        if scheduler is not None and self._seat is not None:
            self._seat.wait_until_gone(scheduler)


def undo_left(journal: CommandJournal, executor: Executor, tell: Callable[[str], None]) -> int:
    """Undo the commands that a killed trial left in force, and return their number.

    Raise an error if a command cannot be undone.
    """
    failed: list[KtrialError] = []
    left = journal.left()
    for one in left:
        tell(f"trial {one.trial} was interrupted in arm {one.arm}; undoing this arm: {one.command.undo_text}")
        try:
            _undo_one(executor, journal, one.number, one.command)
        except KtrialError as error:
            failed.append(error)
    if failed:
        raise failed[0]
    return len(left)


def refuse_what_holds_already(extras: Mapping[str, ArmExtras], executor: Executor) -> None:
    """Raise Refused if a check passes before its command has run, because the check then proves nothing."""
    for arm, one in extras.items():
        for check in one.checks if one.commands else ():
            if check.passes and _failed(executor, check) is None:
                raise Refused(
                    f"arm {arm}: the check `{check.text}` passes before any command has run",
                    hint="revert the change if it is in force already, or correct the check",
                )


def _undo_one(executor: Executor, journal: CommandJournal, number: int, command: ArmCommand) -> None:
    failure = why_failed(_carry(executor, command.undo, command))
    if failure is not None:
        raise ArmLost(
            f"cannot undo `{command.text}`: `{command.undo_text}` {failure}",
            hint=f"run `ktrial recover` to try again, or undo the command by hand and remove {journal.where}",
        )
    journal.end(number)


def _carry(executor: Executor, argv: tuple[str, ...], command: ArmCommand | ArmCheck) -> RawOutput:
    invocation = Invocation(argv=argv, limit_s=LIMIT_S, environment=command.environment, directory=command.directory)
    return executor.run(invocation).raw


def _failed(executor: Executor, check: ArmCheck) -> CheckFailed | None:
    raw = _carry(executor, check.argv, check)
    if raw.interrupted:
        raise KeyboardInterrupt
    if raw.exit_status is None:
        raise ArmLost(
            f"cannot run the check `{check.text}`: it {why_failed(raw)}",
            hint=f"correct the check; it must exit within {LIMIT_S:g} s, with any status",
        )
    if (raw.exit_status == 0) == check.passes:
        return None
    return CheckFailed(
        address=shlex.join(check.argv),
        path=check.argv[0],
        wanted="0" if check.passes else "a non-zero status",
        now=f"has status {raw.exit_status}",
    )


#: Time limit of a build, in seconds.
BUILD_LIMIT_S = 3600.0


class BuildSite:
    """Builds the arms of a trial. `look` returns a file as the user sees it, or None if it cannot be read."""

    def __init__(self, executor: Executor, look: Callable[[str], SeenFile | None]) -> None:
        self._executor = executor
        self._look = look
        self._present: tuple[ArmBuild, SeenFile] | None = None

    def make(self, arm: str, build: ArmBuild, number: int) -> BuiltFile:
        """Run the build and return the file. Raise ArmLost if the build fails or does not change the file."""
        self._present = None
        before = self._look(build.artefact)
        raw = self._executor.run(
            Invocation(
                argv=build.argv,
                limit_s=BUILD_LIMIT_S,
                environment={**build.environment, NUMBER_VARIABLE: str(number)},
                directory=build.directory,
            )
        ).raw
        if raw.interrupted:
            raise KeyboardInterrupt
        if (failure := why_failed(raw)) is not None:
            raise ArmLost(
                f"cannot build arm {arm}: `{build.text}` {failure}", hint="run the command by hand to see why"
            )
        seen = self._look(build.artefact)
        if seen is None:
            raise ArmLost(
                f"cannot build arm {arm}: `{build.text}` left no readable file {build.artefact}",
                hint="set `artefact` to the file that the command writes, relative to ktrial's current folder",
            )
        if before is not None and before.written == seen.written:
            raise ArmLost(
                f"cannot measure a new build of arm {arm}: `{build.text}` left {build.artefact} unchanged",
                hint="build from scratch, for example with `make -B`, or let the command remove the file first",
            )
        self._present = build, seen
        return BuiltFile(artefact=build.artefact, sha256=seen.sha256)

    def drifted(self) -> tuple[ArmDrift, ...]:
        """Return a drift if the file that was built for this visit has changed."""
        if self._present is None:
            return ()
        build, made = self._present
        now = self._look(build.artefact)
        if now is not None and now.sha256 == made.sha256:
            return ()
        shown = None if now is None else f"SHA-256 {now.sha256[:12]}"
        wanted = f"SHA-256 {made.sha256[:12]}"
        return (ArmDrift(address="the built file", path=build.artefact, wanted=wanted, now=shown),)
