# SPDX-License-Identifier: Apache-2.0
"""Knobs by the names that people use: files of /proc and /sys, folders, names without a prefix."""

from __future__ import annotations

import pytest

from ktrial.kit.errors import UnknownName
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.tuning.knobs.find import find_knob, knobs_called
from ktrial.tuning.origin.import_profile import spelled_setting
from tests.support.tree import FakeRoot

KNOBS = load_catalog().knobs


@pytest.mark.parametrize(
    "word, wanted",
    [
        ("/proc/sys/vm/swappiness=10", "vm.swappiness=10"),
        ("/proc/sys/vm/swappiness", "vm.swappiness"),
        ("/sys/kernel/mm/transparent_hugepage/enabled=never", "thp:enabled=never"),
        ("/sys/block/sda/queue/scheduler=none", "queue:scheduler@sda=none"),
        ("/sys/block/*/queue/scheduler=none", "queue:scheduler@*=none"),
        (
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor=performance",
            "cpufreq:scaling_governor@policy0=performance",
        ),
        ("/sys/kernel/debug/sched/features=NO_HRTICK", "feature:HRTICK=off"),
        ("vm.swappiness=10", "vm.swappiness=10"),
        ("./profile.toml", "./profile.toml"),
        ("/home/me/profile.toml", "/home/me/profile.toml"),
        ("boot:-quiet", "boot:-quiet"),
    ],
)
def test_a_file_is_its_knob(word: str, wanted: str) -> None:
    assert spelled_setting(word, KNOBS) == wanted


def test_a_file_that_is_no_knob_is_unknown() -> None:
    with pytest.raises(UnknownName) as raised:
        spelled_setting("/proc/sys/vm/swapiness=10", KNOBS)
    assert raised.value.nearest == ("vm.swappiness",)


@pytest.mark.parametrize(
    "name, first",
    [
        ("transparent_hugepage", "thp:enabled"),
        ("swappiness", "vm.swappiness"),
        ("mitigations", "boot:mitigations"),
        ("read_ahead_kb", "queue:read_ahead_kb"),
    ],
)
def test_names_that_people_use(name: str, first: str) -> None:
    assert knobs_called(name, KNOBS)[0].id == first
    with pytest.raises(UnknownName) as raised:
        find_knob(name, KNOBS)
    assert first in (raised.value.hint or "")


@pytest.mark.parametrize(
    "words, shown",
    [
        (["plan", "FILE=10"], "vm.swappiness"),
        (["with", "FILE=10", "--", "true"], "restored"),
        (["keep", "FILE=10", "--dry-run"], "vm.swappiness"),
        (["export", "FILE=10", "--to", "sysctl.d"], "vm.swappiness = 10"),
        (["try", "FILE=10", "--dry-run"], '"vm.swappiness" = "10"'),
        (["try", "--set", "FILE=10,20", "--dry-run"], '"vm.swappiness" = "20"'),
        (["explain", "FILE"], "vm.swappiness"),
        (["why", "FILE"], "vm.swappiness"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_they_are_understood_wherever_a_setting_is_taken(root: FakeRoot, words: list[str], shown: str) -> None:
    file = "/proc/sys/vm/swappiness"
    ran = root.run(*(word.replace("FILE", file) for word in words))
    assert (ran.status, root.read(file)) == (0, "60\n"), ran.err
    assert shown in ran.out + ran.err
