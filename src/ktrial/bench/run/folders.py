# SPDX-License-Identifier: Apache-2.0
"""The private directory of a run: made before it, its files read after it, taken away. Here, or in a guest."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ktrial.agent.run_folder import PrivateFolder, own_tmpfs
from ktrial.agent.session import AgentSession
from ktrial.bench.agent_output import exec_output
from ktrial.bench.benchmark import PINNED, RawOutput
from ktrial.bench.guest_tools import GuestTools
from ktrial.kit.errors import AgentError, KtrialError

#: Bytes kept of a file that a run leaves.
FILE_BYTES = 64 << 20
#: What a guest needs beside a program: they make a directory there, hand over files, and take it away.
GUEST_PROGRAMS = ("mktemp", "cat", "rm")
#: Where runs work in a guest: its disk where it has one, and its memory.
_GUEST_DISK, _GUEST_MEMORY = "/var/tmp", "/dev/shm"
_GUEST_LIMIT_S = 60.0
_GUEST_FILE_BYTES = 1 << 20


class RunFolders(Protocol):
    """Makes the private directories of runs."""

    def make(self, *, in_memory: bool, for_program: bool) -> Path:
        """Return a fresh one; the agent's own loads need none if files of theirs have no name."""

    def with_files(self, raw: RawOutput, folder: Path, names: Sequence[str]) -> RawOutput:
        """Return the same with the files that were left there; `*` in a name stands for anything."""

    def remove(self, folder: Path) -> None: ...


class FoldersHere:
    """Directories of this machine, in `work` or on a tmpfs of the user's."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._held: dict[Path, PrivateFolder] = {}

    def make(self, *, in_memory: bool, for_program: bool) -> Path:
        work = own_tmpfs() if in_memory else self._work
        try:
            folder = PrivateFolder(work)
        except OSError as error:
            raise KtrialError(
                f"cannot make a private directory in {work}: {error.strerror}",
                hint="free some space there, or set XDG_STATE_HOME to another file system",
            ) from None
        self._held[folder.path] = folder
        return folder.path

    @staticmethod
    def with_files(raw: RawOutput, folder: Path, names: Sequence[str]) -> RawOutput:
        """Return the same with the regular files that were left there."""
        files: dict[str, bytes] = {}
        cut, unread = raw.cut, raw.unread
        found = [path for name in names for path in sorted(folder.glob(name))]
        for name in [str(path.relative_to(folder)) for path in found]:
            try:
                descriptor = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            except FileNotFoundError:  # it was there a moment ago: what the program takes away itself is no output
                continue
            except OSError as error:
                unread = f"{name}: {error.strerror}"
                continue
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                unread = f"{name}: not a regular file"
                continue
            with os.fdopen(descriptor, "rb") as file:
                files[name] = file.read(FILE_BYTES)
                cut = cut or bool(file.read(1))
        return msgspec.structs.replace(raw, files=files, cut=cut, unread=unread)

    def remove(self, folder: Path) -> None:
        self._held.pop(folder).remove()


class FoldersInGuest:
    """Directories of a guest, which three programs there make, read and take away; `session` is the user's.

    In an exact guest, where each answer is a boot, they stay: it ends with the command.
    """

    def __init__(self, session: Callable[[], AgentSession], guest: Callable[[], GuestTools]) -> None:
        self._session = session
        self._guest = guest

    def make(self, *, in_memory: bool, for_program: bool) -> Path:
        """Return a fresh one. Raises KtrialError if the guest has not what makes it."""
        place = _GUEST_MEMORY if in_memory else _GUEST_DISK
        if not for_program:
            return Path(place)
        made = self._ask("mktemp", "-d", f"{place}/run-XXXXXXXX")
        if made.exit_status != 0:
            why = made.failed or made.stderr.decode(errors="replace").strip()
            raise KtrialError(
                f"no private directory in the guest: {why}",
                hint="a guest that is kept has what makes one since it is booted by this version: boot it anew",
            )
        return Path(made.stdout.decode().strip())

    def with_files(self, raw: RawOutput, folder: Path, names: Sequence[str]) -> RawOutput:
        """Return the same with the files that were left there."""
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
        """Take it away; what stays goes with the guest."""
        if folder.name.startswith("run-") and not self._guest().exact:
            with contextlib.suppress(AgentError):
                self._ask("rm", "-rf", str(folder))

    def _ask(self, program: str, *words: str) -> RawOutput:
        request: dict[str, Any] = {"argv": [f"/usr/bin/{program}", *words], "environment": dict(PINNED)}
        request |= {"directory": "/", "limit_s": _GUEST_LIMIT_S, "capture_bytes": _GUEST_FILE_BYTES}
        return exec_output(self._session().request("exec", **request))
