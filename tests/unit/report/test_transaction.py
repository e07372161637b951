# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from ktrial.report.transaction import apply_text


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
