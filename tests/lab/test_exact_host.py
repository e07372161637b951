# SPDX-License-Identifier: Apache-2.0
"""An exact guest as the host of a command: it answers the same each time, whatever is asked after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktrial.domain.guest import EXACT_CLOCK
from tests.guest.kernels import KERNELS, Kernel, fetch, release
from tests.support.guest_trials import ktrial

pytestmark = [pytest.mark.timeout(1800), pytest.mark.xdist_group("guest-trials")]


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(params=KERNELS, ids=lambda kernel: kernel.name)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    found: Kernel = request.param
    fetch(found)
    return found


def exact(kernel: Kernel, *words: str) -> tuple[str, str]:
    """What a command printed, and what it said; it ended well."""
    done = ktrial("--host", f"exact:{kernel.tree}", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_facts_are_the_same_in_every_command_and_of_this_kernel(kernel: Kernel) -> None:
    (first, said), (second, _) = (exact(kernel, "facts", "kernel.release", "boot", "--json") for _ in range(2))
    facts = json.loads(first)["facts"]
    assert facts["kernel.release"]["value"] == release(kernel.tree)
    assert facts["boot.id"]["value"]
    assert first == second
    assert "2 answers, each from two boots that were the same to the last byte" in said
    assert EXACT_CLOCK in said


def test_a_setting_is_applied_in_it_and_not_here(kernel: Kernel) -> None:
    told, said = exact(kernel, "apply", "vm.swappiness=17", "--yes")
    assert "1 setting is in force" in told
    assert "5 answers" in said
    # Other tests set this machine's own value meanwhile, none of them to this one.
    assert Path("/proc/sys/vm/swappiness").read_text(encoding="utf-8") != "17\n"


def test_a_program_is_measured_to_the_same_nanosecond_twice(kernel: Kernel) -> None:
    def measured() -> list[Any]:
        out, _ = exact(kernel, "bench", "hackbench-pipe-thread", "-n", "2", "-p", "loops=10", "--fresh", "--json")
        records = [one["record"] for one in map(json.loads, out.splitlines()) if one["event"] == "run"]
        return [(one["measurements"], one["resources"]) for one in records]

    first = measured()
    assert len(first) == 2
    assert first == measured()
