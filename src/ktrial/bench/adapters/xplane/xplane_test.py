# SPDX-License-Identifier: Apache-2.0
"""X-Plane's own frame rate test: its stages and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.bench.adapters._outcomes import rate
from ktrial.kit.outcome import Outcome

#: Number of stages -> the outcome of each, and what it drew. A replayed flight has one.
STAGES: Mapping[int, tuple[tuple[str, str], ...]] = {
    1: (("fps", "the whole replay"),),
    3: (("fps-panel", "30 s with panel"), ("fps-no-panel", "30 s without panel"), ("fps-paused", "30 s paused")),
}
#: Note on every result of the test.
NO_FRAMES = "X-Plane does not log single frames, so there are no quantiles, lows or stutters"


def stage_outcome(name: str) -> Outcome:
    """Return the outcome of a stage; the first one of a test is its headline."""
    return rate(
        name,
        "1/s",
        "X-Plane draws [more|fewer] frames per second.",
        "A mean, which hides stutter. The simulator's preferences are not used.",
        (0.1, 1e4),
        headline=name in {stages[0][0] for stages in STAGES.values()},
    )
