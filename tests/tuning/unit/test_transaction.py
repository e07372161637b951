# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from ktrial.tuning.plans.transaction_text import apply_text, revert_text, status_text


def answer(*outcomes: str) -> dict[str, Any]:
    steps = [{"step": number, "path": f"/proc/irq/{number}", "outcome": said} for number, said in enumerate(outcomes)]
    return {"transaction": 1, "state": "applied", "steps": steps}


def said(*outcomes: str) -> str:
    return apply_text(answer(*outcomes), [f"irq:smp_affinity@irq{n}" for n in range(len(outcomes))], width=80)


def test_interrupts_that_stayed_are_counted_within_the_width() -> None:
    text = said("accepted", "ignored", "refused", "invalid")
    assert "2 of 4 interrupts still run elsewhere" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("outcome", ["invalid", "accepted"])
def test_a_wrong_mask_is_not_blamed_on_the_kernel(outcome: str) -> None:
    assert "still run elsewhere" not in said(outcome)


def test_a_journal_of_garbage_is_named_once_and_no_success_is_claimed() -> None:
    damaged = [{"file": "/s/000007.journal", "message": f"line {number}: no checksum"} for number in range(1, 15)]
    text = status_text({"transactions": [], "damaged": damaged}, width=80)
    assert "damaged: /s/000007.journal: line 1: no checksum; and 13 more" in " ".join(text.split())
    assert revert_text([{"transaction": 7, "state": "reverted", "steps": []}], width=80) == (
        "Transaction 7: its journal holds no change that is known.\n"
    )


def test_an_unfinished_transaction_is_named_with_what_to_do() -> None:
    steps = [{"step": 0, "path": "/p", "outcome": "left-alone", "now": "1", "message": ""}]
    why = "nothing proves that it wrote /p. revert --only 7 leaves what is there now"
    item = {"transaction": 7, "state": "unfinished", "unfinished": why, "steps": steps, "title": "", "lease": {}}
    item["lease"] = {"kind": "keep"}
    skipped = [{"file": "/s/7.journal", "message": "no journal has such a name"}]
    for text in (
        revert_text([item], width=80),
        status_text({"transactions": [item], "damaged": [], "skipped": skipped}, width=80),
        apply_text(item, ["p"], width=80),
    ):
        assert f"transaction 7 is unfinished: {why}" in " ".join(text.split())
        assert "all was put back" not in text
    assert "skipped: /s/7.journal: no journal has such a name" in " ".join(
        status_text({"transactions": [], "skipped": skipped}, width=80).split()
    )


def test_a_step_that_was_put_back_shows_what_is_there_now() -> None:
    step = {"step": 0, "path": "/p", "outcome": "rolled-back", "value": "25\n", "message": "was written and put back"}
    text = apply_text({"transaction": 7, "state": "rolled-back", "steps": [step]}, ["p"], width=100)
    assert "(now 25)" in text


def test_a_lease_ends_by_the_agents_own_clock() -> None:
    item = {"transaction": 1, "state": "applied", "steps": [], "title": "t", "left_ms": 61_500, "deadline_unix_ms": 0}
    item["lease"] = {"kind": "until-confirmed", "seconds": 600}
    assert "reverts in 61 s" in status_text({"transactions": [item]}, width=100)
