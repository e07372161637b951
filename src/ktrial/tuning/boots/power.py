# SPDX-License-Identifier: Apache-2.0
"""Decide when to power-cycle a machine that no longer answers."""

from __future__ import annotations

from typing import Literal, NamedTuple

Sight = Literal["unseen", "up", "silent", "switch", "back", "lost"]


class PowerTerms(NamedTuple):
    """How long a machine may be silent, and how often to power-cycle it before giving up."""

    after_s: float
    times: int


class PowerWatch:
    """The history of one machine: answers, silences, and power cycles."""

    def __init__(self, terms: PowerTerms) -> None:
        self._terms = terms
        self._has_answered = False
        self._silent_since_s: float | None = None
        self._waits_since_s = 0.0
        self._switched = 0

    def silent_s(self, now_s: float) -> float:
        """Return how long the machine has been silent; 0 if it answers or has never answered."""
        return 0.0 if self._silent_since_s is None else now_s - self._silent_since_s

    def see(self, now_s: float, *, answers: bool) -> Sight:
        """Return the state of the machine after a look; on `switch` the caller must power-cycle it.

        `lost` means that power cycles did not help, `back` that the machine answers after a silence. A machine that has
        never answered is `unseen`, however long it is silent.
        """
        if not answers and not self._has_answered:
            return "unseen"
        if answers:
            self._has_answered = True
            was_silent = self._silent_since_s is not None
            self._silent_since_s, self._switched = None, 0
            return "back" if was_silent else "up"
        if self._silent_since_s is None:
            self._silent_since_s = self._waits_since_s = now_s
        if now_s - self._waits_since_s < self._terms.after_s:
            return "silent"
        if self._switched == self._terms.times:
            return "lost"
        self._switched += 1
        self._waits_since_s = now_s
        return "switch"
