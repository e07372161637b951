# SPDX-License-Identifier: Apache-2.0
"""Judging 1,000 outcomes of 4 arms in 30 blocks in one call, against scipy's `wilcoxon` called for each contrast.

Run in a checkout that is set up:  .venv/bin/python -m perf.compare [OUTCOMES]

ktrial's call also reads the layout, estimates effects with exact intervals, checks for drift and modes, does a two-way
analysis of variance for each outcome and corrects for all comparisons; scipy's call gives only p-values.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy import stats

from ktrial.judge.model.question import Answer, Observation, Question
from ktrial.judge.observational import judge_foreign
from perf.arguments import argument, how_many
from perf.side_by_side import measure, report

ARMS = ("stock", "a", "b", "c")
BLOCKS = 30
ROUNDS = 7
OURS = "ktrial: all verdicts"
THEIRS = "scipy: wilcoxon for each contrast"


def questions(outcomes: int) -> tuple[Question, ...]:
    """Return times with 3 % noise; arm b is 5 % faster. Arms are in random order within each block."""
    random = np.random.default_rng(7)
    made = []
    for number in range(outcomes):
        order = [random.permutation(len(ARMS)) for _ in range(BLOCKS)]
        values = np.exp(random.normal(0, 0.03, (len(ARMS), BLOCKS)) - np.array([[0], [0], [0.05], [0]]))
        arms = {
            arm: tuple(
                Observation(
                    value=float(values[index, block]),
                    place=block * len(ARMS) + int(order[block][index]),
                    block=str(block),
                )
                for block in range(BLOCKS)
            )
            for index, arm in enumerate(ARMS)
        }
        made.append(
            Question(name=f"outcome{number}", direction="lower", arms=arms, control="stock", margin=0.02),
        )
    return tuple(made)


def wilcoxon_each(asked: tuple[Question, ...]) -> list[float]:
    found: list[float] = []
    for question in asked:
        logs = {arm: np.log([run.value for run in runs]) for arm, runs in question.arms.items()}
        found.extend(float(stats.wilcoxon(logs["stock"] - logs[arm]).pvalue) for arm in ARMS[1:])
    return found


def differences(answers: tuple[Answer, ...], theirs: list[float]) -> float:
    ours = [contrast.test.p for answer in answers for contrast in answer.contrasts if contrast.test is not None]
    return max(abs(p - q) for p, q in zip(ours, theirs, strict=True))


def main() -> int:
    asked = questions(argument("OUTCOMES", 1000, how_many))
    apart = differences(judge_foreign(asked), wilcoxon_each(asked))
    print(f"largest difference of p-values between the two: {apart:.1e}")
    times_s = measure({OURS: lambda: judge_foreign(asked), THEIRS: lambda: wilcoxon_each(asked)}, ROUNDS)
    return 0 if report(times_s, THEIRS, {OURS: 1.0}) and apart < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
