# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from ktrial.judge.model.verdict import Effect
from ktrial.studies.ledger.model import link_entries
from ktrial.studies.ledger.text import ledger_markdown, ledger_text, measured_lines
from tests.studies.unit.test_model_ledger import NOW, entry

#: Of a time: a score that is better by 0.1 is exp(-0.1) = 0.9048 of the time.
EFFECT = Effect(estimate=0.1, low=0.05, high=0.15, method="by hand")


def test_changes_are_of_the_value_and_not_of_the_score() -> None:
    text = ledger_text([entry(effect=EFFECT, direction="lower")], NOW, width=140)
    assert "-9.5 %" in text
    assert "-14 % to -4.9 %" in text
    assert "+11 %" in ledger_text([entry(effect=EFFECT, direction="higher")], NOW, width=140)


def test_markdown_cannot_be_broken_by_what_was_tried() -> None:
    text = ledger_markdown([entry(changes={"a|b": "<x>\n"})], NOW)
    (row,) = [line for line in text.splitlines() if "1970" in line]
    assert row.replace("\\|", "").count("|") == 9
    assert "<x>" not in row


def test_both_the_earlier_and_the_later_trial_are_seen() -> None:
    entries = link_entries([entry("a"), entry("b", verdict="worse", kernel="6.1")])
    lines = "\n".join(measured_lines(entries, NOW, width=100))
    assert "Refuted by b." in lines
    told = "Measured under other conditions: the kernel was 6.1, now it is 6.12. Repeat: `ktrial retest b`"
    assert told in " ".join(lines.split())
    rows = ledger_text(entries, NOW, width=160)
    assert "better (refuted)" in rows
    assert "worse (outdated)" in rows


def test_many_are_cut_and_none_is_nothing() -> None:
    assert measured_lines([], NOW, width=80) == []
    assert "and 4 more: `ktrial ledger`" in "\n".join(measured_lines([entry()] * 10, NOW, width=80))
    assert "No trials on this machine yet" in ledger_text([], NOW, width=80)


def test_a_narrow_terminal_has_lines_that_can_be_read() -> None:
    text = ledger_text([entry(effect=EFFECT, direction="lower"), entry(verdict=None, blocks=0)], NOW, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "-9.5 % (-14 % to -4.9 %); " in text
    assert "queued: vm.swappiness=10\n" in text
    assert "no estimate" in text
