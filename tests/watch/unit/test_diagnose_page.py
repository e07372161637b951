# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import cache

import msgspec

from ktrial.judge.model.interval import Interval
from ktrial.reports.charts.drawing import Style
from ktrial.reports.charts.svg import svg_text
from ktrial.watch.diagnosis.latencies_chart import latencies_chart
from ktrial.watch.diagnosis.model import (
    Aggressor,
    Cause,
    DeviceFound,
    Diagnosis,
    EpisodeFound,
    Lane,
    PhaseFound,
    PressureLine,
    Proposal,
    SeriesFigure,
    Worst,
)
from ktrial.watch.diagnosis.page import diagnosis_page
from ktrial.watch.diagnosis.page_script import TIMELINE_SCRIPT
from ktrial.watch.diagnosis.tables import beside_rows
from ktrial.watch.diagnosis.text import diagnoses_text, diagnosis_text
from ktrial.watch.diagnosis.timeline_chart import part_of, timeline_chart

HOSTILE = "<script>alert(1)</script>\x1b[2J"


@cache
def found(name: str = HOSTILE) -> Diagnosis:
    """One named cause, one that goes with it, one that could not be seen."""
    share = Interval(estimate=0.01, low=0.005, high=0.02)
    named = Cause(
        id="direct-reclaim",
        name="direct reclaim",
        what="A thread had to free memory.",
        standing="named",
        overlapping=9,
        by_phase=(4, 5),
        late_share=0.85,
        expected=1.2,
        expected_high=3,
        p=0.0005,
        p_adjusted=0.001,
        active_share=0.1,
        threads={HOSTILE: 9},
        worst=Worst(begin_s=3.0, duration_s=0.2, seen=HOSTILE),
    )
    other = msgspec.structs.replace(named, id="swap-in", name="swap", standing="with-another", threads={})
    return Diagnosis(
        name=name,
        length_s=600,
        frames=1000,
        frame_kind="frame",
        definition="longer than 50 ms",
        stutters=10,
        late_share=share,
        per_hour=Interval(estimate=60.0),
        phases=(
            PhaseFound(name="warm-up", begin_s=0, end_s=100, stutters=4, late_share=share, per_hour=share),
            PhaseFound(name="steady state", begin_s=100, end_s=600, stutters=6, late_share=share, per_hour=share),
        ),
        told_by=("vmstat.pgscan_kswapd",),
        causes=(
            named,
            msgspec.structs.replace(other, with_cause="direct-reclaim"),
            Cause(id="steal", name="steal", what="", standing="unseen"),
        ),
        unexplained=1,
        figures=(
            SeriesFigure(
                name="vmstat.pgscan_kswapd",
                unit="count/s",
                mean=12.5,
                peak=99.0,
                by_phase=(Interval(estimate=31.5), None),
            ),
        ),
        devices=(
            DeviceFound(
                name="nvme0n1",
                requests=633,
                bytes=4096,
                median_s=0.000125,
                p99_s=0.01,
                longest_s=0.012,
                limit_s=0.005,
                above_share=0.052,
                modes=(),
                histogram=((0.000125, 600), (0.01, 33)),
                exits=((4, 0.0095),),
            ),
        ),
        proposals=(
            Proposal(
                cause="direct-reclaim",
                knob="vm.min_free_kbytes",
                value="135168",
                now="67584",
                why="more reserve",
                price="memory",
                evidence=("claimed: 3 GiB helped",),
                try_line=("ktrial", "try", "vm.min_free_kbytes=135168", "--", HOSTILE),
            ),
        ),
        late=((3.0, 0.2), (7.0, 0.1)),
        lanes=(Lane(cause="direct-reclaim", spans=((2.9, 3.1),)),),
        pressures=(PressureLine(name="memory pressure", step_s=100.0, values=(0.0, 0.25, None, 1.0, 0.5, 0.0)),),
        findings=("psi is absent: no /proc/pressure",),
        notes=("the clock of the log",),
        episodes=(EpisodeFound(begin_s=180.0, end_s=183.0, count=4),),
        recurrence_s=300.0,
        recurrence_p=0.01,
        aggressors=(Aggressor(name=HOSTILE, what="memory", before_bytes=4 * 2**30, usual_bytes=1e9),),
    )


def test_the_page_is_whole_and_holds_no_foreign_markup() -> None:
    page = diagnosis_page([(found(), ("vm.page-cluster: 0 is in force already",)), (found("second"), ())])
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<script>") == 1
    assert "alert(1)</script>" not in page
    assert "\x1b" not in page
    assert page.count("<svg") == 8, "a time line of each, worst examples of two causes, and a device's requests"
    assert "no: goes with direct reclaim" in page
    assert "Side by side" in page
    assert "12.5" in page
    assert "Each is a single session" in page
    assert "page-cluster: 0 is in force already" in page


