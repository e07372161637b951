# SPDX-License-Identifier: Apache-2.0
"""The files of a kernel source tree that define its CPU targets, on disk."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ktrial.kernels.uarch.patch import (
    NEEDED,
    OPTIONAL,
    UNKNOWN_TREE,
    UarchPatch,
    make_patch,
    make_reverse,
    survey,
)
from ktrial.kernels.uarch.targets import KernelTree, Target
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.files import why_unread
from ktrial.kit.formats.tool_output import with_hint


class SourceTree:
    """Reads the tree in `folder`; only `write` changes it."""

    def __init__(self, folder: Path, targets: Sequence[Target]) -> None:
        self.folder = folder
        self._targets = tuple(targets)
        if not folder.is_dir():
            raise BadInput("not a folder", file=str(folder), hint="use the folder of a kernel's sources")

    def survey(self) -> KernelTree:
        with with_hint(UNKNOWN_TREE):
            return survey(self._files(), self._targets)

    def patch(self) -> UarchPatch:
        with with_hint(UNKNOWN_TREE):
            return make_patch(self._files(), self._targets)

    def reverse(self) -> UarchPatch:
        with with_hint(UNKNOWN_TREE):
            return make_reverse(self._files(), self._targets)

    def write(self, patch: UarchPatch) -> None:
        """Apply a patch to all of its files. If a file cannot be written, undo the patch and raise KtrialError."""
        done: list[str] = []
        path = ""
        try:
            for path in sorted(patch.after):
                self._replace(path, patch.after[path])
                done.append(path)
        except OSError as error:
            for written in done:
                self._replace(written, patch.before[written])
            raise KtrialError(
                f"cannot write {error.filename or self.folder / path}: {error.strerror}; the tree is unchanged",
                hint="check the permissions and the free space of the tree",
            ) from None

    def _replace(self, path: str, text: str) -> None:
        place = self.folder / path
        part = place.with_name(f".{place.name}.ktrial-{os.getpid()}")
        try:
            part.write_bytes(text.encode())
            part.chmod(place.stat().st_mode & 0o7777)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)

    def _files(self) -> Mapping[str, str]:
        found = {path: self._text(path) for path in NEEDED}
        found |= {path: self._text(path) for path in OPTIONAL if (self.folder / path).is_file()}
        return found

    def _text(self, path: str) -> str:
        place = self.folder / path
        if place.is_file() and not place.resolve().is_relative_to(self.folder.resolve()):
            raise BadInput(
                f"links to {place.resolve()}, outside the tree", file=str(place), hint="use a tree without this link"
            )
        try:
            text = place.read_bytes().decode()
        except FileNotFoundError:
            hint = "use the top folder of a kernel source tree"
            raise BadInput(f"not a kernel tree: {path} is missing", file=str(self.folder), hint=hint) from None
        except OSError as error:
            raise BadInput(why_unread(error), file=str(place), hint="check the permissions of the tree") from None
        except UnicodeDecodeError:
            raise BadInput("not UTF-8 text", file=str(place), hint="restore the file from the original tree") from None
        if "\r" in text or not text.endswith("\n"):
            raise BadInput(
                "not a kernel source file: it has CRLF line ends, or no newline at its end",
                file=str(place),
                hint="restore the file from the original tree",
            )
        return text
