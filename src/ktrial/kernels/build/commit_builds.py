# SPDX-License-Identifier: Apache-2.0
"""Builds commits of a kernel's git tree one by one in a separate clone; the tree itself stays untouched."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ktrial.bench.text import duration
from ktrial.kit.commits import Commit, Untellable
from ktrial.kit.errors import BadInput, KtrialError

Say = Callable[[str], None]
_GIT_LIMIT_S = 600.0
#: The format of `git log`: commit hash, parents, subject.
_FORMAT = "%H%x00%P%x00%s"
_TAIL_LINES = 8
#: Environment variables that would change the build, or the repository that git reads.
_NOT_INHERITED = (
    "KCFLAGS",
    "KCPPFLAGS",
    "KRUSTFLAGS",
    "MAKEFLAGS",
    "MFLAGS",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
)


class BuildFailed(Untellable):
    """A commit does not build."""


class CommitHistory:
    """The commits of the repository that holds `folder`."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("git") is None:
            raise KtrialError("cannot bisect: git is not in PATH", hint="install git")
        self.folder = folder
        if not folder.is_dir():
            raise BadInput("not a folder", file=str(folder), hint="use the folder of a git tree")
        self.git(
            "rev-parse",
            "--git-dir",
            what="not a usable git tree",
            hint="use --tree with the folder of a kernel's git tree",
        )

    def commit(self, word: str) -> str:
        """Return the full hash of the commit that `word` names. Raise BadInput if there is none."""
        return self.git(
            *("rev-parse", "--verify", "--quiet", f"{word}^{{commit}}"),
            what=f"this tree has no commit {word!r}",
            hint="use a tag, a branch or a hash that `git log` shows in this tree",
        ).strip()

    def between(self, good: str, bad: str) -> list[Commit]:
        """Return the commits after `good` up to `bad`, parents first. Raise BadInput if `good` is not an ancestor."""
        base = self.git(
            *("merge-base", good, bad),
            what="GOOD and BAD have no common commit",
            hint="use a GOOD from the history of BAD, or complete a shallow clone with `git fetch --unshallow`",
        ).strip()
        if base != good:
            raise BadInput(
                "GOOD is not an ancestor of BAD",
                file=str(self.folder),
                hint="swap GOOD and BAD"
                if base == bad
                else f"use as GOOD the last commit that both histories share: {base[:12]}",
            )
        log = self.git("log", "--topo-order", "--reverse", f"--format={_FORMAT}", f"{good}..{bad}")
        lines = (line.split("\0", 2) for line in log.splitlines())
        return [
            Commit(id=number, parents=tuple(parents.split()), subject=subject) for number, parents, subject in lines
        ]

    def git(self, *words: str, what: str | None = None, hint: str | None = None, folder: Path | None = None) -> str:
        """Return git's output.

        If git exits with an error, raise BadInput with the message `what`, or KtrialError if `what` is None. If git
        cannot start or takes too long, raise KtrialError.
        """
        place = folder or self.folder
        try:
            done = subprocess.run(
                ["git", "-C", str(place), *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_GIT_LIMIT_S,
                check=False,
                env=_environment(),
            )
        except OSError as error:
            raise KtrialError(f"cannot run git: {error.strerror}", hint="reinstall git") from None
        except subprocess.TimeoutExpired:
            raise KtrialError(
                f"git {words[0]} in {place} did not end within {_GIT_LIMIT_S / 60:g} min",
                hint="run the command again when the machine is less busy",
            ) from None
        if done.returncode != 0:
            said = done.stderr.strip()[-300:].removeprefix("fatal: ")
            if what is not None:
                raise BadInput(f"{what} ({said})" if said else what, file=str(place), hint=hint)
            raise KtrialError(
                f"git {words[0]} in {place} failed: {said}",
                hint=f"check the disk space, and the repository with `git -C {shlex.quote(str(self.folder))} fsck`",
            )
        return done.stdout


class CommitBuilds:
    """Builds one commit after another in the same clone, so that make recompiles only what changed.

    A shell runs `commands` in the clone, where they must write the file `image`. The end of the context removes the
    clone.
    """

    def __init__(
        self, history: CommitHistory, work: Path, commands: Sequence[str], image: str, *, limit_s: float
    ) -> None:
        self._history = history
        self._folder = work
        self._commands = tuple(commands)
        self._image = image
        self._limit_s = limit_s

    def __enter__(self) -> CommitBuilds:
        shutil.rmtree(self._folder, ignore_errors=True)
        source = self._history.folder.resolve()
        self._history.git("clone", "--quiet", "--shared", "--no-checkout", str(source), str(self._folder))
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def folder(self) -> Path:
        return self._folder

    def image(self, commit: str) -> bytes:
        git = self._history.git
        git(
            "-c", "advice.detachedHead=false", "checkout", "--quiet", "--force", "--detach", commit, folder=self._folder
        )
        place = self._folder / self._image
        place.unlink(missing_ok=True)
        for command in self._commands:
            self._run(command, commit)
        if not place.is_file():
            raise BuildFailed(
                f"{commit[:12]}: the build did not write {self._image}",
                hint="use --image to name the file that the build writes",
            )
        return place.read_bytes()

    def _run(self, command: str, commit: str) -> None:
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=self._limit_s,
                check=False,
                env={**_environment(), "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            raise BuildFailed(
                f"{commit[:12]}: `{command}` did not end within {duration(self._limit_s)}",
                hint="raise the limit with --build-limit",
            ) from None
        if done.returncode != 0:
            tail = "\n  ".join(done.stdout.strip().splitlines()[-_TAIL_LINES:])
            raise BuildFailed(
                f"{commit[:12]}: `{command}` ended with status {done.returncode}:\n  {tail}",
                hint="build this commit by hand to find the cause",
            )


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
