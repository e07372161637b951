# SPDX-License-Identifier: Apache-2.0
"""Disks that fail, or become read-only, at some hundred moments of apply, revert and recover, on three file systems."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.guests.system.kernels import KERNELS
from tests.guests.system.power import EXT4, XFS, FileSystem
from tests.support.failing_disks import failed_disks
from tests.support.fault_agent import fault_agent_with

pytestmark = pytest.mark.timeout(3600)
_, KERNEL = KERNELS
GOES_ON = replace(EXT4, options="errors=continue")


@pytest.mark.parametrize("read_only", [False, True], ids=["fails", "read-only"])
@pytest.mark.parametrize("system", [EXT4, GOES_ON, XFS], ids=["remount-ro", "continue", "xfs"])
def test_what_the_agent_says_of_a_disk_is_so(system: FileSystem, read_only: bool) -> None:
    cases = failed_disks(KERNEL, system, fault_agent_with("fault-injection"), 40, read_only=read_only)
    assert len(cases) == 120
    assert [fault for case in cases for fault in case.wrong] == []
    said_to_stand = sum("as applied, run `ktrial revert" in case.said for case in cases)
    assert read_only or system is XFS or said_to_stand > 0
