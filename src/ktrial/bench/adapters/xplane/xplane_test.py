# SPDX-License-Identifier: Apache-2.0
"""X-Plane's own frame rate test: its stages, and what each of them is."""

from __future__ import annotations

from collections.abc import Mapping

from ktrial.kit.outcome import Outcome

#: Stages of a whole test -> the outcome of each, and what it drew. A flight that is replayed has one.
STAGES: Mapping[int, tuple[tuple[str, str], ...]] = {
    1: (("fps", "the whole replay"),),
    3: (("fps-panel", "30 s with panel"), ("fps-no-panel", "30 s without panel"), ("fps-paused", "30 s paused")),
}
#: What belongs to every log of it.
NO_FRAMES = "X-Plane tells no single frames, so there are no quantiles, lows or stutters"


def stage_outcome(name: str) -> Outcome:
    """Return the outcome of a stage; the first one of a test is its headline."""
    return Outcome(
        name=name,
        unit="1/s",
        kind="rate",
        direction="higher",
        low=0.1,
        high=1e4,
        better="X-Plane drew more frames a second.",
        worse="X-Plane drew fewer frames a second.",
        blind_spots="A mean: hides stutter. Preferences of the simulator are not used.",
        headline=name in {stages[0][0] for stages in STAGES.values()},
    )
