# SPDX-License-Identifier: Apache-2.0
"""Journal of commands that ktrial must undo: `FOLDER/commands.jsonl`, on disk before each command starts."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ktrial.bench.run.undoable_command import ArmCommand, OpenCommand
from ktrial.kit.errors import KtrialError

SCHEMA = "ktrial.commands/1"


class _Begun(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="begun"):
    number: int
    trial: str
    arm: str
    command: ArmCommand
    schema: str = SCHEMA


class _Undone(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="undone"):
    number: int


_Entry = _Begun | _Undone
_DECODER: msgspec.json.Decoder[_Entry] = msgspec.json.Decoder(_Entry)


class CommandJournalFile:
    """The journal, for the holder of the measuring lock. The file exists only while a command is still to be undone."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "commands.jsonl"

    @property
    def where(self) -> str:
        return str(self._path)

    def begin(self, trial: str, arm: str, command: ArmCommand) -> int:
        number = max((entry.number for entry in self._entries()), default=0) + 1
        self._append(_Begun(number=number, trial=trial, arm=arm, command=command))
        return number

    def end(self, number: int) -> None:
        self._append(_Undone(number=number))
        if not self.left():
            self._path.unlink()

    def left(self) -> tuple[OpenCommand, ...]:
        """Return the commands to undo, newest first. Raise KtrialError if the file is not a valid journal."""
        found: dict[int, OpenCommand] = {}
        for entry in self._entries():
            if isinstance(entry, _Begun):
                found[entry.number] = OpenCommand(
                    number=entry.number, trial=entry.trial, arm=entry.arm, command=entry.command
                )
            else:
                found.pop(entry.number, None)
        return tuple(reversed(found.values()))

    def _entries(self) -> list[_Entry]:
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise KtrialError(
                f"cannot read {self._path}: {error.strerror}",
                hint="make the file readable for this user",
            ) from None
        entries = []
        # A last line without its end was cut off: its command was not run.
        for number, line in enumerate(lines[:-1], start=1):
            try:
                entries.append(_DECODER.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                hint = "undo by hand the commands that the file lists, then remove the file"
                raise KtrialError(f"cannot read {self._path}:{number}: {error}", hint=hint) from None
        return entries

    def _append(self, entry: _Entry) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            whole = self._path.read_bytes() if self._path.exists() else b""
            keep = whole[: whole.rfind(b"\n") + 1]
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.ftruncate(descriptor, len(keep))
                os.pwrite(descriptor, msgspec.json.encode(entry) + b"\n", len(keep))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise KtrialError(
                f"cannot write {self._path}: {error.strerror}",
                hint=f"check the free space and the rights of {self._path.parent}",
            ) from None
