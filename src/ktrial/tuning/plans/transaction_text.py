# SPDX-License-Identifier: Apache-2.0
"""What the agent did, in words: outcomes of an apply, a verify, a revert; the list of transactions."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Any

from ktrial.kit.tables import paragraph, table
from ktrial.tuning.plans.unsettled import UNFINISHED, unfinished, unsettled

_APPLY = {
    "accepted": "in force",
    "absent": "no such file",
    "refused": "the kernel refused",
    "invalid": "the kernel does not take this value",
    "clamped": "the kernel took another value",
    "ignored": "accepted, but nothing changed",
    "vanished": "the device went away meanwhile",
    "not-tried": "not tried, because another step failed",
    "rolled-back": "written and put back, because another step failed",
}
#: The next step after a refusal, by the system's number.
_NEXT = {
    errno.EROFS: "what lies there is mounted read-only, as containers have it: run ktrial on the host itself",
    errno.EPERM: "a locked down kernel, a missing capability or a container forbids it; `ktrial doctor` says what "
    "cannot be tuned here",
    errno.EACCES: "a security module or the file's rights forbid it; `ktrial doctor` says what cannot be tuned here",
    errno.EBUSY: "something uses it now: stop that first (`ktrial doctor` names other tuners)",
}
_LEFT = {"changed-by-others", "left-alone"}
_SAID = {"absent", "refused", "invalid", "vanished", "failed"}
_REVERT = {
    "restored": "put back",
    "unchanged": "was already as before",
    "changed-by-others": "changed by somebody else since: left alone",
    "vanished": "the device is gone",
    "gone-with-boot": "gone with the reboot",
    "left-alone": "not proven to be of this transaction: left alone",
    "failed": "could not be put back",
}


def apply_text(answer: Mapping[str, Any], names: Sequence[str], *, width: int) -> str:
    """Outcome of an apply; names[i] is the knob of step i."""
    steps = answer["steps"]
    if answer["state"] == "applied" and all(step["outcome"] == "accepted" for step in steps):
        count = len({step["step"] for step in steps})
        subject = "1 setting is" if count == 1 else f"{count} settings are"
        return f"{subject} in force (transaction {answer['transaction']}).\n"
    rows = [
        (_name(step, names), _sentence(step, _APPLY))
        for step in steps
        if step["outcome"] != "accepted" or answer["state"] != "applied"
    ]
    body = table(("knob", "outcome"), rows, width=width) + _unsteered(steps, names, width) + _next(steps, width)
    if answer["state"] == "applied":
        done = sum(step["outcome"] in {"accepted", "clamped"} for step in steps)
        return f"{body}\n\n{done} in force (transaction {answer['transaction']}); the rest above.\n"
    if answer["state"] == UNFINISHED:
        return f"{body}\n\n{paragraph(unfinished(answer), width=width)}\n"
    return f"{body}\n\nNothing was changed: all was put back.\n"


def _next(steps: Sequence[Mapping[str, Any]], width: int) -> str:
    found = {number: _NEXT[number] for step in steps if (number := step.get("errno")) in _NEXT}
    return "".join(f"\n\n{paragraph(f'next: {step}', width=width)}" for step in found.values())


def revert_text(transactions: Sequence[Mapping[str, Any]], *, width: int) -> str:
    """Outcome of a revert or a recover."""
    if not transactions:
        return "Nothing to do.\n"
    parts = []
    for transaction in transactions:
        steps = transaction["steps"]
        restored = sum(step["outcome"] in {"restored", "unchanged"} for step in steps)
        done = f"{restored} of {len(steps)} as before." if steps else "its journal holds no change that is known."
        head = f"Transaction {transaction['transaction']}: {done}"
        others = [step for step in steps if step["outcome"] not in {"restored", "unchanged"}]
        rows = [(_name(step, ()), _sentence(step, _REVERT)) for step in others]
        parts.append(head + ("\n" + table(("knob", "outcome"), rows, width=width) if rows else ""))
        if transaction.get("state") == UNFINISHED:
            parts.append(paragraph(unfinished(transaction), width=width))
        elif has_left_some([transaction]):
            parts.append(
                f"next: `ktrial revert --only {transaction['transaction']} --force` puts back what was left alone"
            )
    return "\n".join(parts) + "\n"


def verify_text(transactions: Sequence[Mapping[str, Any]], *, width: int) -> str:
    """Whether what was applied still holds."""
    if not transactions:
        return "Nothing is applied.\n"
    rows = []
    total = 0
    for transaction in transactions:
        total += len(transaction["steps"])
        rows += [
            (_name(step, ()), step["outcome"], _value(step.get("wanted")), _value(step.get("now")))
            for step in transaction["steps"]
            if step["outcome"] != "in-force"
        ]
    if not rows:
        return "The one setting is in force.\n" if total == 1 else f"All {total} settings are in force.\n"
    body = table(("path", "state", "wanted", "now"), rows, width=width)
    return f"{body}\n\n{total - len(rows)} of {total} settings are in force.\n"


def status_text(answer: Mapping[str, Any], *, width: int) -> str:
    """Transactions on this machine, newest first."""
    parts = []
    live = [item for item in answer["transactions"] if item["state"] in {"applied", UNFINISHED}]
    if live:
        rows = [
            (
                str(item["transaction"]),
                item["title"] or "(lost)",
                item["state"],
                _lease(item),
                str(len(item["steps"])),
            )
            for item in reversed(live)
        ]
        parts.append(table(("no.", "what", "state", "lease", "steps"), rows, width=width))
    else:
        parts.append("Nothing is applied.")
    over = len(answer["transactions"]) - len(live)
    if over:
        parts.append(f"{over} earlier {'transaction' if over == 1 else 'transactions'} reverted or gone with a reboot.")
    parts += [paragraph(sentence, width=width) for sentence in unsettled(answer)]
    return "\n\n".join(parts) + "\n"


def _lease(item: Mapping[str, Any]) -> str:
    kind = item["lease"]["kind"]
    left_ms = item.get("left_ms")
    if kind == "until-confirmed" and isinstance(left_ms, int):
        return f"reverts in {left_ms // 1000} s"
    names = {"keep": "until reverted or reboot", "while-session": "while its session lasts"}
    return names.get(kind, str(kind))


def is_open(transactions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a revert or a recover left something undone."""
    failed = any(step["outcome"] == "failed" for item in transactions for step in item["steps"])
    return failed or any(item.get("state") == UNFINISHED for item in transactions)


