# SPDX-License-Identifier: Apache-2.0
"""The state of a service as an arm, under a real systemd: it is process 1 of a guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guests.system.kernels import KERNELS
from tests.guests.system.machine import GuestMachine, ktrial

pytestmark = [pytest.mark.timeout(1800)]
PROTOCOL = """
name = "services"
command = ["/bin/sh", "/run/job/look"]
metrics = ["speed:higher=speed ([0-9]+)"]
primary = "speed"
design = { cap = 7, settle = "0s", seed = 3, anyway = true }

[arms.control]

[arms.stopped]
service = { name = "sleeper.service", state = "stopped" }
"""
#: What is measured is the service itself: with it all is twice as fast.
LOOK = "systemctl is-active --quiet sleeper.service && echo speed 2 || echo speed 1\n"
_SLEEPER = "ExecStart=/bin/sleep infinity\nStandardOutput=null\nStandardError=null\n"
UNITS = {"sleeper.service": f"[Unit]\nDefaultDependencies=no\n[Service]\n{_SLEEPER}"}
#: The head is killed in the arm, after a block; what is left of the trial is measured by the next one.
SCRIPT = f"""
state() {{ systemctl is-active sleeper.service; }}
echo init is $(cat /proc/1/comm)
systemctl start sleeper.service
{ktrial("trial", "run", "/run/job/trial.toml", "--no-profile")} > /tmp/killed 2>&1 &
until grep -q '^block' /tmp/killed && [ "$(state)" = inactive ]; do sleep 0.5; done
kill -9 $(pgrep -P $!)
echo killed
for second in $(seq 60); do [ "$(state)" = active ] && break; sleep 1; done
echo put back $(state)
{ktrial("trial", "resume")}
echo afterwards $(state)
{ktrial("trial", "recheck")}
{ktrial("status")}
"""


def test_a_service_is_stopped_for_its_arm_and_started_again_by_whoever_is_left(tmp_path: Path) -> None:
    machine = GuestMachine(tmp_path)
    said = machine.boot(KERNELS[0], SCRIPT, {"trial.toml": PROTOCOL, "look": LOOK}, units=UNITS, limit_s=1500)
    told = " ".join(" ".join(said).split())
    assert "init is systemd" in told
    assert "service sleeper.service = stopped" in told
    assert "stopped worse" in told
    assert "-50 %" in told
    assert "afterwards active" in told
    assert "killed put back active" in told
    assert [line for line in said if line.startswith("status ")] == ["status 0"] * 3, told
