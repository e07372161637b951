# SPDX-License-Identifier: Apache-2.0
"""What is to be done for the next visit of a trial whose arms a person brings about, as text."""

from __future__ import annotations

from collections.abc import Sequence

from ktrial.kit.tables import labelled
from ktrial.trial.arms.manual import Due

_LABEL = 10


def due_text(due: Due, done: Sequence[str], now: str | None, *, width: int) -> str:
    """What was measured, whose turn it is, what is to be done, how the machine is now, and the command for it."""
    arm = due.arm if due.arm == due.place else f"{due.arm}, with the machine as {due.place}"
    boot = "boot, as every visit is a boot of its own: " if due.new_boot else ""
    if due.new_build:
        boot = "boot another build, as every visit is a build of its own: "
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
    return str(value).lower() if isinstance(value, bool) else str(value) or "not there"
