# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from ktrial.kernels.uarch.arm_targets import CpuTarget, cpu_flags, features, find_cpu_target
from ktrial.kernels.uarch.target_files import load_cpu_targets
from ktrial.kit.errors import BadInput, UnknownName

TARGETS = load_cpu_targets()


def test_the_table_has_each_cpu_once() -> None:
    names = [target.name for target in TARGETS]
    assert len(set(names)) == len(names)
    assert {"generic", "apple-m1", "neoverse-n1", "neoverse-v2", "cortex-a72", "cortex-x4"} <= set(names)
    assert [target.name for target in TARGETS if target.c_only] == [name for name in names if "." in name]


@pytest.mark.parametrize("word", ["apple-m1", "Apple M1", "APPLE-M1"])
def test_a_cpu_by_its_names(word: str) -> None:
    assert find_cpu_target(word, TARGETS).name == "apple-m1"


def test_an_unknown_cpu_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown target: 'neoverse-n9'") as caught:
        find_cpu_target("neoverse-n9", TARGETS)
    assert "neoverse-n1" in caught.value.nearest


def test_flags_go_to_c_and_to_rust_where_it_has_the_name() -> None:
    assert cpu_flags(find_cpu_target("apple-m1", TARGETS)) == {
        "KCFLAGS": ("-mcpu=apple-m1",),
        "KCPPFLAGS": ("-mcpu=apple-m1",),
        "KRUSTFLAGS": ("-Ctarget-cpu=apple-m1",),
    }
    assert "KRUSTFLAGS" not in cpu_flags(find_cpu_target("cortex-a76.cortex-a55", TARGETS))


def test_features_are_what_the_base_has_not() -> None:
    macros = {"__ARM_FEATURE_ATOMICS": "1", "__ARM_FEATURE_CRC32": "1", "__ARM_FEATURE_FMA": "1", "__linux__": "1"}
    assert features(macros, {"__ARM_FEATURE_FMA": "1"}) == ("ATOMICS", "CRC32")


def test_a_name_that_is_none() -> None:
    with pytest.raises(BadInput, match="not a valid value of -mcpu"):
        CpuTarget(name="a b", prompt="x", family="y").check()
