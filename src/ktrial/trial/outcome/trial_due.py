# SPDX-License-Identifier: Apache-2.0
"""The next visit of a trial whose arms a person sets up, as text."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.kit.tables import labelled
from ktrial.trial.arms.manual import Due

_LABEL = 10


def due_text(due: Due, done: Sequence[str], now: str | None, *, width: int) -> str:
    """Return what was measured, what is due, what to do for it, the state of the machine, and the next command."""
    arm = due.arm if due.arm == due.place else f"{due.arm}, with the machine as {due.place}"
    boot = "boot, as each visit needs its own boot: " if due.new_boot else ""
    if due.new_build:
        boot = "boot another build, as each visit needs its own build: "
    rows = [("done", one) for one in done]
    rows += [
        ("due", f"{arm}: block {due.block}, visit {due.visit} of {due.visits}"),
        ("do", f"{boot}{due.instruction}"),
    ]
    if due.expect:
        signs = ", ".join(f"{name} = {_value(value)}" for name, value in due.expect.items())
        rows.append(("shown by", signs))
    rows += [] if now is None else [("now", now)]
    said = f" --done {due.place}" if due.confirm else ""
    rows.append(("then", f"{due.command}{said}"))
    return "".join(f"{labelled(label, text, width=width, label_columns=_LABEL)}\n" for label, text in rows)


def _value(value: bool | float | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or "missing"
