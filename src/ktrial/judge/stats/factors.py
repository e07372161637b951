# SPDX-License-Identifier: Apache-2.0
"""Analyses of variance on the scale of the effects, which show whether arms differ at all."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from ktrial.judge.model.comparison import Anova, AnovaRow
from ktrial.judge.stats.arrays import Array, mean_ranks
from ktrial.kit.startup import load_special

special = load_special()

Labels = npt.NDArray[np.int64]
#: The source of variation that makes arms differ from block to block.
INTERACTION = "arm x block"
#: With more arms and blocks than this, unequal cells take too long to solve.
SOLVED_LEVELS = 400


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """An analysis of variance, with the input of pairwise comparisons: the means of arms and the noise.

    With blocks, there are means only if all cells hold equally many runs. If each cell then holds several runs, the
    noise is the noise between blocks.
    """

    anova: Anova
    means: Array | None
    sizes: Labels
    noise: float
    freedom: float


def one_way(groups: Sequence[Array]) -> Model | None:
    """Return the analysis of arms without blocks, with Kruskal-Wallis as a note.

    Return None for a single arm, or if no arm has two runs.
    """
    sizes = np.array([len(group) for group in groups], dtype=np.int64)
    freedom = int(sizes.sum()) - len(groups)
    if len(groups) < 2 or freedom < 1:
        return None
    scores = np.concatenate(list(groups))
    labels = np.repeat(np.arange(len(groups)), sizes)
    centred = scores - scores.mean()
    means = np.bincount(labels, centred) / sizes
    within = float(np.sum((centred - means[labels]) ** 2))
    between = float(np.sum(sizes * means**2))
    rows = _rows([("arm", len(groups) - 1, between)], freedom, within, float(np.sum(centred**2)))
    return Model(
        anova=Anova(name="one-way analysis of variance", rows=rows, note=_kruskal(scores, labels, sizes)),
        means=means + scores.mean(),
        sizes=sizes,
        noise=rows[-1].mean_square,
        freedom=freedom,
    )


def _kruskal(scores: Array, labels: Labels, sizes: Labels) -> str:
    ranks = mean_ranks(scores[np.newaxis, :])[0]
    count = len(scores)
    _, ties = np.unique(ranks, return_counts=True)
    correction = 1 - float(np.sum(ties.astype(np.float64) ** 3 - ties)) / (float(count) ** 3 - count)
    if correction <= 0:
        return "Kruskal-Wallis: all values are equal"
    h = 12 / (count * (count + 1)) * float(np.sum(np.bincount(labels, ranks) ** 2 / sizes)) - 3 * (count + 1)
    p = float(special.chdtrc(len(sizes) - 1, h / correction))
    return f"Kruskal-Wallis: H = {h / correction:.4g}, p = {p:.3g}"


def two_way(scores: Array, arms: Labels, blocks: Labels) -> Model | str:
    """Return the analysis of arms and blocks, or a sentence that says why there is none.

    Cells with several runs also give the interaction. If the cells are unequal, each sum of squares is of type II.
    """
    n_arms, n_blocks = int(arms.max()) + 1, int(blocks.max()) + 1
    cells = np.bincount(arms * n_blocks + blocks, minlength=n_arms * n_blocks)
    centred = scores - scores.mean()
    equal = cells.min() == cells.max()
    if equal:
        of_arms = np.bincount(arms, centred) / np.bincount(arms)
        of_blocks = np.bincount(blocks, centred) / np.bincount(blocks)
        additive = float(np.sum((centred - of_arms[arms] - of_blocks[blocks]) ** 2))
    elif n_arms + n_blocks > SOLVED_LEVELS:
        return f"no two-way analysis: cells are unequal, and {n_arms} arms with {n_blocks} blocks are too many to solve"
    else:
        solved = _additive(centred, arms, blocks)
        if solved is None:
            return "no two-way analysis: some arms share no block, directly or through others"
        additive = solved
    within = _within(centred, arms * n_blocks + blocks)
    terms = [
        ("arm", n_arms - 1, _within(centred, blocks) - additive),
        ("block", n_blocks - 1, _within(centred, arms) - additive),
    ]
    complete = bool(cells.min() > 0)
    freedom = len(scores) - n_arms - n_blocks + 1
    residual, note = additive, None
    if complete and len(scores) > n_arms * n_blocks:
        terms.append((INTERACTION, (n_arms - 1) * (n_blocks - 1), additive - within))
        freedom, residual = len(scores) - n_arms * n_blocks, within
    elif not complete:
        note = "some arms are missing in some blocks, so there is no interaction"
    if freedom < 1:
        return "no two-way analysis: too few runs to estimate the noise"
    if not equal:
        note = "; ".join(filter(None, [note, "cells hold unequal numbers of runs: sums of squares of type II"]))
    rows = _rows(terms, freedom, residual, float(np.sum(centred**2)))
    noise = next((row for row in rows if equal and row.source == INTERACTION), rows[-1])
    if noise.source == INTERACTION and n_arms > 2:
        note = f"pairs of arms are tested against {INTERACTION}"
    return Model(
        anova=Anova(name="two-way analysis of variance", rows=rows, note=note),
        means=np.bincount(arms, scores) / np.bincount(arms) if equal else None,
        sizes=np.bincount(arms),
        noise=noise.mean_square,
        freedom=noise.df,
    )


def _within(scores: Array, labels: Labels) -> float:
    sizes = np.maximum(np.bincount(labels), 1)
    return float(np.sum((scores - (np.bincount(labels, scores) / sizes)[labels]) ** 2))


def _additive(scores: Array, arms: Labels, blocks: Labels) -> float | None:
    """Return the residual sum of squares of arms plus blocks; None if they cannot be separated."""
    n_arms, n_blocks = int(arms.max()) + 1, int(blocks.max()) + 1
    columns = np.zeros((len(scores), n_arms + n_blocks - 1))
    columns[np.arange(len(scores)), arms] = 1.0
    later = blocks > 0
    columns[np.flatnonzero(later), n_arms + blocks[later] - 1] = 1.0
    solution, _, rank, _ = np.linalg.lstsq(columns, scores)
    if rank < columns.shape[1]:
        return None
    return float(np.sum((scores - columns @ solution) ** 2))


def _rows(terms: Sequence[tuple[str, int, float]], freedom: int, residual: float, total: float) -> tuple[AnovaRow, ...]:
    # Smaller sums of squares are rounding errors of equal values.
    residual = residual if residual > 1e-24 * total else 0.0
    noise = residual / freedom
    rows = []
    for source, df, squares in terms:
        kept = max(squares, 0.0)
        f = kept / df / noise if noise > 0 and df else None
        p = None if f is None else float(special.fdtrc(df, freedom, f))
        rows.append(
            AnovaRow(source=source, df=df, sum_of_squares=kept, mean_square=kept / max(df, 1), f=f, p=p),
        )
    rows.append(
        AnovaRow(source="residual", df=freedom, sum_of_squares=residual, mean_square=noise, f=None, p=None),
    )
    return tuple(rows)
