# SPDX-License-Identifier: Apache-2.0
"""What an arm measures, made anew for each visit: built as the user, and the same file up to the visit's end."""

from __future__ import annotations

from typing import Protocol

from ktrial.bench.benchmark import Invocation, why_failed
from ktrial.bench.run.built_file import SeenFile
from ktrial.bench.run.ports import Executor
from ktrial.bench.run.undoable_command import ArmBuild
from ktrial.trial.arms.arms import ArmDrift, ArmLost, BuiltFile
from ktrial.trial.arms.builds import NUMBER_VARIABLE

#: Seconds that a build may take.
LIMIT_S = 3600.0


class FileLooker(Protocol):
    """Looks at files of the user's."""

    def __call__(self, path: str) -> SeenFile | None:
        """None if there is no such file, or it cannot be read."""


class BuildSite:
    """Where the builds of a trial's arms are made."""

    def __init__(self, executor: Executor, look: FileLooker) -> None:
        self._executor = executor
        self._look = look
        self._present: tuple[ArmBuild, SeenFile] | None = None

    def make(self, arm: str, build: ArmBuild, number: int) -> BuiltFile:
        """Raises ArmLost if the build fails, or leaves the file as it was."""
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
            raise ArmLost(f"the arm {arm} could not be built: `{build.text}` {failure}", hint="run it by hand first")
        seen = self._look(build.artefact)
        if seen is None:
            raise ArmLost(
                f"the arm {arm} could not be built: `{build.text}` left no file {build.artefact} that can be read",
                hint="artefact is the file that it writes, seen from where ktrial was started",
            )
        if before is not None and before.written == seen.written:
            raise ArmLost(
                f"`{build.text}` left {build.artefact} as it was: the visit would measure an older build",
                hint="have it begin from scratch: `make -B`, or remove the file first",
            )
        self._present = build, seen
        return BuiltFile(artefact=build.artefact, sha256=seen.sha256)

    def drifted(self) -> tuple[ArmDrift, ...]:
        """Return the file of this visit, where it is another one now."""
        if self._present is None:
            return ()
        build, made = self._present
        now = self._look(build.artefact)
        if now is not None and now.sha256 == made.sha256:
            return ()
        shown = None if now is None else f"SHA-256 {now.sha256[:12]}"
        wanted = f"SHA-256 {made.sha256[:12]}"
        return (ArmDrift(address="what the visit measures", path=build.artefact, wanted=wanted, now=shown),)
