# SPDX-License-Identifier: Apache-2.0
"""Private directories of runs, here, in a guest or on another machine."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ktrial.agent.run_folder import PrivateFolder, own_tmpfs, remove
from ktrial.agent.session import AgentSession
from ktrial.bench.agent_output import exec_output
from ktrial.bench.benchmark import PINNED, RawOutput
from ktrial.bench.guest_tools import GuestTools
from ktrial.kit.errors import AgentError, KtrialError
from ktrial.kit.json_bytes import read_bytes

#: ktrial stores at most this many bytes of each file that a run leaves.
FILE_BYTES = 64 << 20
#: Programs that a guest needs for the directory of a run: to make it, to read its files and to remove it.
GUEST_PROGRAMS = ("mktemp", "cat", "rm")
#: Where runs work in a guest: on its disk, if it has one, and in its memory.
_GUEST_DISK, _GUEST_MEMORY = "/var/tmp", "/dev/shm"
_GUEST_LIMIT_S = 60.0
_GUEST_FILE_BYTES = 1 << 20


class RunFolders(Protocol):
    """Makes, reads and removes the private directories of runs."""

    def make(self, *, in_memory: bool, for_program: bool) -> Path:
        """Return a directory, fresh if `for_program`.

        Loads of the agent may share a directory, because their files have no names.
        """

    def with_files(self, raw: RawOutput, folder: Path, names: Sequence[str]) -> RawOutput:
        """Return the output with the files that the run left; `*` in a name matches anything."""

    def remove(self, folder: Path) -> None: ...


class PlanFolders(Protocol):
    """Makes, reads and removes directories for runs that a machine makes by itself; directories outlive the head."""

    def make_for_plan(self, name: str, runs: int) -> Path:
        """Return a fresh directory with `run-1` to `run-N` in it."""

    def with_files(self, raw: RawOutput, folder: Path, names: Sequence[str]) -> RawOutput:
        """Return the output with the files that a run left."""

    def remove(self, folder: Path) -> None: ...

    def remove_others(self, known: Collection[str]) -> None:
        """Remove the directories of plans that are not in `known`, the plans that the machine still has."""


class PlanFoldersHere:
    """Directories in `place` for runs that this machine makes by itself."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def make_for_plan(self, name: str, runs: int) -> Path:
        folder = self._place / name
        try:
            self._place.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(mode=0o700)
            for number in range(1, runs + 1):
                (folder / f"run-{number}").mkdir(mode=0o700)
        except OSError as error:
            raise KtrialError(
                f"cannot make folders for the unattended runs in {self._place}: {error.strerror}",
                hint="set XDG_STATE_HOME to a writable folder with free space",
            ) from None
        return folder

    @staticmethod
    def with_files(raw: RawOutput, folder: Path, names: Sequence[str]) -> RawOutput:
        return FoldersHere.with_files(raw, folder, names)

    @staticmethod
    def remove(folder: Path) -> None:
        remove(folder)

    def remove_others(self, known: Collection[str]) -> None:
        for old in self._place.glob("*"):
            if old.name not in known:
                remove(old)


