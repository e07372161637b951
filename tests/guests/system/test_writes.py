# SPDX-License-Identifier: Apache-2.0
"""What the catalog says about a knob's values holds on a real kernel: another value is taken and reads back as such."""

from __future__ import annotations

from tests.guests.system.kernels import KERNELS
from tests.guests.system.writes import carry_out, writes

# Knobs that this guest's devices or rules of the kernel keep from being written, and why.
REFUSED = {
    "irq:smp_affinity": "the timer's interrupt cannot be moved",
    "kernel.nmi_watchdog": "no performance counters",
    "net.core.netdev_budget_usecs": "less than two ticks is refused",
    "net:xps_cpus": "the network card has one queue",
    "queue:io_poll": "no poll queues",
}


def test_other_values_are_taken_and_read_back() -> None:
    (kernel,) = [kernel for kernel in KERNELS if kernel.name == "6.12"]
    tried = writes(kernel.name)
    assert len(tried) >= 150
    results = carry_out(kernel, tried)
    assert [result.write for result in results] == tried
    refused = {result.write.knob.id: result for result in results if not result.in_force}
    assert sorted(refused) == sorted(REFUSED), refused
