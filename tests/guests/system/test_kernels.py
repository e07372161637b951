# SPDX-License-Identifier: Apache-2.0
"""The recorded places are still there on the real kernels."""

from __future__ import annotations

import pytest

from tests.guests.system.kernels import KERNELS, Kernel, KernelError, boot, present
from tests.guests.system.places import recorded


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_recorded_places_exist(kernel: Kernel) -> None:
    found = present(boot(kernel))
    assert sorted(set(recorded(kernel.name)) - set(found)) == []


def test_an_unfinished_console_is_an_error() -> None:
    with pytest.raises(KernelError, match="did not finish"):
        present("KTRIAL-BEGIN 6.1\n/proc/sys/vm/swappiness = 60\n")