class FoldersHere:
    """Directories on this machine, in `work` or on a tmpfs."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._held: dict[Path, PrivateFolder] = {}

    def make(self, *, in_memory: bool, for_program: bool) -> Path:
        work = own_tmpfs() if in_memory else self._work
        try:
            folder = PrivateFolder(work)
        except OSError as error:
            other = "XDG_RUNTIME_DIR" if in_memory else "XDG_STATE_HOME"
            kind = "tmpfs" if in_memory else "folder"
            raise KtrialError(
                f"cannot make a private folder in {work}: {error.strerror}",
                hint=f"set {other} to a writable {kind} with free space",
            ) from None
        self._held[folder.path] = folder
        return folder.path

    @staticmethod
    def with_files(raw: RawOutput, folder: Path, names: Sequence[str]) -> RawOutput:
        files: dict[str, bytes] = {}
        cut, unread = raw.cut, raw.unread
        found = [path for name in names for path in sorted(folder.glob(name))]
        for name in [str(path.relative_to(folder)) for path in found]:
            try:
                descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            except FileNotFoundError:  # it existed a moment ago: what the program itself deletes is not output
                continue
            except OSError as error:
                unread = f"{name} ({error.strerror})"
                continue
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                unread = f"{name} (not a regular file)"
                continue
            with os.fdopen(descriptor, "rb") as file:
                files[name] = file.read(FILE_BYTES)
                cut = cut or bool(file.read(1))
        return msgspec.structs.replace(raw, files=files, cut=cut, unread=unread)

    def remove(self, folder: Path) -> None:
        self._held.pop(folder).remove()


class FoldersInGuest:
    """Directories in a guest. Three programs there make, read and remove them in the user's `session`.

    An exact guest boots again for each answer, so directories stay in it until the end.
    """

    def __init__(self, session: Callable[[], AgentSession], guest: Callable[[], GuestTools]) -> None:
        self._session = session
        self._guest = guest

    def make(self, *, in_memory: bool, for_program: bool) -> Path:
        """Return a fresh directory. Raise KtrialError if the guest cannot make one."""
        place = _GUEST_MEMORY if in_memory else _GUEST_DISK
        if not for_program:
            return Path(place)
        made = self._ask("mktemp", "-d", f"{place}/run-XXXXXXXX")
        if made.exit_status != 0:
            why = made.failed or made.stderr.decode(errors="replace").strip()
            raise KtrialError(
                f"cannot make a private folder in the guest: {why}",
                hint="boot the guest again with this version of ktrial, which adds the necessary programs",
            )
        return Path(made.stdout.decode().strip())

    def with_files(self, raw: RawOutput, folder: Path, names: Sequence[str]) -> RawOutput:
        patterns = [f"{folder}/{name}" for name in names]
        files: dict[str, bytes] = {}
        cut, unread = raw.cut, raw.unread
        try:
            matches = self._session().list(patterns)
            for path in dict.fromkeys(path for pattern in patterns for path in sorted(matches.get(pattern, ()))):
                read = self._ask("cat", path)
                name = path.removeprefix(f"{folder}/")
                if read.exit_status == 0:
                    files[name] = read.stdout
                    cut = cut or read.cut
                else:
                    unread = f"{name}: {read.failed or read.stderr.decode(errors='replace').strip()}"
        except AgentError as error:
            unread = f"{', '.join(names)}: {error.message}"
        return msgspec.structs.replace(raw, files=files, cut=cut, unread=unread)

    def remove(self, folder: Path) -> None:
        """Remove the directory if possible; the guest's memory vanishes with it anyway."""
        if folder.name.startswith("run-") and not self._guest().exact:
            with contextlib.suppress(AgentError):
                self._ask("rm", "-rf", str(folder))

    def _ask(self, program: str, *words: str) -> RawOutput:
        request: dict[str, Any] = {"argv": [f"/usr/bin/{program}", *words], "environment": dict(PINNED)}
        request |= {"directory": "/", "limit_s": _GUEST_LIMIT_S, "capture_bytes": _GUEST_FILE_BYTES}
        return exec_output(self._session().request("exec", **request))


class FoldersThere:
    """Directories on another machine, which the agent of the user's `session` makes.

    When the session ends, the agent removes all of them except the directories of plans.
    """

    def __init__(self, session: Callable[[], AgentSession]) -> None:
        self._session = session

    def make(self, *, in_memory: bool, for_program: bool) -> Path:
        del for_program
        return Path(self._session().request("folder-make", in_memory=in_memory)["path"])

    def make_for_plan(self, name: str, runs: int) -> Path:
        """Return a directory that outlives the session, for runs that the machine makes by itself."""
        return Path(self._session().request("folder-plan", name=name, runs=runs)["path"])

    def remove_others(self, known: Collection[str]) -> None:
        """Remove the directories of plans that are not in `known`, the plans that the machine still has."""
        place = self.make(in_memory=False, for_program=True)
        pattern = f"{place.parent}/plan-*"
        for path in self._session().list([pattern]).get(pattern, ()):
            if Path(path).name.removeprefix("plan-") not in known:
                self.remove(Path(path))
        self.remove(place)

    def with_files(self, raw: RawOutput, folder: Path, names: Sequence[str]) -> RawOutput:
        patterns = [f"{folder}/{name}" for name in names]
        files: dict[str, bytes] = {}
        cut, unread = raw.cut, raw.unread
        matches = self._session().list(patterns)
        for path in dict.fromkeys(path for pattern in patterns for path in sorted(matches.get(pattern, ()))):
            name = path.removeprefix(f"{folder}/")
            try:
                files[name], is_cut = self._read(path)
            except AgentError as error:
                if error.kind == "lost":
                    raise
                unread = f"{name}: {error.message}"
            else:
                cut = cut or is_cut
        return msgspec.structs.replace(raw, files=files, cut=cut, unread=unread)

    def _read(self, path: str) -> tuple[bytes, bool]:
        """Return a file's content up to the limit, and whether there was more."""
        content = b""
        while len(content) < FILE_BYTES:
            piece = self._session().request("folder-read", path=path, offset=len(content))
            content += read_bytes(piece["bytes"])
            if piece["last"]:
                return content, False
        return content[:FILE_BYTES], True

    def remove(self, folder: Path) -> None:
        """Remove the directory. If the session was lost, the agent has removed the directory already."""
        with contextlib.suppress(AgentError):
            self._session().request("folder-remove", path=str(folder))
