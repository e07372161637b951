# SPDX-License-Identifier: Apache-2.0
"""Describe the agent's transactions: results of apply, verify and revert, and the list of transactions."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence

from ktrial.kit.json_bytes import Base64
from ktrial.kit.tables import paragraph, table
from ktrial.machine.transactions import (
    IN_FORCE,
    UNFINISHED,
    Applied,
    AppliedStep,
    Journaled,
    Reverted,
    RevertedStep,
    Status,
    TransactionCheck,
    unfinished,
    unsettled,
)
from ktrial.tuning.lasting.kept_files import is_lasting

_APPLY = {
    "accepted": "in force",
    "absent": "no such file",
    "refused": "the kernel refused",
    "invalid": "the kernel does not take this value",
    "clamped": "the kernel took another value",
    "ignored": "accepted, but nothing changed",
    "vanished": "the device went away meanwhile",
    "not-tried": "not tried, because another step failed",
    "rolled-back": "written and restored, because another step failed",
}
#: Remedies by errno.
_NEXT = {
    errno.EROFS: "the file system is mounted read-only, as in containers: run ktrial on the host",
    errno.EPERM: "kernel lockdown, a missing capability or a container forbids the write; `ktrial doctor` lists what "
    "cannot be tuned here",
    errno.EACCES: "a security module or the file's mode forbids the write; `ktrial doctor` lists what cannot be "
    "tuned here",
    errno.EBUSY: "the setting is in use: stop what uses it first (`ktrial doctor` names other tuners)",
}
_AS_BEFORE = {"restored", "unchanged"}
_LEFT = {"changed-by-others", "left-alone"}
_SAID = {"absent", "refused", "invalid", "vanished", "failed"}
_HANDED = "handed-over"
_REVERT = {
    "restored": "restored",
    "unchanged": "already had its old value",
    _HANDED: "stays until a newer transaction ends",
    "changed-by-others": "changed by somebody else since: left alone",
    "vanished": "the device is gone",
    "gone-with-boot": "gone with the reboot",
    "left-alone": "may not belong to this transaction: left alone",
    "failed": "could not be restored",
}


def apply_text(applied: Applied, names: Sequence[str], *, width: int) -> str:
    """Describe the outcome of an apply; `names[i]` is the knob of step i."""
    steps, is_applied = applied.steps, applied.state == "applied"
    if is_applied and all(step.outcome == "accepted" for step in steps):
        count = len({step.step for step in steps})
        subject = "1 setting is" if count == 1 else f"{count} settings are"
        return f"{subject} in force (transaction {applied.transaction}).\n"
    rows = [
        (_name(step, names), _sentence(step, _APPLY)) for step in steps if step.outcome != "accepted" or not is_applied
    ]
    body = table(("knob", "outcome"), rows, width=width) + _unsteered(steps, names, width) + _next(steps, width)
    if is_applied:
        done = sum(step.outcome in IN_FORCE for step in steps)
        return f"{body}\n\n{done} in force (transaction {applied.transaction}); the rest above.\n"
    if applied.state == UNFINISHED:
        return f"{body}\n\n{paragraph(unfinished(applied), width=width)}\n"
    return f"{body}\n\nNothing was changed: all values were restored.\n"


def _next(steps: Sequence[AppliedStep], width: int) -> str:
    found = {step.errno: _NEXT[step.errno] for step in steps if step.errno in _NEXT}
    return "".join(f"\n\n{paragraph(f'next: {step}', width=width)}" for step in found.values())


def revert_text(transactions: Sequence[Reverted], *, width: int) -> str:
    if not transactions:
        return "Nothing to do.\n"
    parts = []
    for transaction in transactions:
        steps, number = transaction.steps, transaction.transaction
        done = f"{_restored(steps)}." if steps else "the journal contains no known change."
        head = f"Transaction {number}: {done}"
        others = [step for step in steps if step.outcome not in _AS_BEFORE]
        rows = [(_name(step, ()), _sentence(step, _REVERT)) for step in others]
        parts.append(head + ("\n" + table(("knob", "outcome"), rows, width=width) if rows else ""))
        if transaction.state == UNFINISHED:
            parts.append(paragraph(unfinished(transaction), width=width))
        elif has_left_some([transaction]):
            parts.append(f"next: `ktrial revert --only {number} --force` restores what was left alone")
    return "\n".join(parts) + "\n"


def _restored(steps: Sequence[RevertedStep]) -> str:
    restored = sum(step.outcome in _AS_BEFORE for step in steps)
    return f"{restored} of {len(steps)} restored"


def not_applied(applied: Applied) -> str:
    """Say in one line why a plan was not applied."""
    if applied.unfinished is not None:
        return unfinished(applied)
    failed = [step for step in applied.steps if step.outcome not in {"rolled-back", "not-tried", *IN_FORCE}]
    return "; ".join(step.message or f"{step.path}: {_APPLY.get(step.outcome, step.outcome)}" for step in failed)


def held_text(applied: Applied, skipped: Sequence[str]) -> str:
    """Describe in one line what is in force while a command runs."""
    count = sum(step.outcome in IN_FORCE for step in applied.steps)
    text = f"{count} {'setting is' if count == 1 else 'settings are'} in force until the command ends"
    return f"{text}; skipped: {', '.join(skipped)}" if skipped else text


def released_text(reverted: Reverted, *, width: int) -> str:
    """Describe how a command's settings were restored: one line, and a table of settings that were not restored."""
    steps = reverted.steps
    stays = sum(step.outcome == _HANDED for step in steps)
    more = f"; {stays} {'stays' if stays == 1 else 'stay'} until another command or transaction ends" if stays else ""
    head = f"the command ended; {_restored(steps)}{more}"
    rows = [(_name(step, ()), _sentence(step, _REVERT)) for step in steps if step.outcome not in {*_AS_BEFORE, _HANDED}]
    table_of_rows = "\n" + table(("knob", "outcome"), rows, width=width) if rows else ""
    why = f"\n{paragraph(unfinished(reverted), width=width)}" if reverted.state == UNFINISHED else ""
    return head + table_of_rows + why


