# SPDX-License-Identifier: Apache-2.0
"""The question of a tuning, and the receipt of what was kept and why (`ktrial.receipt/1`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.trial.protocol.file import TrialFile


class TuneArm(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate as an arm: the knob, and its values by address."""

    name: str
    knob: str
    settings: Mapping[str, str]


class TuneGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Candidates that share a workload. `trial` defines what is measured; its arms are not used."""

    trial: TrialFile
    arms: tuple[TuneArm, ...]


class TuneQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Everything to try for a goal or a profile."""

    name: str
    groups: tuple[TuneGroup, ...]
    seed: int

    @property
    def candidates(self) -> int:
        return sum(len(group.arms) for group in self.groups)

    @property
    def most_visits(self) -> int:
        """The maximum number of visits: in a trial of each group, and in a trial of its better settings together."""
        arms = sum(group.trial.budget * (1 + len(group.arms)) for group in self.groups)
        return arms + sum(2 * group.trial.budget for group in self.groups if len(group.arms) > 1)


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one candidate. `reason` states why it is kept or not; `trial` is null if it was not tried."""

    settings: Mapping[str, str]
    kept: bool
    reason: str
    trial: str | None = None
    outcome: str | None = None
    direction: Literal["lower", "higher"] | None = None
    verdict: Verdict | None = None
    effect: Effect | None = None


class TuneReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """What ktrial kept and refused, in which trials, and the transaction that applied the kept settings.

    `transaction` is null if nothing was applied.
    """

    schema: Literal["ktrial.receipt/1"] = "ktrial.receipt/1"
    name: str
    tried: tuple[Tried, ...]
    trials: tuple[str, ...]
    runs: int
    transaction: int | None = None

    @property
    def kept(self) -> dict[str, str]:
        return {address: value for one in self.tried if one.kept for address, value in one.settings.items()}

    @property
    def undo(self) -> str | None:
        """The command that reverts these settings and all later transactions; None if nothing was applied."""
        return None if self.transaction is None else f"ktrial revert --to {self.transaction - 1}"
