# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from ktrial.kit.errors import BadInput, Refused, UnknownName
from ktrial.kit.units import show_bytes, show_seconds
from ktrial.tuning.catalog.loader import load_catalog
from ktrial.watch.watermark_model import RESERVE, SCALE
from ktrial.watch.watermarks import Lead, compare, layout_elsewhere, layout_here, peak_rate
from ktrial.watch.watermarks_text import watermarks_text
from tests.support.machine import FakeMachine

CATALOG = load_catalog()
ZONES = [
    {"node": 0, "zone": "DMA", "managed_pages": 3840, "min_pages": 14, "low_pages": 17, "high_pages": 20},
    {"node": 0, "zone": "DMA32", "managed_pages": 772917, "min_pages": 2915, "low_pages": 3687, "high_pages": 4459},
    {
        "node": 0,
        "zone": "Normal",
        "managed_pages": 3702784,
        "min_pages": 13966,
        "low_pages": 17668,
        "high_pages": 21370,
    },
]


def machine(**other: str) -> FakeMachine:
    files = {"/proc/sys/vm/min_free_kbytes": "67584\n", "/proc/sys/vm/watermark_scale_factor": "10\n", **other}
    facts = {"memory.zones": ZONES, "memory.page_bytes": 4096, "memory.total": 17 * 2**30}
    return FakeMachine(files, facts)


def test_what_is_in_force_is_what_the_kernel_shows() -> None:
    found = compare(layout_here(machine()), (), CATALOG)
    assert found.agrees is True
    assert found.columns[0].lead_bytes == (3 + 772 + 3702) * 4096
    assert "The row in force agrees with /proc/zoneinfo." in watermarks_text(found, width=80)


def test_a_kernel_that_shows_something_else_is_told() -> None:
    boosted = [{**ZONES[0], "min_pages": 15, "low_pages": 18, "high_pages": 21}, {**ZONES[1], "low_pages": 9}, ZONES[2]]
    here = FakeMachine(machine().files, {"memory.zones": boosted, "memory.page_bytes": 4096})
    found = compare(layout_here(here), (), CATALOG)
    assert found.agrees is False
    assert "watermark_boost_factor" in found.differs[0]
    assert "off by 0, -3678, 0" in found.differs[1]


def test_settings_side_by_side_and_the_line_that_would_test_the_last() -> None:
    words = (f"{SCALE}=125,500", "micro-stutter-watermarks", f"{RESERVE}=1048576+{SCALE}=500")
    found = compare(layout_here(machine()), words, CATALOG, rate=(2.0**31, "as given"))
    assert [dict(column.settings) for column in found.columns[1:]] == [
        {RESERVE: 67584, SCALE: 125},
        {RESERVE: 67584, SCALE: 500},
        {RESERVE: 1048576, SCALE: 500},
        {RESERVE: 1048576, SCALE: 500},
    ]
    assert found.columns[2].lead_s == pytest.approx(found.columns[2].lead_bytes / 2**31)
    text = watermarks_text(found, width=80)
    assert max(len(line) for line in text.splitlines() if not line.startswith("ktrial try")) <= 80
    assert f"ktrial try {RESERVE}=1048576 {SCALE}=500 --suite memory-pressure" in text


def test_the_setting_for_a_lead() -> None:
    here = layout_here(machine())
    found = compare(here, (), CATALOG, lead=Lead("1GiB", amount_bytes=2.0**30))
    assert found.columns[-1].lead_bytes >= 2**30
    assert found.columns[-1].lead_bytes - 2**30 < 4479541 * 4096 / 10000 + 3 * 4096
    timed = compare(here, (), CATALOG, lead=Lead("500ms", seconds=0.5), rate=(2.0**31, "as given"))
    assert timed.columns[-1].settings == found.columns[-1].settings
    with pytest.raises(BadInput, match="needs an allocation rate"):
        compare(here, (), CATALOG, lead=Lead("3s", seconds=3.0))
    with pytest.raises(Refused, match="gives this lead") as caught:
        compare(here, (), CATALOG, lead=Lead("90GiB", amount_bytes=90.0 * 2**30))
    most = compare(here, (f"{SCALE}=3000",), CATALOG).columns[-1].lead_bytes
    assert caught.value.hint == f"use a --lead up to {show_bytes(most)}, which the largest value, 3000, gives"
    with pytest.raises(Refused) as caught:
        compare(here, (), CATALOG, lead=Lead("9h", seconds=32_400.0), rate=(2.0**31, "as given"))
    assert f"up to {show_seconds(most / 2**31)} at this rate" in str(caught.value.hint)


def test_a_machine_that_is_not_at_hand_has_the_defaults() -> None:
    found = compare(layout_elsewhere(96 * 2**30, CATALOG), (), CATALOG)
    assert found.agrees is None
    assert found.columns[0].settings == {RESERVE: 67584, SCALE: 10}


@pytest.mark.parametrize(
    "word, error, says",
    [
        ("vm.swappiness=10", BadInput, "does not set the watermarks"),
        (f"{SCALE}=9999", BadInput, "3000"),
        (f"{SCALE}=1,2+{RESERVE}=5000", BadInput, "several"),
        ("margine-perf", UnknownName, "profile"),
        ("micro-stutter-nvme-queue", BadInput, "does not set the watermarks"),
    ],
)
def test_bad_words(word: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        compare(layout_here(machine()), (word,), CATALOG)


def test_a_kernel_without_the_factor() -> None:
    here = machine()
    del here.files["/proc/sys/vm/watermark_scale_factor"]
    with pytest.raises(Refused, match=r"cannot read .*watermark_scale_factor: kernels before 4.6 lack this setting"):
        layout_here(here)


class Ticks:
    """Each sleep is a tenth of a second, in which the machine takes so many pages."""

    def __init__(self, here: FakeMachine, steps: list[tuple[int, int, int]]) -> None:
        self.now_ns, self.here, self.steps = 0, here, steps
        self.sleep(0.0)

    def monotonic_ns(self) -> int:
        return self.now_ns

    def sleep(self, duration_s: float) -> None:
        self.now_ns += int(duration_s * 1e9)
        taken, stolen, freed = self.steps.pop(0)
        self.here.files["/proc/vmstat"] = f"pgalloc_normal {taken}\npgsteal_kswapd {stolen}\npgfree {freed}\n"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def test_the_peak_rate_counts_what_reclaim_had_to_give() -> None:
    here = machine()
    clock = Ticks(here, [(0, 0, 0), (100, 0, 90), (1100, 500, 600), (1200, 500, 700)])
    assert peak_rate(here, clock, 0.3, 4096) == pytest.approx((1000 + 500 - 510) * 4096 / 0.1)


def test_a_kernel_that_does_not_count_has_no_rate() -> None:
    with pytest.raises(Refused, match="does not count"):
        peak_rate(machine(**{"/proc/vmstat": "nr_free_pages 1\n"}), Ticks(machine(), [(0, 0, 0)]), 0.1, 4096)
