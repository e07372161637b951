# SPDX-License-Identifier: Apache-2.0
"""The live view of a watch."""

from __future__ import annotations

import msgspec
import pytest

from ktrial.watch.record.live_view import narrow, sparkline, watch_view
from ktrial.watch.record.watch_moment import LateOne, Track, WatchMoment

HOSTILE = "Main\x1b[2J \u6f22\u5b57\u0301 <b>" * 9
MOMENT = WatchMoment(
    length_s=760.0,
    tracks=(
        Track(name="cpu pressure", unit="share", values=(*[0.0] * 30, 0.5, 1.0, 0.1234)),
        Track(name="reclaim", unit="pages", values=tuple(float(one) * 1e6 for one in range(60))),
        Track(name="slow I/O", unit="requests", values=(2.0, 0.0, None)),
        Track(name="run delay", unit="delay", values=(), why_not="no program is watched"),
    ),
    phase="ramp-up",
    phase_since_s=500.0,
    frames=45_000,
    stutters=12,
    last=tuple(LateOne(at_s=700.0 + one, took_s=0.145, cause="direct reclaim", shown_by=HOSTILE) for one in range(5)),
    available_bytes=8 << 30,
    events=1234,
    lost=0,
    bytes=12 << 20,
    cost=0.0042,
    head_cost=0.003,
)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_none_steers_it(width: int) -> None:
    lines = watch_view(MOMENT, title=HOSTILE, width=width)
    assert max(map(len, lines)) <= min(width, 80)
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "\u6f22" not in text
    assert len(lines) <= 23
    for words in ("phase: ramp-up, for 4 min 20 s", "12 stutters among 45000 wake-ups, 57 an hour", "0.42 %"):
        assert words in text


def test_a_picture_has_a_bar_for_each_second_and_blanks_for_what_is_not_known() -> None:
    cpu, reclaim, slow, _ = MOMENT.tracks
    assert sparkline(cpu, 5) == "▁▁▄█▁"
    assert sparkline(reclaim, 3)[-1] == "█"
    assert sparkline(slow, 6) == "   ▄▁ "
    lines = watch_view(MOMENT, title="x", width=80)
    assert any(line.endswith("12.3 %      100.0 %") for line in lines)
    assert any("no program is watched" in line for line in lines)
    assert any("0 /s         2 /s" in line for line in lines)


def test_shares_are_at_most_all_and_long_delays_are_in_seconds() -> None:
    tracks = (
        Track(name="cpu pressure", unit="share", values=(1.0012,)),
        Track(name="run delay", unit="delay", values=(1.35, 0.579)),
    )
    lines = watch_view(msgspec.structs.replace(MOMENT, tracks=tracks), title="x", width=80)
    assert any(line.startswith("cpu pressure") and line.endswith("100.0 %      100.0 %") for line in lines)
    assert any(line.startswith("run delay") and line.endswith("579 ms/s     1.35 s/s") for line in lines)


def test_nothing_but_noise_is_not_blown_up() -> None:
    quiet = Track(name="cpu", unit="share", values=(0.001, 0.002, 0.0))
    assert sparkline(quiet, 3) == "▁▁▁"


def test_before_anything_came_it_says_so() -> None:
    moment = msgspec.structs.replace(MOMENT, stutters=0, last=(), phase=None, lost=None, available_bytes=None)
    text = "\n".join(watch_view(moment, title="x", width=80))
    assert "phase: still unknown" in text
    assert "0 stutters among 45000 wake-ups" in text
    assert "lost" not in text


def test_what_takes_two_columns_or_none_is_replaced() -> None:
    assert narrow("a\u6f22b\u0301\u200b\x07") == "a\ufffdb\ufffd\ufffd\ufffd"
