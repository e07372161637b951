# SPDX-License-Identifier: Apache-2.0
"""Runs the demo on this machine, and reads its table."""

from __future__ import annotations

import math
import os
import re
import subprocess
from pathlib import Path

from tests.support.user import CHECKOUT

ARMS = ["placebo", "copium", "help", "hurt"]
#: Short runs. The number of blocks is the demo's, because tests that run at the same time make noise.
SHORT = ("--run-s", "0.1")
#: Smallest effects of a help and a hurt, in percent.
EXPECTED = {"help": 100.0, "hurt": -40.0}
NOISY_PERCENT = 40


def demo(tmp_path: Path, *options: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run the demo in folders of its own."""
    own = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_DATA_HOME": str(tmp_path / "data"), "COLUMNS": "80"}
    # With the machine's own state, transactions here would make measurements of other tests void.
    state = ("--machine-state", str(tmp_path / "machine"))
    command = [*before, ".venv/bin/python", "-m", "ktrial", *state, "demo", *options]
    return subprocess.run(
        command, cwd=CHECKOUT, env={**os.environ, **own}, capture_output=True, text=True, timeout=240, check=False
    )


def verdicts(output: str) -> dict[str, str]:
    """Return the last word of each arm's row in the table."""
    return {
        row[1]: row[2]
        for row in re.finditer(r"^(placebo|copium|help|hurt) .* (\w+)$", output, re.MULTILINE)
        if row[2] in {"better", "worse", "equivalent", "inconclusive"}
    }


def interval_percent(output: str, arm: str) -> tuple[float, float]:
    """Return the interval of an arm's effect."""
    found = re.search(rf"^{arm} .* ([+-][\d.]+) % to ([+-][\d.]+) % ", output, re.MULTILINE)
    return (float(found[1]), float(found[2])) if found is not None else (-math.inf, math.inf)


def may_be_open(output: str, arm: str) -> bool:
    """Return whether noise hides the arm's effect.

    Either the placebo's interval is wide, or the arm's own interval contains the expected effect.
    """
    low, high = interval_percent(output, "placebo")
    own_low, own_high = interval_percent(output, arm)
    return high - low > NOISY_PERCENT or own_low <= EXPECTED[arm] <= own_high


def check_found(output: str) -> None:
    """Check that the help helps and the hurt hurts. (The other two may get a verdict once in a hundred demos.)

    Tests that run at the same time can take so much of the machine that the effects stay undecided. That is allowed,
    but a reversed verdict is not. tests/alone runs the demo on an otherwise idle machine.
    """
    found = verdicts(output)
    assert list(found) == ARMS, output
    for arm, verdict in (("help", "better"), ("hurt", "worse")):
        assert found[arm] == verdict or (found[arm] == "inconclusive" and may_be_open(output, arm)), output
    assert "single before/after pairs" in " ".join(output.split()), output
