# SPDX-License-Identifier: Apache-2.0
"""Why an arm is not in force is said of the step that is to blame."""

from __future__ import annotations

import pytest

from ktrial.kit.errors import NoSuchTransaction
from ktrial.machine.transactions import Applied, AppliedStep, State
from ktrial.trial.arms.arms import Arms, refusal_of
from tests.support.machine import FakeMachine


def step(path: str, outcome: str, message: str) -> AppliedStep:
    return AppliedStep(step=0, path=path, outcome=outcome, now=None, message=message)


BACK = step("/proc/sys/vm/swappiness", "rolled-back", "another step failed")
OTHERWISE = step("/sys/block/zram0", "clamped", "is set up otherwise than wanted")
REFUSED = step("/proc/sys/vm/dirty_ratio", "refused", "Invalid argument")
DONE = step("/proc/sys/vm/page-cluster", "accepted", "")


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
def test_the_step_to_blame_is_named(steps: tuple[AppliedStep, ...], state: State, why: str | None) -> None:
    assert refusal_of(Applied(transaction=1, state=state, steps=steps)) == why


class RevertedByOthers(FakeMachine):
    """A machine on which no transaction is in force any more."""

    def request(self, do: str, **fields: object) -> dict[str, object]:
        assert do == "revert"
        raise NoSuchTransaction("not-found", "transaction 7 is no longer in force")


def test_an_arm_that_somebody_else_reverted_has_ended() -> None:
    arms = Arms(RevertedByOthers({}), {})
    arms._transaction, arms._present = 7, "case"
    arms.leave()
    assert arms.in_force is None
