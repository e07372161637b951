# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import xml.etree.ElementTree as ET

import msgspec

from ktrial.judge.model.comparison import Comparison
from ktrial.judge.model.verdict import Effect
from ktrial.reports.html import html_page
from ktrial.reports.junit import junit_xml
from ktrial.reports.markdown import markdown, step_summary
from ktrial.reports.sections import protocol_rows, tier_rows
from ktrial.reports.terminal import comparison_text
from tests.support.comparisons import four_arms


def ladder() -> Comparison:
    """Four arms as tiers; the second step takes a tenth of the time away, the last one cannot be compared."""
    made = four_arms(6)
    first = made.outcomes[0]
    tenth = Effect(estimate=0.105360516, low=0.09, high=0.12, method="by hand")  # ln(1 / 0.9)
    one, two, three = first.contrasts
    steps = (
        one,
        msgspec.structs.replace(two, control=one.arm, effect=tenth, verdict="better", why="by hand"),
        msgspec.structs.replace(three, control=two.arm, effect=None, verdict="not comparable", why="no shared blocks"),
    )
    outcome = msgspec.structs.replace(first, direction="lower", steps=steps)
    protocol = {"name": "ladder", "design": {"cap": 20, "empty": {}}, "secondary": ["p99", "p90"], "margin": None}
    return msgspec.structs.replace(made, outcomes=(outcome,), protocol=protocol, protocol_sha256="4a1f0e99")


def test_each_row_holds_the_step_and_the_whole() -> None:
    rows = tier_rows(ladder())
    assert [(row.tier, row.against) for row in rows] == [
        ("swappiness10", "stock"),
        ("mglru", "swappiness10"),
        ("micro-stutter", "mglru"),
    ]
    assert (rows[1].step, rows[1].verdict) == ("-10 %", "better")
    whole = next(one for one in ladder().outcomes[0].contrasts if one.arm == "mglru")
    assert rows[1].total_verdict == whole.verdict
    assert (rows[2].step, rows[2].verdict, rows[2].why) == ("-", "not comparable", "no shared blocks")
    assert tier_rows(four_arms(6)) == []


def test_every_format_shows_tiers_and_protocol() -> None:
    made = ladder()
    for text in (markdown(made), html_page(made), comparison_text(made, width=100)):
        assert "4a1f0e99" in text
        assert "-10 %" in text
        assert "not comparable" in text
    for text in (markdown(made), html_page(made)):
        assert "design.cap" in text
    bare = four_arms(6)
    for text in (markdown(bare), html_page(bare), comparison_text(bare, width=100)):
        assert "tier" not in text.lower()
        assert "Protocol, fixed" not in text


def test_a_protocol_is_told_value_by_value() -> None:
    assert protocol_rows(ladder().protocol) == [
        ("name", "ladder"),
        ("design.cap", "20"),
        ("design.empty", "-"),
        ("secondary", "p99, p90"),
        ("margin", "-"),
    ]


def test_judged_holds_each_contrast_once() -> None:
    outcome = ladder().outcomes[0]
    assert [(one.arm, one.control) for one in outcome.judged] == [
        ("swappiness10", "stock"),
        ("mglru", "stock"),
        ("micro-stutter", "stock"),
        ("mglru", "swappiness10"),
        ("micro-stutter", "mglru"),
    ]


def test_build_servers_see_each_step() -> None:
    cases = ET.fromstring(junit_xml(ladder())).iter("testcase")
    assert [case.get("name") for case in cases][3:] == ["mglru to swappiness10", "micro-stutter to mglru"]
    assert "| mglru | swappiness10 |" in step_summary(ladder())
