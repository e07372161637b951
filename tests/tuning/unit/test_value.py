# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.tuning.knobs.value import active_text, kernel_text, offered, same_value
from tests.support.knobs import DIRTY_BYTES, NEXT_BUDDY, SCHEDULER, SWAPPINESS, knob

WBT = knob("queue:wbt_lat_usec", value={"type": "int", "min": 0, "special": {"-1": "the kernel's default"}})
ALGORITHM = knob("x.algorithm", value={"type": "choice", "choices": ["lz4", "zstd"]})
RESERVE = knob("vm.lowmem_reserve_ratio", value={"type": "ints", "count": 3, "min": 0})
MASK = knob("irq:smp_affinity", value={"type": "mask"})
FLAG = knob("module:zswap.enabled", value={"type": "bool"})
MIN_FREE = knob("vm.min_free_kbytes", value={"type": "int", "unit": "kB"})


@pytest.mark.parametrize(
    "entry, value, text",
    [
        (SWAPPINESS, "10", "10"),
        (SWAPPINESS, 10, "10"),
        (SWAPPINESS, "0x0a", "10"),
        (WBT, -1, "-1"),
        (WBT, "-1", "-1"),
        (DIRTY_BYTES, "256MiB", str(256 * 2**20)),
        (MIN_FREE, "1GiB", "1048576"),
        (ALGORITHM, "zstd", "zstd"),
        (RESERVE, [256, 32, 0], "256 32 0"),
        (RESERVE, "256\t32 0", "256 32 0"),
        (MASK, "ff,00000000", "ff,00000000"),
        (FLAG, True, "1"),
        (FLAG, "N", "0"),
        (NEXT_BUDDY, True, "NEXT_BUDDY"),
        (NEXT_BUDDY, "off", "NO_NEXT_BUDDY"),
        (NEXT_BUDDY, "NO_NEXT_BUDDY", "NO_NEXT_BUDDY"),
    ],
)
def test_what_is_written(entry: Any, value: Any, text: str) -> None:
    assert kernel_text(entry, value) == text


@pytest.mark.parametrize(
    "entry, value",
    [
        (SWAPPINESS, 201),
        (SWAPPINESS, -1),
        (SWAPPINESS, "ten"),
        (SWAPPINESS, 1.5),
        (SWAPPINESS, "10MiB"),
        (WBT, -2),
        (ALGORITHM, "gzip"),
        (RESERVE, [1, 2]),
        (RESERVE, "1 2 x"),
        (MASK, "zz"),
        (FLAG, "maybe"),
        (NEXT_BUDDY, "LAST_BUDDY"),
        (SCHEDULER, "no\nne"),
        (SCHEDULER, ""),
        (SCHEDULER, "x" * 5000),
        (SCHEDULER, True),
    ],
)
def test_what_is_refused_names_the_knob(entry: Any, value: Any) -> None:
    with pytest.raises(BadInput) as caught:
        kernel_text(entry, value)
    assert caught.value.message.startswith(entry.id)
    assert caught.value.hint


@pytest.mark.parametrize(
    "entry, shown, active",
    [
        (SCHEDULER, "none [mq-deadline] kyber\n", "mq-deadline"),
        (SCHEDULER, "none (full) voluntary\n", "full"),
        (SCHEDULER, "none\n", "none"),
        (NEXT_BUDDY, "GENTLE NO_NEXT_BUDDY TTWU_QUEUE\n", "NO_NEXT_BUDDY"),
        (NEXT_BUDDY, "GENTLE TTWU_QUEUE\n", ""),
        (RESERVE, "256\t32\t0\n", "256 32 0"),
    ],
)
def test_what_is_in_force(entry: Any, shown: str, active: str) -> None:
    assert active_text(entry, shown) == active


def test_offered_words() -> None:
    assert offered("none [mq-deadline] kyber") == ("none", "mq-deadline", "kyber")
    assert offered("performance") == ()


@pytest.mark.parametrize(
    "entry, left, right, same",
    [
        (SWAPPINESS, "0x0007", "7", True),
        (SWAPPINESS, "7", "8", False),
        (FLAG, "Y", "1", True),
        (FLAG, "Y", "0", False),
        (MASK, "00000003", "3", True),
        (MASK, "00000001,00000000", "100000000", True),
        (SCHEDULER, "none", "None", False),
    ],
)
def test_same_value(entry: Any, left: str, right: str, same: bool) -> None:
    assert same_value(entry, left, right) is same


@given(st.sampled_from([SWAPPINESS, ALGORITHM, RESERVE, MASK, FLAG, NEXT_BUDDY, SCHEDULER]), st.text(max_size=30))
def test_any_text_is_written_as_one_line_or_refused(entry: Any, text: str) -> None:
    try:
        written = kernel_text(entry, text)
    except BadInput:
        return
    assert written
    assert "\n" not in written
    assert "\0" not in written
