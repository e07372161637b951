# SPDX-License-Identifier: Apache-2.0
"""Tools built for this user, in `FOLDER/NAME/BUILD/{bin/PROGRAM,tool.json}`; `FOLDER/NAME/current` links to BUILD."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import msgspec

from ktrial.bench.tool import Receipt
from ktrial.bench.tools.archive import file_sha256
from ktrial.kit.errors import KtrialError, Refused, UnknownName

_CURRENT = "current"
_RECEIPT = "tool.json"


class UserToolbox:
    """Finds, installs and removes built tools; there is one build of each tool."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, program: str) -> tuple[Path, Receipt] | None:
        """Return the path of a built program and its receipt; None if no tool has the program.

        Raise KtrialError if the program is no longer the file that ktrial built.
        """
        for name in self.names():
            build = (self._folder / name / _CURRENT).resolve()
            path = build / "bin" / program
            if not path.is_file():
                continue
            _check_owner(path)
            receipt = self.receipt(name)
            if file_sha256(path) != receipt.programs.get(program):
                raise KtrialError(
                    f"{path} is not the file that ktrial built", hint=f"rebuild the tool with `ktrial tools get {name}`"
                )
            return path, receipt
        return None

    def names(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if (path / _CURRENT).is_dir())

    def receipt(self, name: str) -> Receipt:
        path = self._folder / name / _CURRENT / _RECEIPT
        try:
            return msgspec.json.decode(path.read_bytes(), type=Receipt)
        except (OSError, msgspec.MsgspecError) as error:
            raise KtrialError(
                f"cannot read {path}: {getattr(error, 'strerror', None) or error}",
                hint=f"rebuild the tool with `ktrial tools get {name}`",
            ) from None

    def install(self, receipt: Receipt, files: dict[str, Path]) -> Path:
        tool = self._folder / receipt.name
        build, part, link = tool / receipt.folder, tool / ".part", tool / ".link"
        for left in (part, link):
            _remove(left)
        (part / "bin").mkdir(parents=True, mode=0o700)
        for program, path in files.items():
            shutil.copyfile(path, part / "bin" / program)
            (part / "bin" / program).chmod(0o755)
        (part / _RECEIPT).write_bytes(msgspec.json.format(msgspec.json.encode(receipt), indent=1) + b"\n")
        if build.exists():  # The same build again: move the old one aside, and delete it once the new one is in place.
            build.rename(tool / f".old-{os.getpid()}")
        part.rename(build)
        link.symlink_to(receipt.folder)
        link.replace(tool / _CURRENT)
        for other in tool.iterdir():
            if other.name not in {_CURRENT, receipt.folder}:
                _remove(other)
        return build

    def remove(self, name: str) -> Path:
        """Remove a tool and return its former folder."""
        if name not in self.names():
            raise UnknownName("built tool", name, self.names(), hint="run `ktrial tools list` to list the tools")
        _remove(self._folder / name)
        return self._folder / name


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _check_owner(path: Path) -> None:
    """Raise Refused if ktrial is root and another user could have replaced the program."""
    if os.geteuid() != 0:
        return
    for place in (path, *path.parents):
        status = place.stat()
        shared = status.st_mode & (stat.S_IWOTH | stat.S_IWGRP) and not status.st_mode & stat.S_ISVTX
        if status.st_uid != 0 or shared:
            raise Refused(
                f"cannot run {path.name} as root: other users can change {place}",
                hint="run ktrial as the user who built the tool",
            )
