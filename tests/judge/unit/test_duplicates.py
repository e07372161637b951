# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktrial.judge.model.comparison import Role
from ktrial.judge.model.question import Observation, Question
from ktrial.judge.stats.duplicates import duplicates

TIMES = np.exp(np.random.default_rng(1).normal(0, 0.1, (2, 8)))


def question(name: str, values: Sequence[Sequence[float]], role: Role = "exploratory") -> Question:
    arms = {
        arm: tuple(Observation(value=float(value)) for value in held)
        for arm, held in zip(("stock", "new"), values, strict=True)
    }
    return Question(name=name, direction="lower", arms=arms, control="stock", margin=0.02, role=role)


def test_a_reciprocal_and_a_multiple_are_the_same_outcome() -> None:
    asked = [
        question("time", TIMES.tolist()),
        question("other", TIMES[:, ::-1].tolist()),
        question("rate", (1 / TIMES).tolist()),
        question("milliseconds", (1000 * TIMES).tolist()),
        question("square", (TIMES**2).tolist()),
    ]
    assert duplicates(asked) == {"rate": "time", "milliseconds": "time"}


def test_what_was_rounded_in_printing_is_found_too() -> None:
    rounded = np.array([[float(f"{value:.4g}") for value in row] for row in 1 / TIMES])
    assert duplicates([question("time", TIMES.tolist()), question("rate", rounded.tolist())]) == {"rate": "time"}


def test_the_declared_one_is_kept() -> None:
    asked = [question("time", TIMES.tolist()), question("rate", (1 / TIMES).tolist(), role="primary")]
    assert duplicates(asked) == {"time": "rate"}


def test_counts_with_zeros_are_compared_as_they_are() -> None:
    counts = np.random.default_rng(2).integers(0, 50, (2, 8))
    counts[0, 0] = 0
    asked = [
        question("pages", counts.tolist()),
        question("bytes", (4096 * counts).tolist()),
        question("more", (counts + 1).tolist()),
    ]
    assert duplicates(asked) == {"bytes": "pages"}


def test_what_never_varies_or_is_no_number_repeats_nothing() -> None:
    flat = [[2.0] * 8, [2.0] * 8]
    gaps = TIMES.copy()
    gaps[0, 3] = np.nan
    asked = [question("flat", flat), question("flat too", flat), question("a", gaps.tolist())]
    assert duplicates([*asked, question("b", gaps.tolist())]) == {}


def test_other_numbers_of_runs_are_another_outcome() -> None:
    assert duplicates([question("a", TIMES.tolist()), question("b", TIMES[:, :7].tolist())]) == {}
