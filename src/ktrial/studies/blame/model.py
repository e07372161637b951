# SPDX-License-Identifier: Apache-2.0
"""The question of a blame (which of several settings is responsible) and its answer, `ktrial.blame/1`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ktrial.judge.model.judgement import Judgement, Screened
from ktrial.judge.model.verdict import Effect, Verdict
from ktrial.trial.guests.recipe import KernelChange
from ktrial.trial.protocol.file import ArmFile, TrialFile, Value

#: How the whole set compares with the unchanged machine.
KnownFacts = Literal["better", "worse", "either"]
#: How a culprit acts; `by removal` means that only its removal was tested.
Kind = Literal["alone", "together", "needs a partner", "by removal"]
#: The effect on an outcome of removing the culprits.
Fate = Literal["recovered", "recovered in part", "not recovered", "retained", "lost", "unchanged", "unclear"]


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is switched on and off as a whole: settings that belong together, or an environment variable.

    It may also be kernel arguments (`boot`) and, in guests, symbols of the kernel's configuration.
    """

    name: str
    set: Mapping[str, Value] = {}
    environment: Mapping[str, str] = {}
    boot: tuple[str, ...] = ()
    symbols: Mapping[str, str] = {}


class BlameQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the `factors` are responsible for an effect.

    `trial` defines what is measured; its arms are not used. If `known` is null, a first trial tests the whole set.
    `cap` is the maximum number of blocks of a trial that searches for suspects, `budget` of any other trial.
    """

    name: str
    factors: tuple[Factor, ...]
    trial: TrialFile
    seed: int
    known: KnownFacts | None = None
    cap: int = 72
    budget: int = 25

    @property
    def boots_this_machine(self) -> bool:
        return self.trial.guest is None and any(one.boot for one in self.factors)

    def arm(self, names: tuple[str, ...]) -> ArmFile:
        chosen = [one for one in self.factors if one.name in names]
        symbols = {name: value for one in chosen for name, value in one.symbols.items()}
        return ArmFile(
            set={knob: value for one in chosen for knob, value in one.set.items()},
            environment={name: value for one in chosen for name, value in one.environment.items()},
            boot=tuple(word for one in chosen for word in one.boot),
            kernel=KernelChange(set=symbols) if symbols else None,
            placebo=not chosen,
        )


class BootQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A blame whose trials boot this machine, stored to be resumed after a boot, `ktrial.boot-question/1`.

    `security` lists the kernel arguments that weaken the machine's protection and that the user confirmed. `left_out`
    lists settings that cannot be the cause, with the reason.
    """

    schema: Literal["ktrial.boot-question/1"] = "ktrial.boot-question/1"
    asked_unix_ms: int
    question: BlameQuestion
    security: tuple[str, ...] = ()
    left_out: Mapping[str, str] = {}

    def is_same(self, other: BlameQuestion) -> bool:
        """Return whether the other question equals this one except for name and seed."""
        return msgspec.structs.replace(other, name=self.question.name, seed=self.question.seed) == self.question


class BlamePart(msgspec.Struct, frozen=True, kw_only=True):
    """One trial of a question that takes several trials, with the judgement so far.

    `directions` says for each outcome whether lower or higher values are better.
    """

    trial: str
    file: TrialFile
    judgement: Judgement
    runs: int
    directions: Mapping[str, Literal["lower", "higher"]] = {}


class Culprit(msgspec.Struct, frozen=True, kw_only=True):
    """Factors that are responsible: one acts `alone`, several act only `together`, or some need an unknown partner.

    If `kind` is `by removal`, a trial tested only their removal. `effect` is their effect without all other factors.
    """

    factors: tuple[str, ...]
    kind: Kind
    verdict: Verdict | None = None
    effect: Effect | None = None


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What the confirming trial found for one outcome.

    `all` is the effect of the whole set against the control, `without` the effect of the set without the culprits.
    """

    outcome: str
    fate: Fate
    all: Effect | None
    without: Effect | None


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a blame. `reason` says why the blame ended.

    `suspects` are factors that a search for suspects named, but that no trial confirmed.
    """

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
