# SPDX-License-Identifier: Apache-2.0
"""Another transaction holds the machine's lock: it is waited for, not for ever."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.kit.errors import AgentError, Busy
from ktrial.tuning.plans.wait_for_lock import PatientMachine
from tests.support.bench import FakeClock
from tests.support.machine import FakeMachine

HELD = "process 4711 holds the lock /var/lib/ktrial/lock"


class HeldMachine(FakeMachine):
    """Whose lock is held for so many requests."""

    def __init__(self, times: int, kind: type[AgentError] = Busy) -> None:
        super().__init__({"/proc/sys/vm/swappiness": "60\n"})
        self.left = times
        self.kind = kind

    def request(self, do: str, **fields: Any) -> dict[str, Any]:
        self.requests.append((do, fields))
        if self.left:
            self.left -= 1
            raise self.kind("busy", HELD, hint="try again when it has ended")
        return {"done": do}


def test_it_waits_and_says_once_for_whom() -> None:
    held, told = HeldMachine(5), list[str]()
    clock = FakeClock()
    assert PatientMachine(held, clock, told.append).request("apply", plan={}) == {"done": "apply"}
    assert held.requests == [("apply", {"plan": {}})] * 6
    assert told == [f"waiting up to 60 s: {HELD}"]
    assert len(clock.slept_s) == 5


def test_it_gives_up_at_its_limit_and_says_who_it_was() -> None:
    """Each look at this clock is a second."""
    held = HeldMachine(10**6)
    with pytest.raises(Busy, match=r"process 4711 holds .* for more than 7 s") as caught:
        PatientMachine(held, FakeClock(), lambda _: None, limit_s=7).request("apply")
    assert len(held.requests) == 7
    assert caught.value.hint


def test_what_else_goes_wrong_is_not_tried_again() -> None:
    held = HeldMachine(1, AgentError)
    with pytest.raises(AgentError):
        PatientMachine(held, FakeClock(), lambda _: None).request("apply")
    assert len(held.requests) == 1


def test_all_else_is_the_session_s() -> None:
    session = PatientMachine(HeldMachine(1), FakeClock(), lambda _: None)
    assert session.is_root
    assert session.read(["/proc/sys/vm/swappiness", "/x"])["/x"] is None
    assert session.list(["/proc/sys/vm/*"]) == {"/proc/sys/vm/*": ("/proc/sys/vm/swappiness",)}
    assert len(session.facts()) == 0
