# SPDX-License-Identifier: Apache-2.0
"""Markdown: what is foreign stays text, tables keep their columns."""

from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from ktrial.kit.tables import clean
from ktrial.reports.markdown import code_block, escape, markdown, step_summary
from tests.support.comparisons import four_arms, hostile, two_arms
from tests.support.told_trials import a_trial, hostile_trial


@given(st.text("ab<>&|`*_[]()#@$:/.~\\!\n\t-+= 1w" + "\x1b"))
def test_escaped_text_reads_as_what_it_was(text: str) -> None:
    made = escape(text)
    back = re.sub(r"\\([\\`*_\[\]|~.)\-+=])", r"\1", made)
    assert html.unescape(back) == clean(text).strip()
    assert not re.search(r"[<>\n\x1b@$]", made)
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]|~]", re.sub(r"\\\\", "", made).replace("\\", "\\")) or "\\" in made


def test_single_marks() -> None:
    assert escape("a|b") == r"a\|b"
    assert escape("*x* _y_ `z` ~w~") == r"\*x\* \_y\_ \`z\` \~w\~"
    assert escape("[x](http://e.org)") == r"\[x\](http&#58;//e.org)"
    assert escape("<b>&amp;") == "&lt;b&gt;&amp;amp;"
    assert escape("@team #1 www.e.org") == "&#64;team &#35;1 www&#46;e.org"
    assert escape("- item") == r"\- item"
    assert escape("1. item") == r"1\. item"
    assert escape("12 % less, 3.5 ms") == "12 % less, 3.5 ms"


def cells(line: str) -> int:
    return len(re.sub(r"\\.", "", line).strip("|").split("|"))


def test_tables_keep_their_columns_whatever_is_in_them() -> None:
    for made in (two_arms(4), four_arms(4), hostile(), a_trial().told(), hostile_trial()):
        for text in (markdown(made), step_summary(made)):
            for block in text.split("\n\n"):
                lines = block.strip().split("\n")
                if lines[0].startswith("|"):
                    assert len({cells(line) for line in lines}) == 1, block


def test_hostile_text_makes_no_markup() -> None:
    hostiles = (hostile(), hostile_trial())
    for text in [each for made in hostiles for each in (markdown(made), step_summary(made))]:
        outside = re.sub(r"^(`{3,})(?:sh|toml)\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert "<" not in outside
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert not re.search(r"(?<!\\)\]\(", outside)


def test_a_fence_is_longer_than_what_it_holds() -> None:
    assert code_block(["echo ````"]).splitlines() == ["`````sh", "echo ````", "`````"]


def test_what_it_tells() -> None:
    text = markdown(two_arms(20), {"": [("Effects", "charts/forest.svg")]})
    assert text.startswith("# vm.watermark\\_scale\\_factor 500 against stock\n\n**On this boot")
    assert "![Effects](charts/forest.svg)" in text
    assert "| vm.min\\_free\\_kbytes | wsf500 | 67584 | 90112 | **nobody** |" in text
    nobody = text.index("**nobody**")
    assert nobody < text.index("| protocol |"), "undeclared differences are on top"
    assert "a backup ran at that time" in text
    assert "```sh\nktrial bench" in text
    assert re.search(r"\| latency\.p99 \| secondary \| wsf500 \| ▼ worse \| \+\d+ % \|", text)


def test_a_dash_alone_in_a_cell_is_not_escaped() -> None:
    text = step_summary(a_trial().told())
    assert "| - | - |" in text
    assert r"| \- |" not in text
