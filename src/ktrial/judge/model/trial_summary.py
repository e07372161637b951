# SPDX-License-Identifier: Apache-2.0
"""What a comparison that is a trial tells beside its figures: the protocol, how it went, how it came to its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ktrial.judge.model.verdict import Verdict


class ToldArm(msgspec.Struct, frozen=True, kw_only=True):
    """What an arm came to on the machine: what it set, what was in force already, what was refused and why.

    `manual` is what a person did to bring it about, `expect` by which facts it was recognised.
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
        """Everything that it changes: what a person did, settings, variables, parameters and commands alike."""
        by_hand = {} if self.manual is None else {"by hand": self.manual}
        variables = {f"environment {name}": value for name, value in self.environment.items()}
        parameters = {f"parameter {name}": _plain(value) for name, value in self.parameters.items()}
        commands = {f"command {place}": text for place, text in enumerate(self.commands, start=1)}
        return {**by_hand, **self.changes, **variables, **parameters, **commands}

    @property
    def lines(self) -> tuple[str, ...]:
        """The same a line each, and by what it was recognised."""
        told = tuple(f"{name}{': ' if self._is_told(name) else ' = '}{value}" for name, value in self.sets.items())
        return (*told, *(f"recognised by {name} = {_plain(value)}" for name, value in self.expect.items()))

    def _is_told(self, name: str) -> bool:
        """Return whether it is words of a person or a command, and no setting that has a value."""
        return name not in self.changes and name.startswith(("by hand", "command "))


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class ToldBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A block as it was drawn: arms in their order, why it is void, arms whose run failed in it."""

    block: int
    order: tuple[str, ...]
    void: str | None = None
    failed: tuple[str, ...] = ()


class ToldLook(msgspec.Struct, frozen=True, kw_only=True):
    """The primary outcome of one arm after so many blocks, on the scale of its effect; `decides`: a verdict could fall.

    Before the first look there is no interval; between looks it stays.
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
    """A trial. `text` is its protocol as a file; `ended` is why no further run follows, null while it goes on."""

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
