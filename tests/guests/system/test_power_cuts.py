# SPDX-License-Identifier: Apache-2.0
"""Power cuts on a real file system: what an apply, a revert or a recovery leaves is put back to the byte.

tests/full has a thousand of them, on more file systems, and shows that what comes late to the disk is noticed.
"""

from __future__ import annotations

import pytest

from ktrial.agent.binary import find_agent
from tests.guests.system.kernels import KERNELS
from tests.guests.system.power import EXT4_UNAIDED
from tests.support.fault_agent import fault_agent_with
from tests.support.power_cuts import record, recover

pytestmark = pytest.mark.timeout(600)
(KERNEL,) = (kernel for kernel in KERNELS if kernel.name == "6.12")


def test_no_byte_is_wrong_after_a_power_cut() -> None:
    recording = record(KERNEL, EXT4_UNAIDED, fault_agent_with("fault-injection"), rounds=1)
    judged = recover(KERNEL, EXT4_UNAIDED, find_agent(), recording, count=40)
    assert len(judged) == 40
    assert [fault for faults in judged for fault in faults] == []
