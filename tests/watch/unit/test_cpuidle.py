# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktrial.bench.watched import Watched, read_watched
from ktrial.kit.errors import UnreadableOutput
from ktrial.recordings.cpuidle import read_cpuidle

PLACE = "/sys/devices/system/cpu/cpu{}/cpuidle/state{}/{}"


def look(*states: tuple[int, int, str, str, str]) -> dict[str, str]:
    """(CPU, number, name, time, usage) as files."""
    return {
        PLACE.format(cpu, number, file): text
        for cpu, number, *texts in states
        for file, text in zip(("name", "time", "usage"), texts, strict=True)
    }


def test_shares_are_of_the_time_of_all_cpus() -> None:
    before = look(
        (0, 0, "POLL", "10", "1"), (0, 1, "C6", "1000", "5"), (1, 0, "POLL", "0", "0"), (1, 1, "C6", "0", "0")
    )
    after = look(
        (0, 0, "POLL", "20", "2"), (0, 1, "C6", "1501000", "9"), (1, 0, "POLL", "0", "0"), (1, 1, "C6", "500000", "1")
    )
    poll, deep = read_cpuidle(before, after, 2.0)
    assert (poll.name, poll.share, poll.entries) == ("POLL", 10 / 4e6, 1)
    assert (deep.name, deep.share, deep.entries) == ("C6", 0.5, 5)


@pytest.mark.parametrize(
    "time, usage, why",
    [
        ("9", "5", "only rises"),
        ("", "5", "a count"),
        ("1e6", "5", "a count"),
        ("-1", "5", "a count"),
        ("99", "", "a count"),
    ],
)
def test_counters_that_are_none_are_refused(time: str, usage: str, why: str) -> None:
    with pytest.raises(UnreadableOutput, match=why):
        read_cpuidle(look((0, 0, "C1", "10", "1")), look((0, 0, "C1", time, usage)), 1.0)


def test_a_cpu_that_came_later_is_refused() -> None:
    with pytest.raises(UnreadableOutput, match="'nothing' is not a count"):
        read_cpuidle({}, look((1, 0, "C1", "10", "1")), 1.0)


TEXTS = st.text(max_size=30) | st.integers(-5, 2**70).map(str)
PATHS = st.builds(PLACE.format, st.integers(0, 2), st.integers(0, 2), st.sampled_from(["name", "time", "usage", "x"]))
LOOKS = st.dictionaries(PATHS | st.text(max_size=20), TEXTS, max_size=30)


@given(before=LOOKS, after=LOOKS)
def test_any_counters_are_states_or_an_error(before: dict[str, str], after: dict[str, str]) -> None:
    try:
        states = read_cpuidle(before, after, 1.0)
    except UnreadableOutput:
        return
    assert states
    assert all(math.isfinite(state.share) and state.share >= 0 and state.entries >= 0 for state in states)


@given(data=st.binary(max_size=200))
def test_any_bytes_are_counters_or_an_error(data: bytes) -> None:
    with contextlib.suppress(UnreadableOutput):
        assert read_watched(data).seconds > 0


def test_what_was_watched_comes_back() -> None:
    watched = Watched(before={"/a": "1"}, after={"/a": "2"}, seconds=1.5)
    assert read_watched(msgspec.json.encode(watched)) == watched
    for seconds in ("0", "-1", "NaN", "1e99"):
        with pytest.raises(UnreadableOutput):
            read_watched(b'{"before": {}, "after": {}, "seconds": %s}' % seconds.encode())
