# SPDX-License-Identifier: Apache-2.0
"""What is known of the scheduler is found in exact guests, and a placebo is nothing; each trial boots some sixteen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guests.system.kernels import KERNELS, fetch, release
from tests.support.guest_trials import arm_like, contrast, ktrial, trial

pytestmark = [pytest.mark.timeout(3600), pytest.mark.xdist_group("guest-trials")]
OLD, NEW = KERNELS
PROTOCOL = """
name = "placebo"
suite = "wakeups-busy"
parameters = {{ duration_s = 1.0 }}
primary = "lateness-p50"
design = {{ cap = 7, seed = 1 }}

[guest]
kernel = "{kernel}"
memory = "256MiB"
workloads = 2

[arms.control]
set = {{ "sched:base_slice_ns" = 2000000 }}

[arms.placebo]
placebo = true
"""
WAKEUPS = ("--suite", "wakeups-busy", "--primary", "lateness-p99", "--secondary", "lateness-p50")


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for kernel in KERNELS:
        fetch(kernel)


def test_a_sleeper_waits_longer_beside_busy_threads_since_eevdf() -> None:
    found = trial(str(OLD.tree), str(NEW.tree), *WAKEUPS, "--budget", "7", "--seed", "1")[-1]["comparison"]
    assert contrast(found, "lateness-p99", arm_like(found, "6.12"))["verdict"] == "worse"
    assert {one["known"]["kernel"].partition(", build ")[0] for one in found["arms"]} == {
        release(OLD.tree),
        release(NEW.tree),
    }


def test_longer_slices_delay_a_thread_that_works_and_a_placebo_does_not() -> None:
    words = ("--placebo", "--budget", "7", "--seed", "1", "--memory", "256MiB")
    suite = ("--suite", "wakeups-working", *WAKEUPS[2:], *words)
    found = trial(str(NEW.tree), "sched:base_slice_ns=500000,3000000", *suite)[-1]["comparison"]
    short, long = (arm_like(found, part) for part in ("ns-500000", "ns-3000000"))
    assert contrast(found, "lateness-p99", long)["verdict"] == "worse"
    assert contrast(found, "lateness-p99", "placebo")["verdict"] == "equivalent"
    assert contrast(found, "lateness-p99", short)["verdict"] != "worse"
    assert contrast(found, "lateness-p50", short)["verdict"] == "better"


def test_a_placebo_is_equivalent_across_exact_boots(tmp_path: Path) -> None:
    file = tmp_path / "trial.toml"
    file.write_text(PROTOCOL.format(kernel=NEW.tree))
    events = trial(str(file))
    found = events[-1]["comparison"]
    (outcome,) = [one for one in found["outcomes"] if one["role"] == "primary"]
    assert [one["verdict"] for one in outcome["contrasts"]] == ["equivalent"]
    records = [event["record"] for event in events if event["event"] == "visit"]
    assert len(records) == 7 * 2 * 2
    assert {one["parameters"]["seed"] for one in records} == {1, 2}
    assert len({one["trial"]["boot_id"] for one in records}) == 14
    assert (
        found["scope"]
        == "in exact guests, whose time counts instructions, across 14 boots that differ in a meaningless word"
    )
    assert any(one["kind"] == "guest-clock" for one in found["findings"])
    recheck = ktrial("trial", "recheck")
    assert recheck.returncode == 0, recheck.stderr


def test_algorithms_of_zram_are_compared_with_each_other() -> None:
    words = ("zram:comp_algorithm=lz4,zstd", "--suite", "pressure-small", "--budget", "7", "--seed", "1")
    events = trial(str(NEW.tree), *words, "--memory", "256MiB")
    found = events[-1]["comparison"]
    assert {one["arm"] for one in found["arms"]} == {"control", "comp_algorithm-zstd"}
    records = [event["record"] for event in events if event["event"] == "visit"]
    assert len(records) == 7 * 2
    assert all(record["failure"] is None for record in records)
