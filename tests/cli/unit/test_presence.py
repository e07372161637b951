# SPDX-License-Identifier: Apache-2.0
"""Every knob was seen on a running kernel or cites the source that proves it, and refers to knobs that exist."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.guests.system.places import is_instance, knobs, lists, places, recorded

PROOF = re.compile(r"^\S.*\S \([^()]+\): \S")
KNOBS = knobs()
IDS = {knob["id"] for knob in KNOBS}
SEEN = [recorded(name) for name in lists()]


def shows(knob: dict[str, Any], value: str) -> bool:
    """Whether the file's text shows the knob: a scheduler feature is a word of its file."""
    prefix, _, feature = knob["id"].partition(":")
    return prefix != "feature" or bool({feature, f"NO_{feature}"} & set(value.split()))


def was_seen(knob: dict[str, Any]) -> bool:
    return any(
        is_instance(path, place) and shows(knob, value)
        for found in SEEN
        for path, value in found.items()
        for place in places(knob)
    )


def test_every_knob_was_seen_or_is_proven() -> None:
    unseen = [knob["id"] for knob in KNOBS if "proof" not in knob and not was_seen(knob)]
    assert unseen == [], "in no list of tests/golden/presence; add `proof`"
    unread = [knob["id"] for knob in KNOBS if "proof" in knob and not PROOF.match(knob["proof"])]
    assert unread == [], "write proof as 'file (version): what'"


@pytest.mark.parametrize("key", ["interacts", "couples", "after", "successor"])
def test_references_exist(key: str) -> None:
    unknown = [(knob["id"], other) for knob in KNOBS for other in knob.get(key, []) if other not in IDS]
    assert unknown == []


def test_nothing_refers_to_itself() -> None:
    keys = ("interacts", "couples", "after", "successor")
    assert [knob["id"] for knob in KNOBS for key in keys if knob["id"] in knob.get(key, [])] == []


def test_counts() -> None:
    assert len(KNOBS) == len(IDS)
    assert len(IDS) >= 150
    assert sum(map(was_seen, KNOBS)) >= 200
    assert {name: len(recorded(name)) >= 150 for name in lists()} == {"6.1": True, "6.12": True, "6.18-host": True}


def test_every_recorded_path_belongs_to_a_place() -> None:
    every = [place for knob in KNOBS for place in places(knob)]
    strange = [path for found in SEEN for path in found if not any(is_instance(path, place) for place in every)]
    assert strange == []


def test_the_mutually_clearing_pairs_are_coupled() -> None:
    couples = {knob["id"]: knob.get("couples", []) for knob in KNOBS}
    for one, other in (
        ("vm.dirty_ratio", "vm.dirty_bytes"),
        ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
        ("vm.overcommit_ratio", "vm.overcommit_kbytes"),
    ):
        assert other in couples[one]
        assert one in couples[other]
    assert {"queue:nr_requests", "queue:wbt_lat_usec"} <= set(couples["queue:scheduler"])
    assert "vm.min_free_kbytes" in couples["thp:enabled"]


def test_the_reserve_is_written_after_the_switch_that_raises_it() -> None:
    after = {knob["id"]: knob.get("after", []) for knob in KNOBS}
    assert after["vm.min_free_kbytes"] == ["thp:enabled"]


# What the sources name, in the words of the sources' documents.
KTWEAK = """
kernel.perf_cpu_time_max_percent kernel.sched_autogroup_enabled kernel.sched_enable_thread_grouping
kernel.sched_child_runs_first kernel.sched_downmigrate kernel.sched_upmigrate kernel.sched_group_downmigrate
kernel.sched_group_upmigrate sched:tunable_scaling sched:latency_ns sched:min_granularity_ns
sched:wakeup_granularity_ns sched:migration_cost_ns kernel.sched_min_task_util_for_boost
kernel.sched_min_task_util_for_colocation kernel.sched_min_task_util_for_boost_colocation sched:nr_migrate
kernel.sched_schedstats kernel.printk_devkmsg vm.dirty_background_ratio vm.dirty_ratio vm.dirty_expire_centisecs
vm.dirty_writeback_centisecs vm.extfrag_threshold vm.oom_dump_tasks vm.page-cluster vm.reap_mem_on_sigkill
vm.stat_interval vm.swappiness vm.vfs_cache_pressure net.ipv4.tcp_ecn net.ipv4.tcp_fastopen net.ipv4.tcp_syncookies
feature:NEXT_BUDDY feature:STRICT_SKIP_BUDDY feature:NONTASK_CAPACITY feature:TTWU_QUEUE stune:prefer_idle stune:boost
cpufreq:scaling_governor cpufreq:up_rate_limit_us cpufreq:down_rate_limit_us cpufreq:rate_limit_us
cpufreq:hispeed_load cpufreq:hispeed_freq cpufreq:interactive_timer_rate cpufreq:interactive_min_sample_time
module:cpu_boost.input_boost_freq module:cpu_boost.input_boost_ms queue:scheduler queue:add_random queue:iostats
queue:read_ahead_kb queue:nr_requests
"""
OTHERS = """
vm.min_free_kbytes vm.watermark_scale_factor zram:disksize zram:comp_algorithm mglru:enabled kconfig:LRU_GEN
damon:reclaim_enabled kconfig:DAMON thp:enabled kernel.sched_bore kconfig:SCHED_BORE kconfig:SCHED_CLASS_EXT
kconfig:CACHY boot:nohz_full kconfig:RCU_LAZY boot:rcutree.enable_rcu_lazy irq:smp_affinity queue:wbt_lat_usec
module:nvme_core.default_ps_max_latency_us nvme:pm_qos_latency_tolerance_us net.ipv4.tcp_congestion_control patch:bbr3
kconfig:X86_64_VERSION kconfig:processor-family kconfig:X86_NATIVE_CPU build:KCFLAGS build:KCPPFLAGS build:LLVM
build:mcpu kconfig:LTO_CLANG_THIN kconfig:RUST kconfig:DRM_ASAHI kconfig:DEBUG_INFO_BTF
"""


@pytest.mark.parametrize("name", (KTWEAK + OTHERS).split())
def test_what_the_sources_name_has_evidence(name: str) -> None:
    (knob,) = [knob for knob in KNOBS if knob["id"] == name]
    assert knob.get("evidence")
