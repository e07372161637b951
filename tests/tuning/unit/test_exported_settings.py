# SPDX-License-Identifier: Apache-2.0
"""Lasting settings: their paths, devices and words, and how settings of profiles become such."""

from __future__ import annotations

from typing import Any

import pytest

from ktrial.kit.errors import BadInput, Contradiction
from ktrial.machine.facts import Fact, FactBook
from ktrial.machine.reading import InstanceState, KnobState, Reading
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.exports.model import Omission, boot_word
from ktrial.tuning.exports.resolve import WantedSetting, lasting_settings
from ktrial.tuning.knobs.profile import Setting
from ktrial.tuning.plans.model import Context
from tests.support.exports import lasting

CATALOG = load_catalog()
DISKS: list[dict[str, Any]] = [
    {"name": "nvme0n1", "rotational": False, "transport": "nvme", "size_bytes": 1 << 40},
    {"name": "sda", "rotational": True, "transport": "sata", "size_bytes": 1 << 30},
]


@pytest.mark.parametrize(
    "word, form, path",
    [
        ("vm.swappiness=1", "sysctl", "/proc/sys/vm/swappiness"),
        ("queue:scheduler@nvme*=none", "device", "/sys/block/nvme*/queue/scheduler"),
        ("queue:scheduler@*=none", "device", "/sys/block/*/queue/scheduler"),
        ("cpufreq:scaling_governor@*=schedutil", "device", "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"),
        ("irq:smp_affinity@irq7=3", "sysfs", "/proc/irq/7/smp_affinity"),
        ("cpuidle:state_disable@cpu0=1", "device", "/sys/devices/system/cpu/cpu0/cpuidle/state*/disable"),
        ("cgroup:cpu.weight@a.slice/b.slice=9", "cgroup", "/sys/fs/cgroup/a.slice/b.slice/cpu.weight"),
        ("feature:NEXT_BUDDY=on", "debugfs", "/sys/kernel/debug/sched/features"),
        ("zswap:enabled=on", "module", "/sys/module/zswap/parameters/enabled"),
    ],
)
def test_form_and_path(word: str, form: str, path: str) -> None:
    setting = lasting(word)
    assert (setting.form, setting.path) == (form, path)


def test_a_pattern_that_spans_parts_is_refused() -> None:
    with pytest.raises(BadInput, match="may mean several parts"):
        _ = lasting("cpuidle:state_disable@*state2=1").path


@pytest.mark.parametrize(
    "word, device",
    [
        ("queue:scheduler@nvme*=none", ("block", "nvme*", "queue/scheduler")),
        ("cpufreq:scaling_governor@policy3=schedutil", ("cpu", "cpu3", "cpufreq/scaling_governor")),
        ("net:rps_cpus@eth0/rx-1=f", ("net", "eth0", "queues/rx-1/rps_cpus")),
        ("net:rps_cpus@*/rx-*=f", ("queues", "rx-*", "rps_cpus")),
        ("cpuidle:state_disable@cpu0/state2=1", ("cpu", "cpu0", "cpuidle/state2/disable")),
    ],
)
def test_udevs_name_of_a_file(word: str, device: tuple[str, str, str]) -> None:
    assert lasting(word).device == device


@pytest.mark.parametrize(
    "word, told",
    [
        ("boot:preempt=full", "preempt=full"),
        ("boot:nowatchdog=on", "nowatchdog"),
        ("boot:nowatchdog=off", None),
        ("boot:psi=off", "psi=0"),
        ("boot:rcutree.enable_rcu_lazy=on", "rcutree.enable_rcu_lazy=1"),
        ("boot:nosmt=on", "nosmt"),
        ("boot:nosmt=force", "nosmt=force"),
        ("boot:printk.devkmsg=on", "printk.devkmsg=on"),
        ("module:nvme_core.io_timeout=30", "nvme_core.io_timeout=30"),
    ],
)
def test_words_of_the_kernel_command_line(word: str, told: str | None) -> None:
    assert boot_word(lasting(word)) == told


def test_a_sysctl_with_a_dot_in_a_name_has_slashes() -> None:
    place = "/proc/sys/net/ipv4/conf/{interface}/rp_filter"
    setting = lasting("queue:scheduler@eth0.100=none", place=place)
    assert setting.sysctl_key == "net/ipv4/conf/eth0.100/rp_filter"
    assert lasting("queue:scheduler@eth0=none", place=place).sysctl_key == "net.ipv4.conf.eth0.rp_filter"


