# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from ktrial.machine.facts import Fact, FactBook
from ktrial.tuning.knobs.computed import default_value
from tests.support.knobs import knob


def book(**facts: Any) -> FactBook:
    return FactBook({name.replace("__", "."): Fact(value=value) for name, value in facts.items()})


def test_min_free_kbytes_as_seen_on_a_running_24_gib_machine_with_thp() -> None:
    """67584 was read on such a machine: three zones, THP on."""
    zones = [{"managed_pages": 3840}, {"managed_pages": 700_000}, {"managed_pages": 5_400_000}]
    facts = book(memory__zones=zones, memory__page_bytes=4096, thp__enabled="madvise")
    assert default_value(knob("x.y", default={"compute": "min-free-kbytes"}), facts) == (67584, None)


def test_min_free_kbytes_without_thp_is_four_times_the_root() -> None:
    facts = book(memory__zones=[{"managed_pages": 262144}], memory__page_bytes=4096, thp__enabled="never")
    assert default_value(knob("x.y", default={"compute": "min-free-kbytes"}), facts) == (4096, None)


@pytest.mark.parametrize("threads, slice_ns", [(1, 700_000), (2, 1_400_000), (8, 2_800_000), (64, 2_800_000)])
def test_base_slice_grows_with_the_logarithm_of_the_cpus(threads: int, slice_ns: int) -> None:
    entry = knob("x.y", default={"compute": "base-slice"})
    assert default_value(entry, book(cpu__threads=threads)) == (slice_ns, None)


def test_a_default_that_cannot_be_told_says_why() -> None:
    assert default_value(knob("x.y", default={"compute": "base-slice"}), book())[0] is None
    assert default_value(knob("x.y", default_note="set by the distribution"), book()) == (
        None,
        "set by the distribution",
    )


@pytest.mark.parametrize(
    "architecture, counters, value",
    [("x86_64", True, True), ("x86_64", False, False), ("x86_64", None, None), ("aarch64", True, None)],
)
def test_a_hard_watchdog_needs_counters(architecture: str, counters: bool | None, value: bool | None) -> None:
    entry = knob("x.y", default={"compute": "hard-watchdog"})
    assert default_value(entry, book(cpu__architecture=architecture, cpu__counters=counters))[0] is value


@pytest.mark.parametrize(
    "release, value",
    [("6.1.0-40-amd64", 212_992), ("6.17.9", 212_992), ("6.18.44-x", 4_194_304), ("7.0", 4_194_304), ("odd", None)],
)
def test_defaults_that_a_release_changed(release: str, value: int | None) -> None:
    entry = knob("x.y", default={"compute": "socket-buffer-most"})
    assert default_value(entry, book(kernel__release=release))[0] == value
