# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
import pytest

from ktrial.machine.transactions import (
    Applied,
    AppliedStep,
    Complaint,
    Journaled,
    Lease,
    Reverted,
    RevertedStep,
    Status,
)
from ktrial.tuning.plans.transaction_text import (
    apply_text,
    held_text,
    not_applied,
    released_text,
    revert_text,
    status_text,
)

KEPT = Journaled(
    transaction=7, title="", state="applied", lease=Lease("keep"), began_unix_ms=0, this_boot=True, steps=()
)


def said(*outcomes: str) -> str:
    steps = [
        AppliedStep(step=number, path=f"/proc/irq/{number}", outcome=outcome, now=None, message="")
        for number, outcome in enumerate(outcomes)
    ]
    names = [f"irq:smp_affinity@irq{n}" for n in range(len(outcomes))]
    return apply_text(Applied(transaction=1, state="applied", steps=tuple(steps)), names, width=80)


def test_interrupts_that_stayed_are_counted_within_the_width() -> None:
    text = said("accepted", "ignored", "refused", "invalid")
    assert "2 of 4 interrupts still run elsewhere" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("outcome", ["invalid", "accepted"])
def test_a_wrong_mask_is_not_blamed_on_the_kernel(outcome: str) -> None:
    assert "still run elsewhere" not in said(outcome)


def test_a_journal_of_garbage_is_named_once_and_no_success_is_claimed() -> None:
    damaged = tuple(Complaint("/s/000007.journal", f"line {number}: no checksum") for number in range(1, 15))
    text = status_text(Status(damaged=damaged), width=80)
    assert "damaged: /s/000007.journal: line 1: no checksum; and 13 more" in " ".join(text.split())
    assert revert_text([Reverted(transaction=7, state="reverted", steps=())], width=80) == (
        "Transaction 7: the journal contains no known change.\n"
    )


def test_an_unfinished_transaction_is_named_with_what_to_do() -> None:
    why = "nothing proves that it wrote /p. revert --only 7 leaves what is there now"
    reverted = RevertedStep(step=0, path="/p", outcome="left-alone", now="1", message="")
    applied = AppliedStep(step=0, path="/p", outcome="left-alone", now="1", message="")
    journaled = msgspec.structs.replace(KEPT, state="unfinished", unfinished=why)
    skipped = (Complaint("/s/7.journal", "no journal has such a name"),)
    for text in (
        revert_text([Reverted(transaction=7, state="unfinished", unfinished=why, steps=(reverted,))], width=80),
        status_text(Status(transactions=(journaled,)), width=80),
        apply_text(Applied(transaction=7, state="unfinished", unfinished=why, steps=(applied,)), ["p"], width=80),
    ):
        assert f"transaction 7 is unfinished: {why}" in " ".join(text.split())
        assert "all values were restored" not in text
    assert "skipped: /s/7.journal: no journal has such a name" in " ".join(
        status_text(Status(skipped=skipped), width=80).split()
    )


def test_a_step_that_was_put_back_shows_what_is_there_now() -> None:
    step = AppliedStep(step=0, path="/p", outcome="rolled-back", now="25\n", message="was written and put back")
    text = apply_text(Applied(transaction=7, state="rolled-back", steps=(step,)), ["p"], width=100)
    assert "(now 25)" in text


def test_a_lease_ends_by_the_agents_own_clock() -> None:
    lease = Lease("until-confirmed", seconds=600)
    leased = msgspec.structs.replace(KEPT, lease=lease, left_ms=61_500, deadline_unix_ms=0)
    assert "reverts in 61 s" in status_text(Status(transactions=(leased,)), width=100)


def _applied(*outcomes: str, **more: str) -> Applied:
    steps = [AppliedStep(step=n, path=f"/p{n}", outcome=one, now=None, message="") for n, one in enumerate(outcomes)]
    return Applied(transaction=1, state="applied", steps=tuple(steps), **more)


def _reverted(*outcomes: str) -> Reverted:
    steps = [RevertedStep(step=n, path=f"/p{n}", outcome=one, now="9", message="") for n, one in enumerate(outcomes)]
    return Reverted(transaction=1, state="reverted", steps=tuple(steps))


def test_what_a_command_has_and_leaves_is_one_line_each() -> None:
    assert held_text(_applied("accepted"), ()) == "1 setting is in force until the command ends"
    assert held_text(_applied("accepted", "clamped"), ("a", "b")) == (
        "2 settings are in force until the command ends; skipped: a, b"
    )
    assert released_text(_reverted("restored", "unchanged"), width=80) == "the command ended; 2 of 2 restored"
    assert released_text(_reverted("restored", "handed-over"), width=80) == (
        "the command ended; 1 of 2 restored; 1 stays until another command or transaction ends"
    )
    left = released_text(_reverted("handed-over", "handed-over", "changed-by-others"), width=80)
    assert left.startswith("the command ended; 0 of 3 restored; 2 stay until another command or transaction ends\n")
    assert "/p2" in left
    assert "/p1" not in left


def test_why_nothing_was_applied_is_one_line() -> None:
    assert not_applied(_applied("rolled-back", "refused", "not-tried")) == "/p1: the kernel refused"
    assert not_applied(_applied("failed", unfinished="run recover")) == "transaction 1 is unfinished: run recover"


def test_what_a_newer_transaction_restores_is_no_failure() -> None:
    text = revert_text([_reverted("handed-over")], width=80)
    assert text.startswith("Transaction 1: 0 of 1 restored.\n")
    assert "stays until a newer transaction ends (now 9)" in text
    assert "--force" not in text
