# SPDX-License-Identifier: Apache-2.0
"""A thousand power cuts over apply, revert and recover, on Debian's kernels and two file systems: 0 wrong bytes."""

from __future__ import annotations

import sys

import pytest

from ktrial.agent.binary import find_agent
from tests.guests.system.kernels import KERNELS
from tests.guests.system.power import EXT4, EXT4_UNAIDED, XFS
from tests.support.fault_agent import fault_agent_with
from tests.support.power_cuts import record, recover

pytestmark = pytest.mark.timeout(3600)
_OLDER, _NEWER = KERNELS
CASES = ((_OLDER, EXT4, 200), (_NEWER, EXT4_UNAIDED, 500), (_NEWER, XFS, 300))


def test_no_byte_is_wrong_after_any_of_a_thousand() -> None:
    agent, made, wrong = fault_agent_with("fault-injection"), 0, []
    for kernel, system, count in CASES:
        where = f"{system.name} ({system.options}) with Linux {kernel.name}"
        judged = recover(kernel, system, find_agent(), record(kernel, system, agent, rounds=2), count)
        made += len(judged)
        wrong += [f"{where}: {fault}" for faults in judged for fault in faults]
        sys.stdout.write(f"{len(judged)} power cuts on {where}: {len(wrong)} faults\n")
    assert made == 1000
    assert wrong == []


@pytest.mark.parametrize("sabotage", ["late-fsync", "unsynced-rename"])
def test_what_comes_late_to_the_disk_is_noticed(sabotage: str) -> None:
    recording = record(_NEWER, EXT4_UNAIDED, fault_agent_with(f"sabotage-{sabotage}"), rounds=1)
    judged = recover(_NEWER, EXT4_UNAIDED, find_agent(), recording, count=60)
    wrong = [fault for faults in judged for fault in faults if fault.startswith("wrong bytes once recovered")]
    assert wrong != []
