# SPDX-License-Identifier: Apache-2.0
"""Builds of what an arm measures, one for each visit: made as the user, and unchanged to the visit's end."""

from __future__ import annotations

from collections.abc import Callable

from ktrial.bench.benchmark import Invocation, why_failed
from ktrial.bench.run.built_file import SeenFile
from ktrial.bench.run.ports import Executor
from ktrial.bench.run.undoable_command import ArmBuild
from ktrial.trial.arms.arms import ArmDrift, ArmLost, BuiltFile
from ktrial.trial.arms.builds import NUMBER_VARIABLE

#: Time limit of a build, in seconds.
LIMIT_S = 3600.0


class BuildSite:
    """Makes the builds of a trial's arms; `look` returns a file as the user sees it, None if it cannot be read."""

    def __init__(self, executor: Executor, look: Callable[[str], SeenFile | None]) -> None:
        self._executor = executor
        self._look = look
        self._present: tuple[ArmBuild, SeenFile] | None = None

    def make(self, arm: str, build: ArmBuild, number: int) -> BuiltFile:
        """Build the file. Raise ArmLost if that fails or leaves the file as it was."""
        self._present = None
        before = self._look(build.artefact)
        raw = self._executor.run(
            Invocation(
                argv=build.argv,
                limit_s=LIMIT_S,
                environment={**build.environment, NUMBER_VARIABLE: str(number)},
                directory=build.directory,
            )
        ).raw
        if raw.interrupted:
            raise KeyboardInterrupt
        if (failure := why_failed(raw)) is not None:
            raise ArmLost(f"cannot build arm {arm}: `{build.text}` {failure}", hint="run it by hand first")
        seen = self._look(build.artefact)
        if seen is None:
            raise ArmLost(
                f"cannot build arm {arm}: `{build.text}` left no readable file {build.artefact}",
                hint="artefact is the file that it writes, relative to where ktrial was started",
            )
        if before is not None and before.written == seen.written:
            raise ArmLost(
                f"`{build.text}` left {build.artefact} unchanged: the visit would measure an older build",
                hint="build from scratch: `make -B`, or remove the file first",
            )
        self._present = build, seen
        return BuiltFile(artefact=build.artefact, sha256=seen.sha256)

    def drifted(self) -> tuple[ArmDrift, ...]:
        """Return the file of this visit if it has changed."""
        if self._present is None:
            return ()
        build, made = self._present
        now = self._look(build.artefact)
        if now is not None and now.sha256 == made.sha256:
            return ()
        shown = None if now is None else f"SHA-256 {now.sha256[:12]}"
        wanted = f"SHA-256 {made.sha256[:12]}"
        return (ArmDrift(address="what the visit measures", path=build.artefact, wanted=wanted, now=shown),)
