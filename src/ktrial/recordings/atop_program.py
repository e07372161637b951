# SPDX-License-Identifier: Apache-2.0
"""A raw log of atop, printed by the atop that is installed: its format is the tool's own and changes with it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ktrial.kit.errors import BadInput

_LIMIT_S = 300.0
_WORDS = 300


def print_raw_log(path: Path) -> bytes:
    """Return what `atop -r` prints of it. Raises BadInput."""
    program = shutil.which("atop")
    if program is None:
        raise BadInput(
            "it is a raw log of atop, and atop itself is not installed, which alone can read it",
            file=str(path),
            hint="install the package atop; or give what `atop -r FILE -P ALL` printed where it was recorded",
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
        raise BadInput(f"atop did not print it within {_LIMIT_S:g} s", file=str(path)) from None
    if done.returncode != 0 or not done.stdout:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:_WORDS] or f"status {done.returncode}"
        raise BadInput(
            f"atop cannot read it: {said}",
            file=str(path),
            hint="another version of atop wrote it? `atopconvert` makes it one of this version",
        )
    return done.stdout
