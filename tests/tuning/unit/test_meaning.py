# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.machine.facts import Fact, FactBook
from ktrial.tuning.knobs.meaning import MEANINGS, meaning

FACTS = FactBook(
    {
        "memory.available": Fact(value=10 * 2**30),
        "memory.page_bytes": Fact(value=4096),
        "cpu.threads": Fact(value=4),
        "memory.zones": Fact(value=[{"managed_pages": 96 * 2**18}]),
    }
)


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("percent-of-available", "10", "1 GiB of the 10 GiB available now"),
        ("watermark-distance", "500", "kswapd wakes 4.8 GiB above the minimum"),
        ("watermark-minimum", "1048576", "1 GiB kept free, 1.04% of memory"),
        ("swap-cluster", "3", "8 pages (32 KiB) per read from swap"),
        ("swap-cluster", "0", "1 page (4 KiB) per read from swap"),
        ("slice", "2800000", "a task runs 2.8 ms"),
        ("centiseconds", "600", "6 s"),
        ("cpu-mask", "00000001", "CPU 0"),
        ("cpu-mask", "00000005", "CPUs 0, 2"),
        ("cpu-mask", "1f", "CPUs 0, 1, 2, 3, 4 (4 are online here)"),
        ("sectors-kib", "128", "128 KiB"),
    ],
)
def test_what_a_value_means(name: str, text: str, words: str) -> None:
    said = meaning(name, text, FACTS)
    assert said is not None
    assert said.startswith(words)


def test_nothing_is_said_where_facts_are_missing() -> None:
    assert meaning("percent-of-available", "10", FactBook({})) is None
    assert meaning("watermark-distance", "10", FactBook({})) is None
    assert meaning(None, "10", FACTS) is None


@given(st.sampled_from(sorted(MEANINGS)), st.text(max_size=20) | st.integers().map(str))
def test_never_raises(name: str, text: str) -> None:
    assert meaning(name, text, FACTS) is None or meaning(name, text, FACTS)
