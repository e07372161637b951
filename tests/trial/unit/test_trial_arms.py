# SPDX-License-Identifier: Apache-2.0
"""Why an arm is not in force is said of the step that is to blame."""

from __future__ import annotations

import pytest

from ktrial.trial.arms.arms import refusal_of

BACK = {"path": "/proc/sys/vm/swappiness", "outcome": "rolled-back", "message": "another step failed"}
OTHERWISE = {"path": "/sys/block/zram0", "outcome": "clamped", "message": "is set up otherwise than wanted"}
REFUSED = {"path": "/proc/sys/vm/dirty_ratio", "outcome": "refused", "message": "Invalid argument"}
DONE = {"path": "/proc/sys/vm/page-cluster", "outcome": "accepted", "message": ""}


@pytest.mark.parametrize(
    "steps, state, why",
    [
        ((DONE,), "applied", None),
        ((DONE, OTHERWISE), "applied", None),
        ((BACK, REFUSED), "rolled-back", "/proc/sys/vm/dirty_ratio: Invalid argument"),
        ((BACK, OTHERWISE), "rolled-back", "/sys/block/zram0: is set up otherwise than wanted"),
        ((OTHERWISE, REFUSED, BACK), "rolled-back", "/proc/sys/vm/dirty_ratio: Invalid argument"),
        ((BACK,), "rolled-back", "/proc/sys/vm/swappiness: another step failed"),
    ],
    ids=["in force", "taken otherwise", "refused", "swap otherwise", "both", "none told"],
)
def test_the_step_to_blame_is_named(steps: tuple[dict[str, str], ...], state: str, why: str | None) -> None:
    assert refusal_of({"steps": list(steps), "state": state}) == why
