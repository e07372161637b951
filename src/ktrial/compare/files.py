# SPDX-License-Identifier: Apache-2.0
"""Reading of `ktrial.comparison/1` files, and atomic writing of reports."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ktrial.kit.errors import BadInput, KtrialError
from ktrial.kit.files import read_file

if TYPE_CHECKING:
    from ktrial.judge.model.comparison import Comparison

LIMIT_BYTES = 256 << 20
_HINT = "write a comparison with `ktrial compare A B -o FILE`"


def read_comparison(path: Path) -> Comparison:
    """Read a `ktrial.comparison/1` file; `-` is standard input."""
    shown = "standard input" if str(path) == "-" else str(path)
    data = sys.stdin.buffer.read(LIMIT_BYTES + 1) if str(path) == "-" else read_file(path, LIMIT_BYTES)
    if len(data) > LIMIT_BYTES:
        raise BadInput(f"larger than {LIMIT_BYTES >> 20} MiB", file=shown, hint="compare fewer sessions")
    return decode_comparison(data, shown)


def decode_comparison(data: bytes, shown: str) -> Comparison:
    import msgspec

    from ktrial.judge.model.comparison import Comparison
    from ktrial.kit.json_strict import decode_as

    try:
        comparison = decode_as(data, Comparison)
    except msgspec.DecodeError as error:
        raise BadInput(f"not a ktrial.comparison/1 document ({error})", file=shown, hint=_HINT) from None
    for outcome in comparison.outcomes:
        empty = next((values.arm for values in outcome.arms if not values.points), None)
        if empty is not None:
            raise BadInput(f"{outcome.name} has no measurement in arm {empty!r}", file=shown, hint=_HINT)
        if outcome.margin < 0:
            raise BadInput(
                f"expected a margin of 0 or more for {outcome.name}, got {outcome.margin:g}", file=shown, hint=_HINT
            )
    return comparison


def as_json(comparison: Comparison) -> bytes:
    from ktrial.kit import plain_json

    return plain_json.document(comparison)


def write_file(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.rename(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise KtrialError(
            f"cannot write {path}: {error.strerror}", hint="free some space, or make the folder writable"
        ) from None


def write_folder(folder: Path, files: Mapping[str, bytes], listing: str) -> None:
    """Write all files, and remove unchanged files of an earlier publication that are not among `files`.

    `listing` is the name of the file that lists the published files with their digests.
    """
    stale = {name: digest for name, digest in _earlier_publication(folder, listing).items() if name not in files}
    try:
        for name in sorted({str(Path(name).parent) for name in files}):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, digest in stale.items():
            old = folder / name
            if old.is_file() and hashlib.sha256(old.read_bytes()).hexdigest() == digest:
                old.unlink()
    except OSError as error:
        raise KtrialError(
            f"cannot write {folder}: {error.strerror}", hint="free some space, or make the folder writable"
        ) from None
    for name, data in files.items():
        write_file(folder / name, data)
        if data.startswith(b"#!"):
            (folder / name).chmod(0o755)


def _earlier_publication(folder: Path, listing: str) -> dict[str, str]:
    """Map the name of each file of an earlier publication to its digest, ignoring names outside the folder."""
    try:
        lines = (folder / listing).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.partition("  ") for line in lines)
    return {name: digest for digest, _, name in pairs if _is_ours(Path(name))}


def _is_ours(name: Path) -> bool:
    inside = not name.is_absolute() and ".." not in name.parts
    return inside and (name.parts[0] == "data" or name.parent in {Path("runs"), Path("charts"), Path()})
