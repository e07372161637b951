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
#: What a help and a hurt come to at least, in percent.
EXPECTED = {"help": 100.0, "hurt": -40.0}
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


def interval_percent(output: str, arm: str) -> tuple[float, float]:
    """From where to where an arm's effect may lie."""
    found = re.search(rf"^{arm} .* ([+-][\d.]+) % to ([+-][\d.]+) % ", output, re.MULTILINE)
    return (float(found[1]), float(found[2])) if found is not None else (-math.inf, math.inf)


def may_be_open(output: str, arm: str) -> bool:
    """Whether noise hides it: what changes nothing varies by half, or the arm's own interval holds what is expected."""
    low, high = interval_percent(output, "placebo")
    own_low, own_high = interval_percent(output, arm)
    return high - low > NOISY_PERCENT or own_low <= EXPECTED[arm] <= own_high


def check_found(output: str) -> None:
    """A help that helps and a hurt that hurts. (Of the others a claim is possible, at most once in a hundred demos.)

    The tests beside this one can take so much of the machine, its memory in whole pieces too, that it cannot be told;
    then it may be left open, and never the wrong way round. tests/alone asks the machine that has nothing else to do.
    """
    found = verdicts(output)
    assert list(found) == ARMS, output
    for arm, verdict in (("help", "better"), ("hurt", "worse")):
        assert found[arm] == verdict or (found[arm] == "inconclusive" and may_be_open(output, arm)), output
    assert "single before/after pairs" in " ".join(output.split()), output
