# SPDX-License-Identifier: Apache-2.0
"""A real sched_ext scheduler as an arm, in a guest of a kernel that has sched_ext; the kernel throws it out once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guests.system.kernels import FORKY
from tests.guests.system.machine import KTRIAL, GuestMachine, ktrial
from tests.guests.system.places import CHECKOUT

pytestmark = [pytest.mark.timeout(1800)]
SCHEDULER = CHECKOUT / "tests" / "support" / "fifo_scheduler.py"
PROTOCOL = """
name = "schedulers"
suite = "agent-memcpy"
parameters = { duration_s = 4.0, bytes = 1048576 }
design = { cap = 7, settle = "0s", seed = 3, anyway = true }

[arms.control]

[arms.fifo]
sched_ext = { run = ["/bin/sh", "/run/scheduler"], ops = "ktrial_fifo" }
"""
#: The third time that it is in force, the kernel itself takes it out of force (SysRq S); its program lives on.
SCRIPT = f"""
set -- $({KTRIAL[0]} -I -S {SCHEDULER} find)
echo "exec {KTRIAL[0]} -I -S {SCHEDULER} run ktrial_fifo $*" > /run/scheduler
echo before $(cat /sys/kernel/sched_ext/state)
(
    while [ "$(cat /sys/kernel/sched_ext/enable_seq)" -lt 3 ]; do sleep 0.1; done
    sleep 1
    echo during $(cat /sys/kernel/sched_ext/root/ops)
    echo S > /proc/sysrq-trigger
) &
{ktrial("trial", "run", "/run/job/trial.toml", "--no-profile")} > /tmp/told 2>&1
cat /tmp/told
echo after $(cat /sys/kernel/sched_ext/state)
{ktrial("trial", "recheck")}
"""


def test_a_scheduler_is_seen_in_every_run_and_its_ejection_is_a_failed_run(tmp_path: Path) -> None:
    machine = GuestMachine(tmp_path)
    said = machine.boot(FORKY, SCRIPT, {"trial.toml": PROTOCOL}, limit_s=1500)
    told = " ".join(" ".join(said).split())
    assert "before disabled" in told
    assert "during ktrial_fifo" in told, told
    assert told.count("run discarded: the arm was lost") == 1, told
    assert "sched_ext shows disabled instead of ktrial_fifo" in told
    assert "after disabled" in told
    assert [line for line in said if line.startswith("status ")] == ["status 0", "status 0"], told
