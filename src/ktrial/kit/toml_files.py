# SPDX-License-Identifier: Apache-2.0
"""Read TOML files of the catalog and of users."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ktrial.kit import toml
from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.files import why_unread
from ktrial.kit.toml import T, locate

_HINT = "read docs/catalog.md, which lists the keys and their values"


def read_toml(path: Path, shape: type[T]) -> T:
    """Decode a TOML file as `shape`. Raise BadInput if it is unreadable or (with line and column) invalid."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(why_unread(error), file=str(path), hint="check the path and its permissions") from None
    return toml.parse_bytes(data, str(path), shape, _HINT)


def read_listed(path: Path, shape: type[T]) -> T:
    """Decode a TOML file found in a folder. Raise BadInput for named pipes and the like, which would block."""
    if path.exists() and not path.is_file():
        raise BadInput("not a regular file", file=str(path), hint="move this file out of the folder")
    return read_toml(path, shape)


def parse_toml(text: str, file: str, shape: type[T]) -> T:
    """Decode TOML text as `shape`. Raise BadInput with file, line and column."""
    return toml.parse(text, file, shape, _HINT)


class Place(msgspec.Struct, frozen=True):
    """The place that defines something: a file, and a path in its document such as `$.knob[3]`."""

    file: Path
    at: str

    def mended(self, error: KtrialError, *, key: str = "", about: str = "") -> BadInput:
        """Return the error as a BadInput that names file and line.

        `key` extends the path of the place, `about` precedes the message.
        """
        message = f"{about}: {error.message}" if about else error.message
        line, column = locate(self.file.read_text(encoding="utf-8", errors="replace"), f"{self.at}{key}", "")
        return BadInput(message, file=str(self.file), line=line, column=column, hint=error.hint)


BUILT_IN = Path(__file__).parents[1] / "catalog"
