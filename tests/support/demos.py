# SPDX-License-Identifier: Apache-2.0
"""The demo as it is on this machine, and what its table says."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.support.user import CHECKOUT

ARMS = ["placebo", "copium", "help", "hurt"]


def demo(tmp_path: Path, *options: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """As root, with folders of its own."""
    own = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_DATA_HOME": str(tmp_path / "data"), "COLUMNS": "80"}
    # Measurements of other tests would be void while a transaction of the machine's own is made and undone.
    state = ("--machine-state", str(tmp_path / "machine"))
    command = [*before, ".venv/bin/python", "-m", "ktrial", *state, "demo", *options]
    return subprocess.run(
        command, cwd=CHECKOUT, env={**os.environ, **own}, capture_output=True, text=True, timeout=240, check=False
    )


def verdicts(output: str) -> dict[str, str]:
    """Arm -> the last word of its row in the table."""
    return {
        row[1]: row[2]
        for row in re.finditer(r"^(placebo|copium|help|hurt) .* (\w+)$", output, re.MULTILINE)
        if row[2] in {"better", "worse", "equivalent", "inconclusive"}
    }
