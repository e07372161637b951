# SPDX-License-Identifier: Apache-2.0
"""Stutters among frames that come piece by piece."""

from __future__ import annotations

from itertools import accumulate

import pytest

from ktrial.judge.model.stutter import NEIGHBOURS, usual
from ktrial.recordings.frames.statistics import is_stutter
from ktrial.watch.record.watch_moment import LateFrames

DURATIONS_S = [0.016] * 40 + [0.2] + [0.016] * 30 + [0.05, 0.2] + [0.016] * 60


@pytest.mark.parametrize("piece", [1, 7, 300])
def test_pieces_give_the_stutters_of_the_whole(piece: int) -> None:
    ends_s = list(accumulate(DURATIONS_S))
    late = LateFrames()
    found = []
    for start in range(0, len(ends_s), piece):
        found += late.feed(ends_s[start : start + piece], DURATIONS_S[start : start + piece])
    around_s = usual(DURATIONS_S)
    wanted = [
        (ends_s[place] - DURATIONS_S[place], ends_s[place])
        for place in range(len(ends_s) - NEIGHBOURS)
        if is_stutter(DURATIONS_S[place], around_s[place])
    ]
    assert len(wanted) == 3
    assert found == pytest.approx(wanted)
    assert (late.count, late.frames) == (3, len(ends_s))


def test_what_has_no_frames_after_it_yet_is_not_judged() -> None:
    late = LateFrames()
    assert late.feed([1.0, 2.0], [0.016, 0.9]) == []
    assert late.count == 0
