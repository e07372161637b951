# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from ktrial.report.transaction import apply_text, revert_text, status_text


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
    text = status_text({"transactions": [], "damaged": damaged}, width=80, now_unix_ms=0)
    assert "damaged: /s/000007.journal: line 1: no checksum; and 13 more" in " ".join(text.split())
    assert revert_text([{"transaction": 7, "steps": []}], width=80) == (
        "Transaction 7: its journal holds no change; nothing was put back.\n"
    )
