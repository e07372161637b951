# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktrial.kit.errors import BadInput
from ktrial.machine.facts import Fact, FactBook
from ktrial.watch.watermark_model import Marks, Zone, in_all, scale_for, shown_marks, usual_zones, zone_marks, zones_of

#: /proc/zoneinfo of a machine with 17 GiB, vm.min_free_kbytes 67584, vm.watermark_scale_factor 10.
SEEN = (
    (Zone(node=0, name="DMA", managed_pages=3840), Marks(min_pages=14, low_pages=17, high_pages=20)),
    (Zone(node=0, name="DMA32", managed_pages=772_917), Marks(min_pages=2915, low_pages=3687, high_pages=4459)),
    (Zone(node=0, name="Normal", managed_pages=3_702_784), Marks(min_pages=13966, low_pages=17668, high_pages=21370)),
)
ZONES = tuple(zone for zone, _ in SEEN)
GIB = 2**30


def test_marks_are_those_that_a_kernel_showed() -> None:
    assert zone_marks(ZONES, 67584, 10, 4096) == tuple(marks for _, marks in SEEN)


@pytest.mark.parametrize("reserve_gib, scale, low_gib, high_gib", [(3, 125, 4.2, 5.4), (1, 500, 5.8, 10.6)])
def test_the_case_study_with_96_gib(reserve_gib: int, scale: int, low_gib: float, high_gib: float) -> None:
    whole = in_all(zone_marks(usual_zones(96 * GIB), reserve_gib * 2**20, scale, 4096))
    assert whole.min_pages * 4096 / GIB == pytest.approx(reserve_gib, abs=0.001)
    assert whole.low_pages * 4096 / GIB == pytest.approx(low_gib, abs=0.001)
    assert whole.high_pages * 4096 / GIB == pytest.approx(high_gib, abs=0.001)


def test_zones_that_the_kernel_does_not_use_itself_hold_little_and_take_no_share() -> None:
    zones = (*ZONES, Zone(node=0, name="Movable", managed_pages=10**6), Zone(node=0, name="HighMem", managed_pages=99))
    found = zone_marks(zones, 67584, 10, 4096)
    assert found[:3] == tuple(marks for _, marks in SEEN)
    assert [marks.min_pages for marks in found[3:]] == [128, 32]
    with pytest.raises(BadInput, match="no zone"):
        zone_marks(zones[3:], 67584, 10, 4096)


@settings(max_examples=25, deadline=None)
@given(memory=st.integers(2**25, 2**44), reserve_kb=st.integers(128, 2**26), scale=st.integers(1, 3000))
def test_marks_rise_and_the_scale_for_a_lead_is_the_least(memory: int, reserve_kb: int, scale: int) -> None:
    zones = usual_zones(memory)
    assert sum(zone.managed_pages for zone in zones) == memory // 4096
    whole = in_all(zone_marks(zones, reserve_kb, scale, 4096))
    assert whole.min_pages <= whole.low_pages <= whole.high_pages
    lead_bytes = whole.lead_pages * 4096
    found = scale_for(zones, reserve_kb, lead_bytes, 4096)
    assert found is not None
    assert found <= scale
    assert in_all(zone_marks(zones, reserve_kb, found, 4096)).lead_pages * 4096 >= lead_bytes


def test_a_lead_that_nothing_gives() -> None:
    assert scale_for(ZONES, 67584, 100 * GIB, 4096) is None


def test_zones_of_facts_and_what_is_said_where_there_are_none() -> None:
    shown = {"min_pages": 14, "low_pages": 17, "high_pages": 20}
    records = [{"node": 0, "zone": "DMA", "managed_pages": 3840, **shown}, {"zone": "Normal", "managed_pages": 5}]
    facts = FactBook({"memory.zones": Fact(value=records)})
    assert [zone.name for zone in zones_of(facts)] == ["DMA", "Normal"]
    assert shown_marks(facts) == (SEEN[0][1], None)
    with pytest.raises(BadInput, match="no /proc/zoneinfo"):
        zones_of(FactBook({"memory.zones": Fact(absent="no /proc/zoneinfo")}))
    with pytest.raises(BadInput, match="at least 32 MiB"):
        usual_zones(2**20)
