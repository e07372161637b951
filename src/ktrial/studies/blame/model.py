# SPDX-License-Identifier: Apache-2.0
"""Which of several settings did it: what is asked, and what came of it, `ktrial.blame/1`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.judge.model.judgement import Judgement, Screened
from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.trial.guests.recipe import KernelChange
from ktrial.trial.protocol.file import ArmFile, TrialFile, Value

#: What the whole set is to the machine as it is.
KnownFacts = Literal["better", "worse", "either"]
#: How a culprit acts.
Kind = Literal["alone", "together", "needs a partner", "by removal"]
#: What taking the culprits away did to an outcome that the whole set had changed.
Fate = Literal["recovered", "recovered in part", "not recovered", "retained", "lost", "unchanged", "unclear"]


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """What is switched on and off as one: settings that cannot be told apart, a variable of the environment, or words.

    Those are of the kernel's command line, in guests; there it may also be symbols of the kernel's configuration.
    """

    name: str
    set: Mapping[str, Value] = {}
    environment: Mapping[str, str] = {}
    boot: tuple[str, ...] = ()
    symbols: Mapping[str, str] = {}


class BlameQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the factors did it. `trial` says what is measured; its arms are not used.

    `known` null: it is shown first what the whole set does. `cap` and `budget` are blocks, of a screening and of a
    trial that confirms.
    """

    name: str
    factors: tuple[Factor, ...]
    trial: TrialFile
    seed: int
    known: KnownFacts | None = None
    cap: int = 72
    budget: int = 25

    def arm(self, names: tuple[str, ...]) -> ArmFile:
        """Return the arm in which these factors are on."""
        chosen = [one for one in self.factors if one.name in names]
        symbols = {name: value for one in chosen for name, value in one.symbols.items()}
        return ArmFile(
            set={knob: value for one in chosen for knob, value in one.set.items()},
            environment={name: value for one in chosen for name, value in one.environment.items()},
            boot=tuple(word for one in chosen for word in one.boot),
            kernel=KernelChange(set=symbols) if symbols else None,
            placebo=not chosen,
        )


class BlamePart(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a question that several answer, as far as it has come; `directions` are of its outcomes."""

    trial: str
    file: TrialFile
    judgement: Judgement
    runs: int
    directions: Mapping[str, Literal["lower", "higher"]] = {}


class Culprit(msgspec.Struct, frozen=True, kw_only=True):
    """What did it: a factor `alone`, several that act `together` only, or one that needs a partner nobody named.

    `effect` is what it does without all the others.
    """

    factors: tuple[str, ...]
    kind: Kind
    verdict: Verdict | None = None
    effect: Effect | None = None


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome in the trial that confirms: the whole set, and the set without the culprits, to the control."""

    outcome: str
    fate: Fate
    all: Effect | None
    without: Effect | None


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `suspects` were named by a screening and not confirmed; `reason` is why no more is looked for."""

    schema: Literal["ktrial.blame/1"] = "ktrial.blame/1"
    name: str
    factors: tuple[str, ...]
    known: KnownFacts | None
    culprits: tuple[Culprit, ...]
    suspects: tuple[str, ...]
    reason: str
    recoveries: tuple[Recovery, ...]
    screenings: tuple[tuple[Screened, ...], ...]
    trials: tuple[str, ...]
    runs: int
    left_out: Mapping[str, str] = {}
