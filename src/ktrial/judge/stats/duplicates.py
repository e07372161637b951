# SPDX-License-Identifier: Apache-2.0
"""Duplicate outcomes: one is a fixed multiple, or the reciprocal, of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ktrial.judge.model.question import Question
from ktrial.judge.observational_layout import LARGEST
from ktrial.judge.stats.arrays import Array, steps

#: How far two outcomes may differ, as a share of their spread: as far as rounding to three digits can move them.
ROUNDING = 0.005


def duplicates(questions: Sequence[Question]) -> Mapping[str, str]:
    """Return the outcome that each duplicate repeats: the first that is not exploratory, otherwise the first."""
    shapes: dict[tuple[tuple[str, int], ...], list[Question]] = {}
    for question in questions:
        shape = tuple((arm, len(runs)) for arm, runs in question.arms.items())
        shapes.setdefault(shape, []).append(question)
    found: dict[str, str] = {}
    for alike in shapes.values():
        if len(alike) > 1:
            found.update(_among(sorted(alike, key=lambda question: question.role == "exploratory")))
    return found


def _among(questions: Sequence[Question]) -> dict[str, str]:
    usable: list[Question] = []
    rows: list[Array] = []
    for question in questions:
        values = np.array([run.value for runs in question.arms.values() for run in runs], dtype=np.float64)
        if (comparable := _comparable(values)) is not None:
            usable.append(question)
            rows.append(comparable)
    if len(rows) < 2:
        return {}
    table = np.array(rows)
    lengths = np.sqrt(np.sum(table**2, axis=1))
    found: dict[str, str] = {}
    for part in steps(len(table), len(table)):
        close = np.abs(np.abs(table[part] @ table.T / np.outer(lengths[part], lengths)) - 1) < ROUNDING**2
        for row, first in zip(range(part.start, part.stop), np.argmax(close, axis=1).tolist(), strict=True):
            for other in np.flatnonzero(close[row - part.start, first:row]) + first if first < row else ():
                if usable[other].name not in found and _same(table[other], table[row]):
                    found[usable[row].name] = usable[other].name
                    break
    return found


def _comparable(values: Array) -> Array | None:
    """Return centred logarithms, or scaled values if some are zero or below; None below three distinct values."""
    if not np.all(np.abs(values) < LARGEST) or len(np.unique(values)) < 3:
        return None
    if np.all(values > 0):
        logs = np.log(values)
        centred = np.asarray(logs - logs.mean())
        return centred if np.ptp(centred) > 1e-9 else None
    # Scaled to a size that no logarithm has, so that the two kinds never match.
    return np.asarray(values / np.max(np.abs(values)) * 1e6)


def _same(one: Array, other: Array) -> bool:
    allowed = ROUNDING * min(float(np.ptp(one)), float(np.ptp(other)))
    return float(np.max(np.abs(one - other))) <= allowed or float(np.max(np.abs(one + other))) <= allowed
