# SPDX-License-Identifier: Apache-2.0
"""Which arms a demo has, on machines made of a dictionary."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.bench.adapters import all_benchmarks
from ktrial.bench.suite import Suite, SuiteEntry
from ktrial.bench.suites import tasks_of
from ktrial.judge.primary_verdict import table_row
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.reading import Reading
from ktrial.studies.demo.demo import choose_demo
from ktrial.studies.demo.model import COPIUM, HELP, HURT, PLACEBO, Demo
from ktrial.trial.protocol.file import CONTROL, trial_text
from ktrial.trial.protocol.protocol import protocol_of
from ktrial.trial.protocol.read import check_trial_file, parse_trial_file
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.catalog.model import Catalog
from tests.support.machine import FakeMachine

HUGE = "/sys/kernel/mm/transparent_hugepage/enabled"
AHEAD = "/sys/block/{}/queue/read_ahead_kb"
FILES = {
    HUGE: "always [madvise] never\n",
    "/proc/sys/vm/swappiness": "60\n",
    "/proc/sys/vm/min_free_kbytes": "67584\n",
    "/proc/sys/kernel/sched_rr_timeslice_ms": "100\n",
    AHEAD.format("vda"): "128\n",
    "/proc/self/mounts": "/dev/vda1 / ext4 rw,relatime 0 0\nsysfs /sys sysfs rw 0 0\nproc /proc proc rw 0 0\n",
}
NO_SWAP = {"swap.total": 0}
READ_ONLY = FILES["/proc/self/mounts"].replace("sysfs rw", "sysfs ro") + "proc /proc/sys proc ro 0 0\n"


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def chosen(
    catalog: Catalog, *, facts: dict[str, Any] | None = None, is_root: bool = True, **files: str | Reading | None
) -> Demo:
    """`files` by their last word: huge, mounts; None takes one away."""
    paths = {"huge": HUGE, "mounts": "/proc/self/mounts", "swappiness": "/proc/sys/vm/swappiness"}
    there = {**FILES, **{paths[name]: text for name, text in files.items()}}
    kept = {path: text for path, text in there.items() if text is not None}
    machine = FakeMachine(kept, NO_SWAP if facts is None else facts, is_root=is_root)
    demo = choose_demo(machine, catalog, 0.4, seed=3)
    check_trial_file(demo.file)
    assert parse_trial_file(trial_text(demo.file).encode(), "demo.toml") == demo.file
    assert machine.requests == [], "choosing changes nothing"
    return demo


def test_huge_pages_where_root_may_set_them(catalog: Catalog) -> None:
    demo = chosen(catalog)
    arms = demo.file.arms
    assert list(arms) == [CONTROL, PLACEBO, COPIUM, HELP, HURT]
    assert arms[CONTROL].set == {"thp:enabled": "madvise"}
    assert arms[COPIUM].set == {"thp:enabled": "madvise", "vm.swappiness": "10"}
    assert (arms[HELP].set, arms[HURT].set) == ({"thp:enabled": "always"}, {"thp:enabled": "never"})
    assert arms[PLACEBO].placebo
    assert "no swap" in demo.why[COPIUM]
    assert demo.paths == ("/proc/sys/vm/min_free_kbytes", "/proc/sys/vm/swappiness", HUGE)
    assert (demo.found, demo.passed) == ({}, ())


def test_one_outcome_and_one_percent_for_all_arms(catalog: Catalog) -> None:
    demo = chosen(catalog)
    benchmarks = all_benchmarks()
    suite = Suite(name="own", summary="", benchmark=(SuiteEntry(use=demo.file.suite or ""),))
    facts = FactBook({"cpu.online": Fact(value=(0, 1))})
    protocol = protocol_of(demo.file, tasks_of(suite, benchmarks, facts, None), {}, 3, None, 1)
    assert (protocol.alpha, protocol.comparisons, table_row(protocol)) == (0.01, 3, 15)
    assert protocol.of_role("secondary") == protocol.of_role("guard") == ()
    assert [arm.name for arm in protocol.arms if arm.placebo] == [PLACEBO]


@pytest.mark.parametrize("found", ["[always] madvise never", "always madvise [never]"])
def test_what_is_found_otherwise_is_said_and_set_in_every_arm(catalog: Catalog, found: str) -> None:
    demo = chosen(catalog, huge=f"{found}\n")
    assert demo.found == {"thp:enabled": found.partition("[")[2].partition("]")[0]}
    assert all("thp:enabled" in demo.file.full_arms[arm].set for arm in demo.file.arms)


def test_swappiness_is_no_copium_where_there_is_swap(catalog: Catalog) -> None:
    demo = chosen(catalog, facts={"swap.total": 1 << 30})
    assert demo.file.arms[COPIUM].set == {"thp:enabled": "madvise", "kernel.sched_rr_timeslice_ms": "10"}
    assert "SCHED_RR" in demo.why[COPIUM]


def test_a_copium_that_is_in_force_already_takes_another_value(catalog: Catalog) -> None:
    assert chosen(catalog, swappiness="10\n").file.arms[COPIUM].set["vm.swappiness"] == "1"


@pytest.mark.parametrize("disk,device", [("vda", "/dev/vda1"), ("nvme0n1", "/dev/nvme0n1p2"), ("sda", "/dev/sda")])
def test_without_huge_pages_it_reads_ahead_on_the_disk_of_the_file(catalog: Catalog, disk: str, device: str) -> None:
    files = {path: text for path, text in FILES.items() if path not in {HUGE, AHEAD.format("vda")}}
    files |= {AHEAD.format(disk): "128\n", AHEAD.format("sdb"): "128\n"}
    files["/proc/self/mounts"] = f"/dev/sdb1 / ext4 rw 0 0\n{device} /var/tmp ext4 rw 0 0\n"
    demo = choose_demo(FakeMachine(files, NO_SWAP), catalog, 0.4)
    knob = f"queue:read_ahead_kb@{disk}"
    assert [demo.file.arms[arm].set[knob] for arm in (CONTROL, COPIUM, HELP, HURT)] == ["16", "16", "512", "0"]
    assert demo.found == {knob: "128"}
    assert demo.passed[0].startswith("thp:enabled: ")


@pytest.mark.parametrize("facts,mounts,is_root", [(None, READ_ONLY, True), (None, None, False)])
def test_where_no_setting_can_be_made_the_load_asks_for_it(
    catalog: Catalog, facts: dict[str, Any] | None, mounts: str | None, is_root: bool
) -> None:
    demo = chosen(catalog, facts=facts, is_root=is_root, mounts=mounts or FILES["/proc/self/mounts"])
    arms = demo.file.arms
    assert demo.paths == ()
    assert not any(arm.set for arm in arms.values())
    assert [arms[name].parameters for name in (CONTROL, PLACEBO, COPIUM, HELP, HURT)] == [
        {},
        {},
        {"io_priority": 0},
        {"huge_pages": "always"},
        {"huge_pages": "never"},
    ]
    why = "read-only" if is_root else "needs root"
    assert len(demo.passed) == 2
    assert all(why in one for one in demo.passed)


def test_the_last_resort_needs_nothing(catalog: Catalog) -> None:
    demo = chosen(catalog, is_root=False, huge="always madvise [never]\n")
    assert demo.file.suite == "agent-fileio-read-sequential-warm"
    assert demo.file.arms[HELP].parameters == {"block_bytes": 65536}
    assert chosen(catalog, is_root=False, huge=None).file.suite == demo.file.suite
