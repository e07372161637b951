# SPDX-License-Identifier: Apache-2.0
"""The profiles that come with ktrial hold exactly what their sources document.

The tables below are transcribed from the sources, not from the profiles: a slip in either of the two is convicted.
"""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.knobs.profile import flatten

CATALOG = Path(__file__).parents[3] / "src" / "ktrial" / "catalog"
PROFILE_FILES = sorted((CATALOG / "profiles").glob("*.toml"))
TWENTY_ONE = ("balance", "latency", "throughput", "budget")

PROFILE_NAMES = {
    "arashi",
    "arashi-t1",
    "arashi-t3a",
    "distro",
    "ktweak",
    "ktweak-2021-balance",
    "ktweak-2021-budget",
    "ktweak-2021-latency",
    "ktweak-2021-throughput",
    "margine-bench",
    "micro-stutter",
    "micro-stutter-nvme-power",
    "micro-stutter-nvme-queue",
    "micro-stutter-watermarks",
    "power",
    "quiet",
    "stock",
}

GOVERNOR = {"compute": "first-offered", "of": ["schedutil", "interactive"]}
MILLISECOND_NS = 1_000_000

KTWEAK = {
    "kernel.perf_cpu_time_max_percent": 5,
    "kernel.sched_autogroup_enabled": 1,
    "kernel.sched_enable_thread_grouping": 1,
    "kernel.sched_child_runs_first": 1,
    "kernel.sched_downmigrate": "50 50",
    "kernel.sched_upmigrate": "80 80",
    "kernel.sched_group_downmigrate": 50,
    "kernel.sched_group_upmigrate": 80,
    "sched:tunable_scaling": 0,
    "sched:latency_ns": 10 * MILLISECOND_NS,
    "sched:min_granularity_ns": 5 * MILLISECOND_NS // 2,
    "sched:migration_cost_ns": 1 * MILLISECOND_NS,
    "kernel.sched_min_task_util_for_boost": 35,
    "kernel.sched_min_task_util_for_colocation": 25,
    "kernel.sched_min_task_util_for_boost_colocation": 35,
    "sched:nr_migrate": 128,
    "kernel.sched_schedstats": 0,
    "sched:wakeup_granularity_ns": 10 * MILLISECOND_NS,
    "vm.dirty_background_ratio": 10,
    "vm.dirty_ratio": 30,
    "vm.dirty_expire_centisecs": 1000,
    "vm.dirty_writeback_centisecs": 0,
    "vm.extfrag_threshold": 750,
    "vm.oom_dump_tasks": 0,
    "vm.page-cluster": 0,
    "vm.reap_mem_on_sigkill": 1,
    "vm.stat_interval": 10,
    "vm.swappiness": 100,
    "vm.vfs_cache_pressure": 200,
    "feature:NEXT_BUDDY": True,
    "feature:STRICT_SKIP_BUDDY": False,
    "feature:NONTASK_CAPACITY": False,
    "feature:TTWU_QUEUE": True,
    "cpufreq:scaling_governor@*": GOVERNOR,
    "cpufreq:hispeed_load@*": 80,
    "cpufreq:hispeed_freq@*": {"compute": "max"},
    "module:cpu_boost.input_boost_freq": "0:1400000",
    "module:cpu_boost.input_boost_ms": 250,
    "queue:scheduler@*": {"compute": "first-offered", "of": ["cfq", "kyber"]},
    "queue:iostats@*": 0,
    "queue:read_ahead_kb@*": 64,
    "queue:nr_requests@*": 64,
}

