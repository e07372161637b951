# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec

from ktrial.reports.ladder import full_picture, tiers_text
from tests.reports.unit.test_tiers import ladder
from tests.support.comparisons import four_arms


def test_only_what_is_equivalent_is_called_noise() -> None:
    made = ladder()
    (outcome,) = made.outcomes
    first, second, third = outcome.contrasts
    contrasts = (
        msgspec.structs.replace(first, verdict="equivalent"),
        msgspec.structs.replace(second, verdict="inconclusive"),
        msgspec.structs.replace(third, verdict="not comparable", effect=None),
    )
    judged = msgspec.structs.replace(outcome, role="primary", contrasts=contrasts)
    text = full_picture(msgspec.structs.replace(made, outcomes=(judged,)), width=120)
    cells = text.splitlines()[2]
    assert (cells.count("noise"), cells.count("inconclusive"), cells.count("not comparable")) == (1, 1, 1)
    explored = msgspec.structs.replace(judged, role="exploratory", outcome="p99")
    assert full_picture(msgspec.structs.replace(made, outcomes=(judged, explored)), width=120).count("noise") == 1
    assert full_picture(msgspec.structs.replace(made, outcomes=(explored,)), width=120) == ""


def test_what_is_no_ladder_has_no_such_table() -> None:
    assert full_picture(four_arms(6), width=100) == ""


def test_tiers_that_are_not_run_are_listed() -> None:
    assert tiers_text({"T3": "needs a build: x"}, {"T1": "b: y"}, width=80) == (
        "  T3        not run: needs a build: x\n  T1        run without: b: y\n"
    )
