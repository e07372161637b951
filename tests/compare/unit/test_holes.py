# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktrial.compare.missing import HoleRow, hole_rows, holes_sentence
from ktrial.judge.model.comparison import Comparison
from ktrial.reports.html import html_page
from ktrial.reports.markdown import markdown
from ktrial.reports.terminal import comparison_text
from tests.support.comparisons import two_arms

NOT_HERE = "schbench is not installed"


def without(arm: str, missing: Mapping[str, Mapping[str, str]]) -> Comparison:
    """Two arms of which one lacks the first outcome; `missing` holds what each arm lacks, and why."""
    made = two_arms(6)
    first = made.outcomes[0]
    first = msgspec.structs.replace(first, arms=tuple(one for one in first.arms if one.arm != arm), contrasts=())
    arms = tuple(msgspec.structs.replace(one, missing=missing.get(one.arm, {})) for one in made.arms)
    return msgspec.structs.replace(made, arms=arms, outcomes=(first, *made.outcomes[1:]))


def test_what_all_arms_have_is_no_hole() -> None:
    assert hole_rows(two_arms(6)) == ()


def test_an_outcome_that_one_arm_lacks_keeps_its_row() -> None:
    control, arm = (one.arm for one in two_arms(6).arms)
    name = two_arms(6).outcomes[0].name
    (row,) = hole_rows(without(arm, {}))
    assert (row.name, row.arm, row.n_arm, row.n_control, row.why) == (name, arm, 0, 6, f"not measured in {arm}")
    (row,) = hole_rows(without(control, {}))
    assert (row.arm, row.n_arm, row.n_control, row.why) == (arm, 6, 0, f"not measured in {control}")


def test_a_benchmark_that_no_arm_has_a_value_of_is_a_row_with_the_reasons() -> None:
    control, arm = (one.arm for one in two_arms(6).arms)
    rows = hole_rows(without(arm, {control: {"schbench": NOT_HERE}, arm: {"schbench": NOT_HERE}}))
    assert rows[-1].name == "schbench"
    assert rows[-1].why == f"not measured in {control} and {arm} ({NOT_HERE})"
    rows = hole_rows(without(arm, {control: {"schbench": NOT_HERE}, arm: {"schbench": "failed: runs 2/2"}}))
    assert rows[-1].why == f"not measured in {control} ({NOT_HERE}); {arm} (failed: runs 2/2)"


def test_every_format_shows_it() -> None:
    control, arm = (one.arm for one in two_arms(6).arms)
    made = without(arm, {control: {"schbench": NOT_HERE}, arm: {"schbench": NOT_HERE}})
    for text in (comparison_text(made, width=200), markdown(made), html_page(made)):
        assert f"not measured in {arm}" in text
        assert f"not measured in {control} and {arm} ({NOT_HERE})" in text
        assert "not comparable" in text


def test_a_comparison_without_arms_has_none() -> None:
    assert hole_rows(msgspec.structs.replace(two_arms(6), arms=(), outcomes=())) == ()


def test_the_answer_counts_holes() -> None:
    control, arm = (one.arm for one in two_arms(6).arms)
    assert not holes_sentence(hole_rows(two_arms(6)))
    made = without(arm, {control: {"schbench": NOT_HERE}})
    name = made.outcomes[0].name
    assert holes_sentence(hole_rows(made)) == (
        f" Measured on one side only: 1 outcome ({name}); requested and measured nowhere: 1 benchmark (schbench)."
    )
    many = [HoleRow("fio", f"p{number}", arm, 0, 6, "why") for number in range(4)]
    assert holes_sentence(many) == " Measured on one side only: 4 outcomes."
