# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ktrial.tuning.origin.formats.tuned import parse


def test_a_kernel_argument_without_a_name_is_named() -> None:
    reading = parse("[bootloader]\ncmdline_x=+quiet =5\n", "f").reading()
    assert [item.name for item in reading.assignments] == ["quiet"]
    assert [item.line_number for item in reading.unread] == [2]


def test_an_included_profile_is_named_as_not_read() -> None:
    profile = parse("[main]\nsummary=x\ninclude=throughput-performance\n[sysctl]\nvm.swappiness=10\n", "f")
    assert profile.include == ("throughput-performance",)
    assert profile.unread == ()
    assert [(item.line_number, item.text) for item in profile.reading().unread] == [
        (3, "include=throughput-performance")
    ]


def test_words_of_the_energy_bias_are_the_kernels_numbers() -> None:
    # Documentation/admin-guide/pm/intel_epb.rst, and TuneD's own profiles (balanced, powersave).
    for word, number in (
        ("performance", "0"),
        ("balance_power", "8"),
        ("normal", "6"),
        ("powersave|power", "15"),
        ("7", "7"),
    ):
        (found,) = parse(f"[cpu]\nenergy_perf_bias={word}\n", "f").reading().assignments
        assert (found.value, found.alternatives) == (number, ())
