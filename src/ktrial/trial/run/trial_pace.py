# SPDX-License-Identifier: Apache-2.0
"""How long the runs of a trial take, and so how long it goes on."""

from __future__ import annotations

import statistics


class TrialPace:
    """`settle_s` is waited before each visit, which holds `runs_per_visit` runs."""

    def __init__(self, settle_s: float, runs_per_visit: int) -> None:
        self._settle_s = settle_s
        self._runs = runs_per_visit
        self._took_s: list[float] = []
        self._built_s: list[float] = []

    def took(self, seconds: float) -> None:
        """One more run of all benchmarks is over."""
        self._took_s.append(seconds)

    def built(self, seconds: float) -> None:
        """What one more visit measures was made."""
        self._built_s.append(seconds)

    @property
    def build_s(self) -> float | None:
        """About what that takes; None where nothing is made."""
        return statistics.median(self._built_s) if self._built_s else None

    @property
    def run_s(self) -> float | None:
        """About what one run of all benchmarks takes, without the wait to settle; None before the first."""
        return statistics.median(self._took_s) if self._took_s else None

    def visits_s(self, visits: float) -> float | None:
        """About what so many visits take."""
        return (
            None if self.run_s is None else visits * (self._settle_s + (self.build_s or 0.0) + self._runs * self.run_s)
        )

    def left_s(self, blocks: int, arms: int, done: int) -> float | None:
        """About what so many blocks still take, of the first of which `done` runs are over."""
        return self.visits_s(max(0.0, blocks * arms - done / self._runs))
