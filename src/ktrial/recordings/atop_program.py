# SPDX-License-Identifier: Apache-2.0
"""Converts raw atop logs with the installed atop, because the format of the logs changes with atop's version."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ktrial.kit.errors import BadInput

_LIMIT_S = 300.0
_WORDS = 300


def print_raw_log(path: Path) -> bytes:
    """Return the output of `atop -r`. Raise BadInput if atop is missing or cannot read the log."""
    program = shutil.which("atop")
    if program is None:
        raise BadInput(
            "cannot read a raw log of atop, because atop is not installed",
            file=str(path),
            hint="install the package atop",
        )
    try:
        done = subprocess.run(
            [program, "-r", str(path.resolve()), "-P", "ALL"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BadInput(
            f"cannot read the log, because atop did not finish within {_LIMIT_S:g} s",
            file=str(path),
            hint="give the output of `atop -r FILE -b BEGIN -e END -P ALL` for a shorter time",
        ) from None
    if done.returncode != 0 or not done.stdout:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:_WORDS] or f"status {done.returncode}"
        raise BadInput(
            f"atop cannot read the log ({said})",
            file=str(path),
            hint="convert the log with atopconvert if another version of atop wrote it",
        )
    return done.stdout