# One value: the same in all four branches; four: balance, latency, throughput, budget.
KTWEAK_2021: dict[str, tuple[Any, ...]] = {
    "kernel.perf_cpu_time_max_percent": (5, 3, 20, 2),
    "kernel.sched_autogroup_enabled": (1, 1, 0, 1),
    "kernel.sched_child_runs_first": (1, 1, 0, 0),
    "sched:tunable_scaling": (0,),
    "sched:latency_ns": tuple(n * MILLISECOND_NS for n in (4, 1, 10, 5)),
    "sched:min_granularity_ns": (500_000, 100_000, 10 * MILLISECOND_NS // 6, 1_000_000),
    "sched:wakeup_granularity_ns": (2_000_000, 500_000, 5_000_000, 2_500_000),
    "sched:migration_cost_ns": (5 * MILLISECOND_NS,),
    "kernel.sched_min_task_util_for_colocation": (0,),
    "sched:nr_migrate": (32, 4, 128, 256),
    "kernel.sched_schedstats": (0,),
    "kernel.printk_devkmsg": ("off",),
    "vm.dirty_background_ratio": (10, 3, 15, 2),
    "vm.dirty_ratio": (30, 30, 30, 5),
    "vm.dirty_expire_centisecs": (3000, 3000, 3000, 500),
    "vm.dirty_writeback_centisecs": (3000, 3000, 3000, 500),
    "vm.page-cluster": (0,),
    "vm.stat_interval": (10,),
    "vm.swappiness": (100,),
    "vm.vfs_cache_pressure": (100, 200, 80, 100),
    "net.ipv4.tcp_ecn": (1,),
    "net.ipv4.tcp_fastopen": (3,),
    "net.ipv4.tcp_syncookies": (0,),
    "feature:NEXT_BUDDY": (True,),
    "feature:TTWU_QUEUE": (True, False, True, False),
    "stune:prefer_idle": (0, 1, 0, 0),
    "stune:boost": (1, 1, 1, 0),
    "cpufreq:scaling_governor@*": (GOVERNOR,),
    "cpufreq:rate_limit_us@*": (4000, 0, 10000, 5000),
    "cpufreq:up_rate_limit_us@*": (4000, 0, 10000, 5000),
    "cpufreq:down_rate_limit_us@*": (16000, 0, 40000, 5000),
    "cpufreq:hispeed_load@*": (90, 85, 85, 99),
    "cpufreq:hispeed_freq@*": (2**32 - 1,),
    "cpufreq:interactive_timer_rate@*": (4000, 0, 10000, 5000),
    "cpufreq:interactive_min_sample_time@*": (4000, 0, 10000, 5000),
    "queue:scheduler@*": ({"compute": "first-offered", "of": ["cfq", "noop", "kyber", "bfq", "mq-deadline", "none"]},),
    "queue:add_random@*": (0,),
    "queue:iostats@*": (0,),
    "queue:read_ahead_kb@*": (128, 32, 256, 64),
    "queue:nr_requests@*": (64, 32, 512, 512),
}

WATERMARKS = {
    "vm.min_free_kbytes": 1024 * 1024,
    "vm.watermark_scale_factor": 500,
    "vm.swappiness": 8,
    "vm.page-cluster": 0,
    "vm.vfs_cache_pressure": 100,
    "vm.dirty_background_ratio": 3,
    "vm.dirty_ratio": 10,
}
NVME_QUEUE = {
    "queue:scheduler@[transport=nvme]": "none",
    "queue:wbt_lat_usec@[transport=nvme]": 0,
    "queue:read_ahead_kb@[transport=nvme]": 256,
}
NVME_POWER = {
    "nvme:pm_qos_latency_tolerance_us@*": 0,
    "module:nvme_core.default_ps_max_latency_us": 0,
}
MICRO_STUTTER: dict[str, Any] = {**WATERMARKS, **NVME_QUEUE, **NVME_POWER}

DOCUMENTED: dict[str, dict[str, Any]] = {
    "ktweak": KTWEAK,
    **{
        f"ktweak-2021-{branch}": {knob: values[index % len(values)] for knob, values in KTWEAK_2021.items()}
        for index, branch in enumerate(TWENTY_ONE)
    },
    "micro-stutter-watermarks": WATERMARKS,
    "micro-stutter-nvme-queue": NVME_QUEUE,
    "micro-stutter-nvme-power": NVME_POWER,
    "micro-stutter": {},
    "arashi-t1": {
        "mglru:enabled": 7,
        "kconfig:LRU_GEN": "y",
        "kconfig:LRU_GEN_ENABLED": "y",
        "kconfig:DAMON": "y",
        "kconfig:RCU_LAZY": "y",
        "kconfig:SCHED_CLASS_EXT": "y",
    },
    "arashi-t3a": {
        "zram:comp_algorithm": "lz4",
        "zram:disksize": {"compute": "share", "of": "memory.total", "percent": 50},
        "vm.swappiness": 180,
        "vm.page-cluster": 0,
        "vm.dirty_writeback_centisecs": 600,
    },
    "arashi": {},
    "margine-bench": {"cpufreq:scaling_governor@*": "performance"},
    "stock": {},
    "distro": {},
    "power": {
        "cpufreq:energy_performance_preference@*": "balance_power",
        "power:pcie_aspm_policy": "powersave",
        "power:runtime_pm@*": "auto",
        "power:usb_control@*": "auto",
        "power:usb_autosuspend": 2,
        "power:sata_link_power@*": "med_power_with_dipm",
        "power:hda_power_save": 1,
        "power:hda_power_save_controller": True,
        "power:iwlwifi_power_save": True,
        "power:iwlmvm_power_scheme": 3,
        "kernel.nmi_watchdog": 0,
        "vm.dirty_writeback_centisecs": 1500,
        "kernel.timer_migration": 1,
        "kconfig:CFG80211_DEFAULT_PS": True,
    },
    "quiet": {
        "cpufreq:scaling_governor@*": "performance",
        "cpufreq:boost": 0,
        "cpufreq:no_turbo": 1,
        "kernel.randomize_va_space": 2,
        "kernel.nmi_watchdog": 0,
        "kernel.perf_event_max_sample_rate": 1,
        "kernel.numa_balancing": 0,
        "ksm:run": 0,
        "vm.compaction_proactiveness": 0,
        "queue:iostats@*": 1,
    },
}

# Knobs that only Android's or Qualcomm's kernels have: a profile asks for them there only.
ANDROID_ONLY = [
    "kernel.sched_enable_thread_grouping",
    "kernel.sched_*migrate",
    "kernel.sched_min_task_util_for_*",
    "vm.reap_mem_on_sigkill",
    "feature:STRICT_SKIP_BUDDY",
    "stune:*",
    "module:cpu_boost.*",
    "cpufreq:interactive_*",
    "cpufreq:hispeed_*",
    "cpufreq:up_rate_limit_us*",
    "cpufreq:down_rate_limit_us*",
]

PROFILE_KEYS = {"name", "summary", "source", "extends", "notes", "generated", "setting", "tier", "require"}
SETTING_KEYS = {"knob", "value", "why", "when", "controlled"}
TIER_KEYS = {"name", "profile", "build", "fragments", "why"}
COMPARISON = re.compile(r'([a-z_.]+) (==|!=|<=|>=|<|>|in) (true|false|-?\d+|"[^"]*"|\["[^"]*"(?:, "[^"]*")*\])')
OPERATORS_BY_TYPE = {
    "bool": {"==", "!="},
    "text": {"==", "!=", "in"},
    "bytes": {"==", "!=", "<", "<=", ">", ">="},
    "int": {"==", "!=", "<", "<=", ">", ">=", "in"},
}


def load(path: Path) -> dict[str, Any]:
    """Read a TOML file of the catalog."""
    with path.open("rb") as file:
        return tomllib.load(file)


PROFILES = {path.stem: load(path) for path in PROFILE_FILES}
every_profile = pytest.mark.parametrize("name", sorted(PROFILES))


def settings_of(name: str) -> list[dict[str, Any]]:
    """A profile's own settings in their order."""
    settings: list[dict[str, Any]] = PROFILES[name].get("setting", [])
    return settings


def conditions(when: str | dict[str, list[Any]]) -> list[str]:
    """The comparisons of a `when`, however deep they are nested."""
    if isinstance(when, str):
        return [when]
    ((word, parts),) = when.items()
    assert word in {"all", "any"}
    return [text for part in parts for text in conditions(part)]


def test_the_profiles_are_those_that_are_promised() -> None:
    assert set(PROFILES) == PROFILE_NAMES == set(DOCUMENTED)


@every_profile
def test_settings_are_the_documented_ones(name: str) -> None:
    settings = settings_of(name)
    found = {setting["knob"]: setting["value"] for setting in settings}
    assert len(found) == len(settings), "a knob is set twice"
    assert found == DOCUMENTED[name]


def test_numbers_of_settings() -> None:
    assert len(settings_of("ktweak")) == 42
    assert [len(settings_of(f"ktweak-2021-{branch}")) for branch in TWENTY_ONE] == [40] * 4


@every_profile
def test_keys_are_those_of_the_schema(name: str) -> None:
    profile = PROFILES[name]
    assert set(profile) <= PROFILE_KEYS
    assert profile["name"] == name
    for key in ("summary", "source"):
        assert isinstance(profile[key], str)
        assert profile[key]
    assert profile["notes"]
    assert all(isinstance(note, str) and note for note in profile["notes"])
    for table, keys, must in (
        ("setting", SETTING_KEYS, {"knob", "value", "why"}),
        ("tier", TIER_KEYS, {"name", "why"}),
    ):
        for entry in profile.get(table, []):
            assert must <= set(entry) <= keys, entry
            assert entry["why"].strip().endswith("."), entry


@every_profile
def test_sources_are_known(name: str) -> None:
    known = {source["key"] for source in load(CATALOG / "sources.toml")["source"]}
    own = name in {"stock", "distro", "quiet", "power"}
    assert PROFILES[name]["source"] in ({"own"} if own else known)


@every_profile
def test_knobs_exist(name: str) -> None:
    known = {knob["id"] for path in (CATALOG / "knobs").glob("*.toml") for knob in load(path)["knob"]}
    assert sorted({setting["knob"].partition("@")[0] for setting in settings_of(name)} - known) == []


def test_the_loader_takes_all_profiles() -> None:
    profiles = load_catalog().profiles
    assert set(profiles) == PROFILE_NAMES
    found = flatten("micro-stutter", profiles)
    assert {setting.knob: setting.value for setting in found} == MICRO_STUTTER
    assert len(found) == len(MICRO_STUTTER) == 12


@every_profile
def test_conditions_name_facts_of_the_right_type(name: str) -> None:
    types = {fact["name"]: fact["type"] for fact in load(CATALOG / "facts.toml")["fact"]}
    texts = [text for setting in settings_of(name) if "when" in setting for text in conditions(setting["when"])]
    for text in texts:
        match = COMPARISON.fullmatch(text)
        assert match, text
        fact, operation, wanted = match.groups()
        assert operation in OPERATORS_BY_TYPE[types[fact]], text
        assert (wanted in ("true", "false")) == (types[fact] == "bool"), text


@every_profile
def test_android_only_knobs_are_asked_for_on_android_only(name: str) -> None:
    for setting in settings_of(name):
        android = any(fnmatchcase(setting["knob"], pattern) for pattern in ANDROID_ONLY)
        assert (setting.get("when") == "os.android == true") == android, setting["knob"]


@every_profile
def test_a_knob_comes_after_the_one_that_resets_it(name: str) -> None:
    order = [setting["knob"].partition("@")[0] for setting in settings_of(name)]
    for first, later in (
        ("queue:scheduler", "queue:nr_requests"),
        ("queue:scheduler", "queue:wbt_lat_usec"),
        ("cpufreq:scaling_governor", "cpufreq:rate_limit_us"),
        ("cpufreq:scaling_governor", "cpufreq:*_rate_limit_us"),
        ("cpufreq:scaling_governor", "cpufreq:hispeed_*"),
        ("cpufreq:scaling_governor", "cpufreq:interactive_*"),
        ("sched:tunable_scaling", "sched:*_ns"),
        ("zram:comp_algorithm", "zram:disksize"),
    ):
        behind = [index for index, knob in enumerate(order) if fnmatchcase(knob, later)]
        assert first not in order or all(order.index(first) < index for index in behind), (first, later)


def test_conditions_on_memory() -> None:
    when = {setting["knob"]: setting.get("when") for setting in settings_of("micro-stutter-watermarks")}
    assert when.pop("vm.min_free_kbytes") == 'memory.total >= "16GiB"'
    assert when.pop("vm.watermark_scale_factor") == 'memory.total >= "8GiB"'
    assert set(when.values()) == {None}


def test_micro_stutter_is_its_three_steps() -> None:
    steps = ["micro-stutter-watermarks", "micro-stutter-nvme-queue", "micro-stutter-nvme-power"]
    assert PROFILES["micro-stutter"]["extends"] == steps
    assert {name for name, profile in PROFILES.items() if profile.get("extends")} == {"micro-stutter"}


def test_arashi_ladder() -> None:
    tiers = PROFILES["arashi"]["tier"]
    assert [tier["name"] for tier in tiers] == ["T0", "T1", "T2a", "T3a", "T3b"]
    assert [tier.get("profile") for tier in tiers] == ["distro", "arashi-t1", None, "arashi-t3a", None]
    assert all(("profile" in tier) != ("build" in tier) for tier in tiers)
    builds = {tier["name"]: tier["build"] for tier in tiers if "build" in tier}
    assert all(word in builds["T2a"] for word in ("Clang", "-O3", "-mcpu=apple-m1"))
    assert all(word in builds["T3b"] for word in ("BORE", "BBRv3"))


def test_arashi_does_not_set_what_its_source_removed() -> None:
    for name in ("arashi-t1", "arashi-t3a"):
        assert not any(re.search(r"nohz_full|smp_affinity", setting["knob"]) for setting in settings_of(name))
    assert any("nohz_full" in note for note in PROFILES["arashi-t3a"]["notes"])


def test_generated_profiles() -> None:
    generated = {name: profile["generated"] for name, profile in PROFILES.items() if "generated" in profile}
    assert generated == {"stock": "stock", "distro": "distro"}


def test_power_is_one_list_of_all_that_saves_it() -> None:
    named = {setting["knob"].partition("@")[0] for setting in settings_of("power")}
    known = {knob["id"] for knob in load(CATALOG / "knobs" / "power.toml")["knob"]}
    assert known <= named


def test_controlled_actions() -> None:
    controlled = {name for name in PROFILES for setting in settings_of(name) if setting.get("controlled")}
    assert controlled == {"quiet", "margine-bench"}
    assert all(setting.get("controlled") is True for setting in settings_of("quiet") + settings_of("margine-bench"))


@pytest.mark.parametrize(
    "profile, said",
    [
        ("ktweak", ["vm.dirty_writeback_centisecs = 0", "queue:iostats = 0", "vm.extfrag_threshold", "6.6"]),
        *((f"ktweak-2021-{branch}", ["tcp_syncookies = 0", "queue:iostats = 0", "6.6"]) for branch in TWENTY_ONE),
        ("micro-stutter-watermarks", ["vm.page_cluster", "vm.page-cluster"]),
        ("micro-stutter-nvme-queue", ["nvme*n1"]),
        ("power", ["not a recommendation", "min_power has lost data"]),
        ("micro-stutter-nvme-power", ["lacks the boot line"]),
        ("margine-bench", ["no sched_ext scheduler is loaded"]),
        ("quiet", ["Address space randomisation stays on", "nohz_full"]),
    ],
)
def test_harm_and_doubt_are_named(profile: str, said: list[str]) -> None:
    notes = "\n".join(PROFILES[profile]["notes"])
    assert [words for words in said if words not in notes] == []


def test_what_its_file_could_not_set_is_not_refuted() -> None:
    (evidence,) = [one for one in load_catalog().knobs["vm.page-cluster"].evidence if one.source == "micro-stutter"]
    assert evidence.status == "never took effect"


def test_ktweak_2021_has_figures_of_whole_branches_and_none_of_a_value() -> None:
    catalog = load_catalog()
    source = catalog.sources["ktweak-2021"]
    assert "0.331 to 0.808 s" in (source.method or "")
    assert any("regressions" in doubt for doubt in source.doubts)
    claims = [one for knob in catalog.knobs.values() for one in knob.evidence if one.source == source.key]
    assert len(claims) >= 30
    assert {one.conditions for one in claims} == {"OnePlus 7 Pro; the source measured whole branches, never this value"}


def test_the_governor_is_credited_to_the_script_and_not_to_the_readme() -> None:
    assert {one.source for one in load_catalog().knobs["cpufreq:scaling_governor"].evidence} == {
        "margine",
        "ktweak-script",
    }


def test_a_knob_for_each_way_to_set_apst() -> None:
    names = {
        name for name in load_catalog().knobs if name.endswith(("default_ps_max_latency_us", "latency_tolerance_us"))
    }
    assert names == {
        "boot:nvme_core.default_ps_max_latency_us",
        "module:nvme_core.default_ps_max_latency_us",
        "nvme:pm_qos_latency_tolerance_us",
    }


@pytest.mark.parametrize("symbol", ["MTIGERLAKE", "MCOOPERLAKE"])
def test_gcc_knows_tigerlake_and_cooperlake_since_10_1(symbol: str) -> None:
    (target,) = [one for one in load(CATALOG / "kernels" / "targets.toml")["target"] if one.get("symbol") == symbol]
    assert target["gcc"] == "10.1"
