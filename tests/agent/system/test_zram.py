# SPDX-License-Identifier: Apache-2.0
"""Swap on zram on the running kernel: comes, goes, and goes too when the agent is killed at any step of it."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CONTROL = Path("/sys/class/zram-control")


def devices() -> dict[str, str]:
    """Every zram device with its size."""
    return {path.name: (path / "disksize").read_text() for path in Path("/sys/block").glob("zram*")}


def swaps() -> list[str]:
    """Swap areas with their priority."""
    fields = [line.split() for line in Path("/proc/swaps").read_text().splitlines()[1:]]
    return [f"{field[0]} {field[4]}" for field in fields]


@pytest.fixture
def before(machine_alone: None) -> Iterator[tuple[dict[str, str], list[str]]]:
    """What there is; devices that were not there are taken away afterwards, whatever happens."""
    found = devices()
    yield found, swaps()
    for name in devices().keys() - found.keys():
        subprocess.run(["swapoff", f"/dev/{name}"], capture_output=True, check=False)
        (Path("/sys/block") / name / "reset").write_text("1")
        (CONTROL / "hot_remove").write_text(name.removeprefix("zram"))


def run(agent: Path, state: Path, *argv: str, **faults: str) -> subprocess.CompletedProcess[str]:
    """Run the agent on this machine with its journals in `state`."""
    environment = {f"KTRIAL_FAULT_{name}": value for name, value in faults.items()}
    command = [str(agent), *argv, "--state", str(state), "--json"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def outcomes(done: subprocess.CompletedProcess[str]) -> list[Any]:
    """Outcomes of the steps of an apply."""
    return [step["outcome"] for step in json.loads(done.stdout)["steps"]]


def test_swap_on_a_new_device_comes_and_goes(
    fault_agent: Path, memory_path: Path, before: tuple[dict[str, str], list[str]]
) -> None:
    """Applied and reverted, then killed at every step and recovered. Without zram the step is `absent`."""
    assert os.geteuid() == 0, "this test sets up swap: run it as root"
    step = {"kind": "zram", "device": None, "size_bytes": 1 << 24, "algorithm": None, "priority": 7}
    plan, state, count = memory_path / "plan.json", memory_path / "state", memory_path / "count"
    plan.write_text(json.dumps({"schema": "ktrial.plan/2", "steps": [step]}))
    if not CONTROL.exists():
        assert outcomes(run(fault_agent, state, "apply", str(plan))) == ["absent"]
        return
    done = run(fault_agent, state, "apply", str(plan), COUNT=str(count))
    assert (done.returncode, outcomes(done)) == (0, ["accepted"]), done.stdout
    (new,) = devices().keys() - before[0].keys()
    assert f"/dev/{new} 7" in swaps()
    assert run(fault_agent, state, "revert").returncode == 0
    assert (devices(), swaps()) == before
    points = int(count.read_text())
    assert points > 15
    for at in range(1, points + 1):
        shutil.rmtree(state)
        died = run(fault_agent, state, "apply", str(plan), AT=str(at), KIND="kill")
        assert died.returncode == -signal.SIGKILL, at
        recovered = run(fault_agent, state, "recover")
        assert recovered.returncode == 0, (at, recovered.stdout, recovered.stderr)
        assert run(fault_agent, state, "revert", "--all").returncode == 0
        assert (devices(), swaps()) == before, at
