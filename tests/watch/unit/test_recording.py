# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from array import array
from math import isnan

import pytest

from ktrial.recordings.model import Event, Frames, Recording, Series, SeriesKind, Source, rates

ACTIVE = Source(name="vmstat", state="active")


def series(kind: SeriesKind, *values: float) -> Series:
    times = array("d", range(len(values)))
    return Series(name="vmstat.x", source="vmstat", unit="1", kind=kind, times_s=times, values=array("d", values))


def test_rates_of_a_counter_are_growth_a_second_and_unknown_where_it_fell() -> None:
    found = rates(series("counter", 1.0, 4.0, 2.0, 2.0))
    assert isnan(found[0])
    assert found[1] == 3.0
    assert isnan(found[2])
    assert found[3] == 0.0


def test_a_counter_of_32_bits_goes_on_after_its_end_and_a_gauge_may_fall() -> None:
    assert rates(series("counter", 2.0**32 - 1, 1.0), bits=32)[1] == 2.0
    assert rates(series("gauge", 5.0, 3.0))[1] == -2.0
    assert rates(series("rate", 5.0, 3.0)).tolist() == [5.0, 3.0]


def test_a_source_that_is_not_active_says_why() -> None:
    assert Source(name="psi", state="absent", why="no /proc/pressure").lost == 0
    with pytest.raises(ValueError, match="psi is absent"):
        Source(name="psi", state="absent")
    with pytest.raises(ValueError, match="vmstat is active"):
        Source(name="vmstat", state="active", why="no reason")


def test_what_does_not_fit_together_is_refused() -> None:
    event = Event(kind="direct-reclaim", source="trace", begin_s=0.5)
    with pytest.raises(ValueError, match="the source trace is missing: there are only vmstat"):
        Recording(name="r", begin_s=0, end_s=1, sources=(ACTIVE,), events=(event,))
    with pytest.raises(ValueError, match="ends at"):
        Recording(name="r", begin_s=2, end_s=1)
    with pytest.raises(ValueError, match="two sources"):
        Recording(name="r", begin_s=0, end_s=1, sources=(ACTIVE, ACTIVE))
    with pytest.raises(ValueError, match="has the key other"):
        Recording(name="r", begin_s=0, end_s=1, sources=(ACTIVE,), series={"other": series("gauge", 1.0)})
    with pytest.raises(ValueError, match="order of time"):
        Frames(kind="frame", source="f", ends_s=array("d", [2, 1]), durations_s=array("d", [1, 1]))
    with pytest.raises(ValueError, match="1 moments"):
        Series(name="s", source="v", unit="1", kind="gauge", times_s=array("d", [1]), values=array("d"))


def test_length_and_sources() -> None:
    whole = Recording(name="r", begin_s=1, end_s=4, sources=(ACTIVE,), series={"vmstat.x": series("gauge", 1.0)})
    assert whole.length_s == 3
    assert whole.source("vmstat") is ACTIVE
    assert whole.source("psi") is None