def verify_text(transactions: Sequence[TransactionCheck], *, width: int) -> str:
    if not transactions:
        return "Nothing is applied.\n"
    rows = []
    total = 0
    for transaction in transactions:
        total += len(transaction.steps)
        rows += [
            (step.path, step.outcome, _value(step.wanted), _value(step.now))
            for step in transaction.steps
            if step.outcome != "in-force"
        ]
    if not rows:
        return "The one setting is in force.\n" if total == 1 else f"All {total} settings are in force.\n"
    body = table(("path", "state", "wanted", "now"), rows, width=width)
    return f"{body}\n\n{total - len(rows)} of {total} settings are in force.\n"


def status_text(status: Status, *, width: int) -> str:
    parts = []
    live = [one for one in status.transactions if one.state in {"applied", UNFINISHED}]
    if live:
        rows = [
            (str(one.transaction), one.title or "(lost)", _state(one), _lease(one), str(len(one.steps)))
            for one in reversed(live)
        ]
        parts.append(table(("no.", "what", "state", "lease", "steps"), rows, width=width))
    else:
        parts.append("Nothing is applied.")
    over = len(status.transactions) - len(live)
    if over:
        parts.append(f"{over} earlier {'transaction' if over == 1 else 'transactions'} reverted or gone with a reboot.")
    parts += [paragraph(sentence, width=width) for sentence in unsettled(status)]
    return "\n\n".join(parts) + "\n"


def _state(transaction: Journaled) -> str:
    """Return the state; a transaction that makes settings last is `kept`, not only `applied`."""
    return "kept" if transaction.state == "applied" and is_lasting(transaction) else transaction.state


def _lease(transaction: Journaled) -> str:
    if is_lasting(transaction) and transaction.lease.kind == "keep":
        return "until `ktrial keep --undo`"
    kind, left_ms = transaction.lease.kind, transaction.left_ms
    if kind == "until-confirmed" and left_ms is not None:
        return f"reverts in {left_ms // 1000} s"
    names = {"keep": "until reverted or reboot", "while-session": "while its session lasts"}
    return names.get(kind, kind)


def has_left_some(transactions: Sequence[Reverted]) -> bool:
    """Return whether a revert left a value alone, for example because another program changed it."""
    return any(step.outcome in _LEFT for one in transactions for step in one.steps)


def _name(step: AppliedStep | RevertedStep, names: Sequence[str]) -> str:
    return names[step.step] if step.step < len(names) else step.path


def _unsteered(steps: Sequence[AppliedStep], names: Sequence[str], width: int) -> str:
    outcomes = [step.outcome for step in steps if _name(step, names).startswith("irq:smp_affinity")]
    stayed = sum(outcome in {"ignored", "refused"} for outcome in outcomes)
    if not stayed:
        return ""
    said = f"{stayed} of {len(outcomes)} interrupts still run elsewhere: "
    said += "the kernel or their controller manages them."
    return "\n\n" + paragraph(said, width=width)


def _sentence(step: AppliedStep | RevertedStep, words: Mapping[str, str]) -> str:
    """Describe an outcome, with the system's message and the current value if there are any."""
    said = step.message.removeprefix(f"{step.path}: ")
    if step.outcome == "clamped" and said:
        return said
    is_text = isinstance(step.now, str) and "\n" in step.now.strip()
    now = f"now {_value(step.now)}" if step.now is not None and not is_text else ""
    more = "; ".join(detail for detail in (said if step.outcome in _SAID else "", now) if detail)
    return words.get(step.outcome, step.outcome) + (f" ({more})" if more else "")


def _value(value: str | Base64 | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, Base64):
        return f"{len(value.base64)} bytes of base64"
    return " ".join(value.split())
