# SPDX-License-Identifier: Apache-2.0
"""Disks that fail or become read-only while an agent works: no byte is wrong, and what the agent says is so.

tests/full has many more of them, on more file systems.
"""

from __future__ import annotations

import pytest

from tests.guest.kernels import KERNELS
from tests.guest.power import EXT4
from tests.support.failing_disks import failed_disks
from tests.support.fault_agent import fault_agent_with

(KERNEL,) = (kernel for kernel in KERNELS if kernel.name == "6.12")


@pytest.mark.parametrize("read_only", [False, True], ids=["fails", "read-only"])
def test_what_the_agent_says_of_a_disk_is_so(read_only: bool) -> None:
    cases = failed_disks(KERNEL, EXT4, fault_agent_with("fault-injection"), 8, read_only=read_only)
    assert len(cases) == 24
    assert [fault for case in cases for fault in case.wrong] == []
    assert sum("could not be" in case.said for case in cases) > 4
