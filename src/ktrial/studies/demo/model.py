# SPDX-License-Identifier: Apache-2.0
"""The demo: a trial of four arms of which we know beforehand what they do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.trial.protocol.file import TrialFile

PLACEBO, COPIUM, HELP, HURT = "placebo", "copium", "help", "hurt"
#: What each arm is there to show; where nothing differs, either verdict claims no difference.
EXPECTED: dict[str, tuple[Verdict, ...]] = {
    PLACEBO: ("equivalent", "inconclusive"),
    COPIUM: ("equivalent", "inconclusive"),
    HELP: ("better",),
    HURT: ("worse",),
}


class DemoArmFound(msgspec.Struct, frozen=True, kw_only=True):
    """One arm against the control. `as_expected` is null where the trial was not over."""

    arm: str
    verdict: Verdict | None
    effect: Effect | None
    blocks: int
    as_expected: bool | None


class SinglePairs(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs of one run with the control and one with an arm that cannot differ, neighbours in time.

    `apart` are those whose runs differ by more than the margin, `largest` is the log ratio of the worst of them.
    """

    pairs: int
    apart: int
    largest: float

    @property
    def share(self) -> float:
        """Of all pairs, those that would have been believed."""
        return self.apart / self.pairs if self.pairs else 0.0


class DemoFound(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. `refused` is why nothing can be compared, null where it can."""

    arms: tuple[DemoArmFound, ...]
    single: SinglePairs
    margin: float
    blocks: int
    ended: bool
    refused: str | None = None


class Demo(msgspec.Struct, frozen=True, kw_only=True):
    """What will be tried. `why` is by arm, `paths` are the files that are written, `passed` what is not possible."""

    file: TrialFile
    what: str
    why: Mapping[str, str]
    paths: tuple[str, ...]
    found: Mapping[str, str]
    passed: tuple[str, ...]


class DemoResult(msgspec.Struct, frozen=True, kw_only=True):
    """A demo that is over, for programs. `report` is null of an interrupted one; `before` and `after` are by path."""

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
