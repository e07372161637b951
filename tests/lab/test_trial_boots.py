# SPDX-License-Identifier: Apache-2.0
"""Two real kernels compared by real boots: recognised, refused where it is the wrong one, and carried to a verdict.

Some seventeen emulated boots: a quarter of an hour on a quiet machine, more than half an hour on a busy one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.guests.system.kernels import KERNELS
from tests.guests.system.machine import DISK, GuestMachine, ktrial

pytestmark = [pytest.mark.timeout(4500)]
ARMS = {"control": KERNELS[0], "new": KERNELS[1]}
#: One block may be void; each has two boots.
MOST_BOOTS = 24
#: Judged by the work, not by its time: that is the emulated one of a machine that may be busy.
LOAD = """case $(uname -r) in
6.12*) size=24000000 ;;
*) size=8000000 ;;
esac
head -c $size /dev/zero | md5sum
echo work $size
"""
PROTOCOL = f"""
name = "kernels"
command = ["/bin/sh", "{DISK}/load"]
metrics = ["work:lower=work ([0-9]+)"]
primary = "work"

[design]
seed = 7
cap = 7
replicate = "boot"
runs_per_visit = 1
settle = "0s"

[arms.control]

[arms.new]
manual = "boot 6.12"
expect = {{ "kernel.release" = "6.12*" }}
"""


def events(lines: list[str]) -> list[dict[str, Any]]:
    """What ktrial printed with --json."""
    return [json.loads(line) for line in lines if line.startswith("{")]


def statuses(lines: list[str]) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith("status ")]


def due_in(lines: list[str]) -> dict[str, Any] | None:
    """The visit that is due now; None where the trial is over."""
    told = events(lines)[-1]
    due: dict[str, Any] | None = told["due"] if told["event"] == "due" else None
    return due


def test_two_kernels_reach_a_verdict_over_real_boots(tmp_path: Path) -> None:
    machine = GuestMachine(tmp_path)
    begin = f"cp /run/job/load {DISK}/load\n" + ktrial("trial", "run", "/run/job/trial.toml", "--json")
    said = machine.boot(ARMS["control"], begin, {"load": LOAD, "trial.toml": PROTOCOL})
    assert statuses(said) == [0], said
    due = due_in(said)
    assert due is not None
    wrong = ARMS["control" if due["arm"] == "new" else "new"]
    said = machine.boot(wrong, ktrial("trial", "next"))
    assert statuses(said) == [4], said
    told = " ".join(said)
    assert f"{due['arm']} is due in block {due['block']}" in told
    boots = 0
    while due is not None:
        boots += 1
        assert boots < MOST_BOOTS, "it has no end"
        said = machine.boot(ARMS[due["arm"]], ktrial("trial", "next", "--json"))
        assert statuses(said) == [0], said
        due = due_in(said)
    assert boots >= 13
    said = machine.boot(ARMS["control"], "; ".join((ktrial("trial", "show"), ktrial("trial", "recheck"))))
    assert statuses(said) == [0, 0], said
    told = " ".join(" ".join(said).split())
    assert "new worse" in told
    assert f"on this machine, across {boots + 1} boots" in told