def here(knob: str, shown: str) -> dict[str, KnobState]:
    """The state of a knob of both disks."""
    instances = tuple(
        InstanceState(
            label=disk["name"], path=f"/sys/block/{disk['name']}/queue/scheduler", reading=Reading(shown.encode())
        )
        for disk in DISKS
    )
    return {knob: KnobState(knob=knob, instances=instances)}


def resolved(
    states: dict[str, KnobState], *settings: Setting, **facts: Any
) -> tuple[list[tuple[str, str]], list[Omission]]:
    book = FactBook({name.replace("__", "."): Fact(value=value) for name, value in facts.items()})
    context = Context(CATALOG.knobs, CATALOG.kinds, book, states)
    found, left = lasting_settings((WantedSetting(one, f"setting {at}") for at, one in enumerate(settings)), context)
    return [(one.address, one.text) for one in found], list(left)


def test_devices_are_meant_by_name_where_a_name_says_it() -> None:
    setting = Setting(knob="queue:scheduler@[transport=nvme]", value="none")
    assert resolved({}, setting) == ([("queue:scheduler@nvme*", "none")], [])
    rotating = Setting(knob="queue:scheduler@[rotational=true]", value="bfq")
    assert resolved({}, rotating) == ([("queue:scheduler@[rotational=true]", "bfq")], [])
    when = Setting(knob="queue:scheduler@*", value="bfq", when="device.rotational != true")
    solid = Setting(knob="queue:scheduler@*", value="none", when="device.rotational == true")
    assert resolved({}, when, solid)[0] == [
        ("queue:scheduler@[rotational=false]", "bfq"),
        ("queue:scheduler@[rotational=true]", "none"),
    ]


def test_other_conditions_are_resolved_for_the_devices_of_this_machine() -> None:
    states = here("queue:scheduler", "[none] kyber")
    sata = Setting(knob="queue:scheduler@[transport=sata]", value="none")
    assert resolved(states, sata, block__devices=DISKS) == ([("queue:scheduler@sda", "none")], [])
    computed = Setting(knob="queue:scheduler@nvme*", value={"compute": "first-offered", "of": ["bfq", "kyber"]})
    assert resolved(states, computed, block__devices=DISKS) == ([("queue:scheduler@nvme0n1", "kyber")], [])
    (left,) = resolved({}, sata)[1]
    why = "the value depends on the devices, and no device here fits"
    assert left == Omission("queue:scheduler@[transport=sata]", why)


def test_what_the_machine_rules_out_is_left_out_with_the_reason() -> None:
    large = Setting(knob="vm.swappiness", value=1, when='memory.total >= "8GiB"')
    found, left = resolved({}, large, memory__total=1 << 30)
    assert found == []
    assert [one.address for one in left] == ["vm.swappiness"]
    assert "memory.total" in left[0].reason
    assert resolved({}, large, memory__total=1 << 34) == ([("vm.swappiness", "1")], [])


def test_a_knob_with_two_values_is_a_contradiction() -> None:
    with pytest.raises(Contradiction, match=r"vm\.swappiness is set twice: 1 and 2"):
        resolved({}, Setting(knob="vm.swappiness", value=1), Setting(knob="vm.swappiness", value=2))


def test_of_two_values_in_a_profile_the_later_one_counts() -> None:
    book = FactBook({"memory.total": Fact(value=1 << 34)})
    context = Context(CATALOG.knobs, CATALOG.kinds, book, {})
    early, late = Setting(knob="vm.swappiness", value=1), Setting(knob="vm.swappiness", value=2)
    found, _ = lasting_settings([WantedSetting(one, "profile x") for one in (early, late)], context)
    assert [one.text for one in found] == ["2"]


def test_settings_are_in_the_order_in_which_they_must_be_written() -> None:
    late, early = Setting(knob="queue:wbt_lat_usec@sda", value=0), Setting(knob="queue:scheduler@sda", value="none")
    assert [address for address, _ in resolved({}, late, early)[0]] == ["queue:scheduler@sda", "queue:wbt_lat_usec@sda"]
