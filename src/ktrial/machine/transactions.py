# SPDX-License-Identifier: Apache-2.0
"""The agent's replies about transactions, and the list of those that need a decision by the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from ktrial.kit.errors import AgentError, NoSuchTransaction
from ktrial.kit.json_bytes import Base64, read_bytes
from ktrial.machine.ports import Machine

T = TypeVar("T")
State = Literal["applied", "unfinished", "rolled-back", "reverted", "gone-with-boot"]
UNFINISHED = "unfinished"
#: Outcomes of a step that leave its value in force.
IN_FORCE = frozenset(("accepted", "clamped"))


class Checked(msgspec.Struct, frozen=True):
    """The effect that a step of a plan would have."""

    step: int
    path: str
    outcome: str
    now: str | Base64 | None
    message: str


class PlanReply(msgspec.Struct, frozen=True):
    """The effects that a plan would have."""

    steps: tuple[Checked, ...]


class AppliedStep(msgspec.Struct, frozen=True):
    """The result of a step; `now` is the value in effect after the write or the rollback."""

    step: int
    path: str
    outcome: str
    now: str | Base64 | None = msgspec.field(name="value")
    message: str
    errno: int | None = None


class Applied(msgspec.Struct, frozen=True):
    """The result of a plan; `unfinished` says what is missing, and what to do."""

    transaction: int
    state: State
    steps: tuple[AppliedStep, ...]
    unfinished: str | None = None


class RevertedStep(msgspec.Struct, frozen=True):
    """The result of restoring a step."""

    step: int
    path: str
    outcome: str
    now: str | Base64 | None
    message: str


class Reverted(msgspec.Struct, frozen=True):
    """The result of reverting a transaction."""

    transaction: int
    state: State
    steps: tuple[RevertedStep, ...]
    unfinished: str | None = None


class RevertReply(msgspec.Struct, frozen=True):
    """The result of a revert or recovery; `traces` names the removed tracing instances of dead agents."""

    transactions: tuple[Reverted, ...]
    traces: tuple[str, ...] = ()


class StepCheck(msgspec.Struct, frozen=True):
    """The current state of a step."""

    step: int
    path: str
    outcome: str
    wanted: str | Base64 | None
    now: str | Base64 | None


class TransactionCheck(msgspec.Struct, frozen=True):
    """The current state of the steps in a transaction; skipped steps are not included."""

    transaction: int
    steps: tuple[StepCheck, ...]


class VerifyReply(msgspec.Struct, frozen=True):
    """The current state of the steps of one or more transactions."""

    transactions: tuple[TransactionCheck, ...]


class JournaledStep(msgspec.Struct, frozen=True):
    """A step's old and new value in the journal."""

    step: int
    path: str
    old: str | Base64 | None
    new: str | Base64 | None
    knob: str | None = None


class Lease(msgspec.Struct, frozen=True):
    """How long a transaction stays in force."""

    kind: Literal["keep", "until-confirmed", "while-session"]
    seconds: int | None = None


class Journaled(msgspec.Struct, frozen=True):
    """A transaction in the journal; `title` is null if the journal has lost it.

    `left_alone` are paths that a revert did not restore because somebody else had changed them. `sources` is what the
    plan recorded about the origin of its settings. `left_ms` is the time left of its lease.
    """

    transaction: int
    title: str | None
    state: State
    lease: Lease
    began_unix_ms: int | None
    this_boot: bool
    steps: tuple[JournaledStep, ...]
    unfinished: str | None = None
    left_alone: tuple[str, ...] = ()
    left_ms: int | None = None
    deadline_unix_ms: int | None = None
    sources: Mapping[str, Any] | None = None


class Complaint(msgspec.Struct, frozen=True):
    """A journal with a damaged line, or a file that is not a journal."""

    file: str
    message: str


class Status(msgspec.Struct, frozen=True):
    """All journals of a machine, with complaints about `damaged` ones and about `skipped` files."""

    transactions: tuple[Journaled, ...] = ()
    damaged: tuple[Complaint, ...] = ()
    skipped: tuple[Complaint, ...] = ()


def find_transaction(status: Status, number: int) -> Journaled:
    """Return the transaction with this number. Raise NoSuchTransaction if there is none."""
    found = next((one for one in status.transactions if one.transaction == number), None)
    if found is None:
        raise NoSuchTransaction(
            "not-found", f"no such transaction: {number}", hint="run `ktrial status` to list the transactions"
        )
    return found


def decode_reply(do: str, answer: Mapping[str, Any], shape: type[T]) -> T:
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        raise AgentError(
            "lost",
            f"cannot read the agent's reply to {do!r}: {error}",
            hint="run `ktrial recover` to undo what the agent left unfinished",
        ) from None


def status(machine: Machine) -> Status:
    return decode_reply("status", machine.request("status"), Status)


def verify(machine: Machine, transaction: int | None = None) -> tuple[TransactionCheck, ...]:
    only = {} if transaction is None else {"transaction": transaction}
    return decode_reply("verify", machine.request("verify", **only), VerifyReply).transactions


def checked(machine: Machine, plan: Mapping[str, Any]) -> tuple[Checked, ...]:
    """Return the effects of a plan without applying it."""
    return decode_reply("plan", machine.request("plan", plan=plan), PlanReply).steps


def revert(machine: Machine, transaction: int) -> Reverted:
    answer = machine.request("revert", select={"only": transaction})
    (reverted,) = decode_reply("revert", answer, RevertReply).transactions
    return reverted


def recover(machine: Machine) -> RevertReply:
    return decode_reply("recover", machine.request("recover"), RevertReply)


def text_of(value: str | Base64 | None) -> str | None:
    return None if value is None else read_bytes(value).decode(errors="replace").strip()


def unfinished(transaction: Applied | Reverted | Journaled) -> str:
    why = transaction.unfinished or "try again with `ktrial recover`"
    return f"transaction {transaction.transaction} is unfinished: {why}"


def left_alone(transaction: Journaled) -> str:
    number, paths = transaction.transaction, transaction.left_alone
    what = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    return (
        f"transaction {number} was reverted except {what}, which somebody else has changed: "
        f"`ktrial revert --only {number} --force` restores the old value{'s'[: len(paths) > 1]}"
    )


def unsettled(journals: Status) -> Iterator[str]:
    """Yield texts on unfinished transactions, unrestored paths, damaged lines, and files that are not journals."""
    yield from (unfinished(one) for one in journals.transactions if one.state == UNFINISHED)
    yield from (left_alone(one) for one in journals.transactions if one.left_alone)
    damaged: dict[str, list[str]] = {}
    for one in journals.damaged:
        damaged.setdefault(one.file, []).append(one.message)
    for file, messages in damaged.items():
        more = f"; and {len(messages) - 1} more" if len(messages) > 1 else ""
        yield f"damaged: {file}: {messages[0]}{more}"
    yield from (f"skipped: {one.file}: {one.message}" for one in journals.skipped)


def is_open(transactions: Sequence[Reverted]) -> bool:
    failed = any(step.outcome == "failed" for one in transactions for step in one.steps)
    return failed or any(one.state == UNFINISHED for one in transactions)
