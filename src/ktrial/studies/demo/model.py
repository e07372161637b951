# SPDX-License-Identifier: Apache-2.0
"""The demo: a trial of four arms whose effects are known in advance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.trial.protocol.file import TrialFile

PLACEBO, COPIUM, HELP, HURT = "placebo", "copium", "help", "hurt"
#: The verdicts that each arm should get; without a difference, both verdicts are right.
EXPECTED: dict[str, tuple[Verdict, ...]] = {
    PLACEBO: ("equivalent", "inconclusive"),
    COPIUM: ("equivalent", "inconclusive"),
    HELP: ("better",),
    HURT: ("worse",),
}


class DemoArmFound(msgspec.Struct, frozen=True, kw_only=True):
    """One arm against the control. `as_expected` is null while the arm is undecided."""

    arm: str
    verdict: Verdict | None
    effect: Effect | None
    blocks: int
    as_expected: bool | None


class SinglePairs(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs of single runs from the same block: one of the control, one of an arm without effect.

    `apart` counts the pairs that differ by more than the margin. `largest` is the log ratio of the worst pair.
    """

    pairs: int
    apart: int
    largest: float

    @property
    def share(self) -> float:
        """The share of pairs that would have looked like a real effect."""
        return self.apart / self.pairs if self.pairs else 0.0


class DemoFound(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a demo. `refused` states why nothing can be compared; it is null if the arms can be compared."""

    arms: tuple[DemoArmFound, ...]
    single: SinglePairs
    margin: float
    blocks: int
    ended: bool
    refused: str | None = None


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a demo.

    `why` contains reasons by arm, `paths` are the files to write, and `found` has the current values of the control's
    settings. `passed` lists better demos that are impossible here, with the reason.
    """

    file: TrialFile
    what: str
    why: Mapping[str, str]
    paths: tuple[str, ...]
    found: Mapping[str, str]
    passed: tuple[str, ...]


class DemoResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a demo as JSON. `report` is null for an interrupted demo.

    `before` and `after` map paths to values.
    """

    schema: Literal["ktrial.demo/1"] = "ktrial.demo/1"
    trial: str
    interrupted: bool
    what: str
    why: Mapping[str, str]
    found: DemoFound
    before: Mapping[str, str | None]
    after: Mapping[str, str | None]
    passed: tuple[str, ...]
    report: str | None
