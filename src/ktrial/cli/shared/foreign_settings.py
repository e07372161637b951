# SPDX-License-Identifier: Apache-2.0
"""Reads the texts for `profile import` and `review`, and writes profiles made from them."""

from __future__ import annotations

import sys
from pathlib import Path

from ktrial.kit.errors import BadInput
from ktrial.kit.files import why_unread


def read_content(file: str) -> bytes:
    """Return the content of a file, or standard input for `-`."""
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        hint = "check the path" if isinstance(error, FileNotFoundError) else "name a file that you may read"
        raise BadInput(why_unread(error), file=file, hint=hint) from None


def check_free(output: Path | None, *, force: bool) -> None:
    """Raise BadInput if the file exists and may not be overwritten."""
    if output is not None and output.exists() and not force:
        raise BadInput(f"{output}: file exists", hint="choose another name, or add --force to overwrite the file")


def write_profile(output: Path, text: str) -> None:
    """Write the text of a profile to a file. Raise BadInput if that fails."""
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"cannot write the file: {error.strerror}", file=str(output), hint="choose another place with -o"
        ) from None