def test_the_page_tells_what_the_text_tells() -> None:
    page = diagnosis_page([(found("flight"), ())])
    told = " ".join(re.sub(r"<[^>]*>", " ", html.unescape(page)).split())
    parts = ["Worst example of direct reclaim", "warm-up", "Could not be seen: steal", "Finding: psi is absent"]
    parts += ["Note: the clock of the log", "4 GiB", "180 s 3 s - 4", "Episodes begin every", "claimed: 3 GiB helped"]
    parts += ["Not named: swap", "direct reclaim 4 5", "vmstat.pgscan_kswapd count/s 12.5 99 31.5 -", "exit of state 4"]
    for part in parts:
        assert part in told, part


def test_the_worst_example_is_drawn_with_the_seconds_around_it() -> None:
    whole = found("flight")
    lane = Lane(cause="direct-reclaim", spans=((2.0, 3.5), (6.0, 400.0), (500.0, 501.0)))
    part = part_of(msgspec.structs.replace(whole, lanes=(lane,)), 250.0, 350.0, "part")
    assert part.name == "part"
    assert [phase.name for phase in part.phases] == ["steady state"]
    begin_s = part.phases[0].begin_s
    assert begin_s == 200.0, "it begins with a step of the pressures"
    assert part.length_s == 150.0
    assert part.late == ()
    assert part.lanes == (Lane(cause="direct-reclaim", spans=((200.0, 350.0),)),)
    assert part.pressures[0].values == (None, 1.0)
    assert part_of(whole, -10.0, 5.0, "begin").late == ((3.0, 0.2),)


def test_the_time_line_is_drawn_by_the_only_script_that_the_page_allows() -> None:
    page = diagnosis_page([(found(), ())])
    digest = base64.b64encode(hashlib.sha256(TIMELINE_SCRIPT.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html.unescape(page)
    assert page.count(TIMELINE_SCRIPT) == 1
    (told,) = re.findall(r'data-timeline="([^"]*)"', page)
    data = json.loads(html.unescape(told))
    assert data["late"] == [[3.0, 0.2], [7.0, 0.1]]
    assert data["lanes"] == [{"name": "direct reclaim", "named": True, "spans": [[2.9, 3.1]]}]
    assert data["pressures"][0]["values"][2] is None
    assert (data["begin"], data["end"]) == (0, 600)


def test_stretches_that_a_picture_cannot_tell_apart_are_one_in_it() -> None:
    spans = tuple((one * 0.25, one * 0.25 + 0.1) for one in range(400))
    many = msgspec.structs.replace(found("flight"), lanes=(Lane(cause="direct-reclaim", spans=spans),))
    bars = svg_text(timeline_chart(many, Style(width=900))).count('stroke-width="10"')
    assert 0 < bars < 5
    assert html.unescape(diagnosis_page([(many, ())])).count("[99.75,99.85]") == 1


def test_the_text_tells_all_and_steers_no_terminal() -> None:
    text = diagnosis_text(found(), width=80)
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    for part in ("9 of 10 stutters", "1 stutter overlaps none", "could not be seen", "goes with direct reclaim"):
        assert part in " ".join(text.split())


def test_several_recordings_stand_beside_one_another_in_the_text_too() -> None:
    other = msgspec.structs.replace(found("tuned"), per_hour=Interval(estimate=6.0))
    text = diagnoses_text([(found("stock"), ()), (other, ())], width=80)
    beside = " ".join(text.partition("side by side")[2].split())
    assert "mean of stock tuned" in beside
    assert "stutters an hour 60 6" in beside
    assert "late time" not in beside, "what does not differ is left out"
    assert "Each is a single session" in beside
    assert "side by side" not in diagnoses_text([(other, ())], width=80)


def test_what_a_device_has_done_stands_beside_what_another_has() -> None:
    quick = msgspec.structs.replace(found("tuned"), devices=())
    _, rows = beside_rows([found("stock"), quick])
    assert ["nvme0n1: above 5 ms", "5.20% of 633", "-"] in rows
    assert ["nvme0n1: 99 %", "10 ms", "-"] in rows


def test_requests_are_drawn_up_to_the_exit_of_a_power_state() -> None:
    (device,) = found().devices
    chart = latencies_chart(device, Style(width=900))
    svg = svg_text(chart)
    assert "slow: 5 ms" in svg
    assert "exit of state 4" in svg
    assert chart.table.rows == (("125 us", "600"), ("10 ms", "33"))


def test_the_time_line_shows_stutters_lanes_and_phases() -> None:
    chart = timeline_chart(found("flight"), Style(width=900))
    svg = svg_text(chart)
    for word in ("direct reclaim", "warm-up", "steady state", "flight", "memory pressure"):
        assert word in svg
    assert chart.table.rows == (
        ("stutters", "2, the longest 200 ms at 3.000 s"),
        ("memory pressure", "35 % on average, 100 % at most"),
        ("direct reclaim", "named as a cause; stretches of activity: 1, 200 ms in all"),
    )
