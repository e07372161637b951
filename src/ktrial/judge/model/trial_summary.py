# SPDX-License-Identifier: Apache-2.0
"""Details of a trial in a comparison: the protocol, the blocks, and how the verdict developed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.judge.model.verdict import Verdict


class ToldArm(msgspec.Struct, frozen=True, kw_only=True):
    """An arm on the machine: what it set, what was already in force, and what was refused, with reasons.

    `manual` is what a person did to set it up, `expect` holds the facts that identify it.
    """

    arm: str
    placebo: bool = False
    changes: Mapping[str, str] = {}
    same: tuple[str, ...] = ()
    refused: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    parameters: Mapping[str, Any] = {}
    manual: str | None = None
    expect: Mapping[str, bool | int | float | str] = {}
    commands: tuple[str, ...] = ()

    @property
    def sets(self) -> dict[str, str]:
        """Return all changes of the arm: actions by hand, settings, variables, parameters and commands."""
        by_hand = {} if self.manual is None else {"by hand": self.manual}
        variables = {f"environment {name}": value for name, value in self.environment.items()}
        parameters = {f"parameter {name}": _plain(value) for name, value in self.parameters.items()}
        commands = {f"command {place}": text for place, text in enumerate(self.commands, start=1)}
        return {**by_hand, **self.changes, **variables, **parameters, **commands}

    @property
    def lines(self) -> tuple[str, ...]:
        """Return all changes of the arm and the facts that identify it, one per line."""
        changes = tuple(f"{name}{': ' if self._is_text(name) else ' = '}{value}" for name, value in self.sets.items())
        return (*changes, *(f"recognised by {name} = {_plain(value)}" for name, value in self.expect.items()))

    def _is_text(self, name: str) -> bool:
        """Return whether a change is a person's text or a command, not a setting with a value."""
        return name not in self.changes and name.startswith(("by hand", "command "))


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class ToldBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block: its arms in the drawn order, why it is void, and the arms whose run failed in it."""

    block: int
    order: tuple[str, ...]
    void: str | None = None
    failed: tuple[str, ...] = ()


class ToldLook(msgspec.Struct, frozen=True, kw_only=True):
    """The primary outcome of one arm after this many blocks, on the scale of its effect.

    `decides` says that a verdict was possible here. The interval is null before the first look, and changes only at
    looks.
    """

    blocks: int
    arm: str
    against: str
    estimate: float
    low: float | None
    high: float | None
    verdict: Verdict | None
    decides: bool


class ToldTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A trial. `text` is its protocol as a file; `ended` says why it ended, null while it runs."""

    trial: str
    text: str
    machine: str
    seed: int
    cap: int | None
    detect: float
    settle_s: float
    blocks: int
    ended: str | None
    arms: tuple[ToldArm, ...]
    drawn: tuple[ToldBlock, ...]
    looks: tuple[ToldLook, ...]
