# SPDX-License-Identifier: Apache-2.0
"""Disks that fail or become read-only while an agent works: no byte is wrong, and what the agent says is so.

tests/full has many more of them, on more file systems, and disks that become read-only.
"""

from __future__ import annotations

import json
from typing import Any

from tests.guests.system.kernels import KERNELS
from tests.guests.system.power import EXT4, KNOBS, Told
from tests.support.failing_disks import ended_lease, failed_disks
from tests.support.fault_agent import fault_agent_with

(KERNEL,) = (kernel for kernel in KERNELS if kernel.name == "6.12")


def test_what_the_agent_says_of_a_disk_that_fails_is_so() -> None:
    cases = failed_disks(KERNEL, EXT4, fault_agent_with("fault-injection"), 8, read_only=False)
    assert len(cases) == 24
    assert [fault for case in cases for fault in case.wrong] == []
    assert sum("could not be" in case.said for case in cases) > 4


def test_a_lease_ends_though_its_disk_has_become_read_only() -> None:
    told = ended_lease(KERNEL, EXT4, fault_agent_with("fault-injection"))
    assert _transaction(told, "apply")["state"] == "applied"
    assert json.loads(told.text("early.json"))["transactions"] == []
    assert told.knobs("early") == told.knobs("applied") != KNOBS
    assert _transaction(told, "held")["state"] == "applied"
    assert told.knobs("over") == KNOBS
    over = _transaction(told, "over")
    assert (over["state"], "lease has ended" in over["unfinished"]) == ("unfinished", True)
    late = _transaction(told, "late")
    assert (late["state"], "`ktrial recover` once the disk is writable" in late["unfinished"]) == ("unfinished", True)
    assert told.text("late.status") == "1\n"
    assert _transaction(told, "recover")["state"] == _transaction(told, "end")["state"] == "reverted"
    assert told.tree("end") == told.tree("start") != told.tree("applied") == told.tree("over")
    assert told.knobs("end") == KNOBS


def _transaction(told: Told, name: str) -> dict[str, Any]:
    """The one transaction of a reply."""
    reply = json.loads(told.text(f"{name}.json"))
    (found,) = reply.get("transactions", [reply])
    return dict(found)