def has_left_some(transactions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a revert left alone what others changed."""
    return any(step["outcome"] in _LEFT for item in transactions for step in item["steps"])


def _name(step: Mapping[str, Any], names: Sequence[str]) -> str:
    number = step.get("step")
    if isinstance(number, int) and number < len(names):
        return names[number]
    return str(step.get("knob") or step.get("path") or f"step {number}")


def _unsteered(steps: Sequence[Mapping[str, Any]], names: Sequence[str], width: int) -> str:
    """How many interrupts stayed where they were."""
    outcomes = [step["outcome"] for step in steps if _name(step, names).startswith("irq:smp_affinity")]
    stayed = sum(outcome in {"ignored", "refused"} for outcome in outcomes)
    if not stayed:
        return ""
    said = f"{stayed} of {len(outcomes)} interrupts still run elsewhere: "
    said += "the kernel manages them, or their controller does."
    return "\n\n" + paragraph(said, width=width)


def _sentence(step: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """An outcome in words, with what the system said and the value found where there are such."""
    outcome = str(step["outcome"])
    said = str(step.get("message") or "").removeprefix(f"{step.get('path')}: ")
    if outcome == "clamped" and said:
        return said
    value = step.get("now", step.get("value"))
    details = [said if outcome in _SAID else "", f"now {_value(value)}" if value is not None else ""]
    more = "; ".join(detail for detail in details if detail)
    return words.get(outcome, outcome) + (f" ({more})" if more else "")


def _value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return f"{len(str(value.get('base64', '')))} bytes of base64"
    return " ".join(str(value).split())
