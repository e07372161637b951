# SPDX-License-Identifier: Apache-2.0
"""The demo as it is on this machine, and what its table says."""

from __future__ import annotations

import math
import os
import re
import subprocess
from pathlib import Path

from tests.support.user import CHECKOUT

ARMS = ["placebo", "copium", "help", "hurt"]
#: Short runs. As many blocks as in any demo: the tests beside these are what makes noise here.
SHORT = ("--run-s", "0.1")
#: A help is +100 % or more, a hurt about -40 %.
NOISY_PERCENT = 40


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


def placebo_width_percent(output: str) -> float:
    """How wide the interval of what changes nothing is."""
    found = re.search(r"^placebo .* ([+-][\d.]+) % to ([+-][\d.]+) % ", output, re.MULTILINE)
    return float(found[2]) - float(found[1]) if found is not None else math.inf


def check_found(output: str) -> None:
    """A help that helps and a hurt that hurts. (Of the others a claim is possible, at most once in a hundred demos.)

    The tests beside this one can take so much of the machine that what changes nothing varies by half; then it may be
    left open, and never the wrong way round. tests/alone asks the machine that has nothing else to do.
    """
    found = verdicts(output)
    assert list(found) == ARMS, output
    undecided = {"inconclusive"} if placebo_width_percent(output) > NOISY_PERCENT else set()
    assert found["help"] in {"better", *undecided}, output
    assert found["hurt"] in {"worse", *undecided}, output
    assert "single before/after pairs" in " ".join(output.split()), output
