# SPDX-License-Identifier: Apache-2.0
"""What all runs so far say about every point of a space, with the noise and the drift of the machine taken out.

A score is the sum of five parts: the level of its block, a smooth effect of each dimension, a smooth joint effect, the
deviation of the point, and noise. Every block holds the control, so its level cancels. The EM algorithm estimates the
sizes of these parts from the runs (variance components). Predictions are those of a Gaussian process.

The model chooses what to try next. It never supports a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ktrial.judge.stats.arrays import Array
from ktrial.studies.search.space import Dimension, Point, Space

#: Length scale of a smooth effect, as a share of a range.
_REACH = 0.35
#: Rounds of EM, from the sizes of an earlier fit or without them, and the least share that a component keeps.
_ROUNDS_AGAIN, _ROUNDS, _LEAST = 6, 25, 1e-6


class SeenVisit(NamedTuple):
    """One visit: its block, its point by number, and its score."""

    block: int
    point: int
    score: float


class Slice(NamedTuple):
    """The effect of one dimension alone against its default.

    `values` are places (`Dimension.place`), `means` the estimates there, and `errors` their standard errors.
    """

    dimension: str
    values: tuple[float, ...]
    means: tuple[float, ...]
    errors: tuple[float, ...]


class Surrogate:
    """The fitted model. An effect is the difference of a point's score from that of the control, which is point 0."""

    def __init__(
        self, space: Space, points: Sequence[Point], seen: Sequence[SeenVisit], earlier: Surrogate | None = None
    ) -> None:
        """Fit the model; `earlier` is a fit of fewer runs, whose variances are the starting values."""
        self._space = space
        self._rows = encode(space, points)
        at = np.array([one.point for one in seen], dtype=np.intp)
        self._at = at
        blocks = np.array([one.block for one in seen])
        score = np.array([one.score for one in seen], dtype=np.float64)
        # Block levels are free: project them out, so that only differences within a block count.
        self._score, self._project = _within_blocks(score, blocks)
        self._sizes: Array = self._fit(None if earlier is None else earlier._sizes)
        self._solve()

    def _components(self) -> list[Array]:
        return kernels(self._space, self._rows, self._rows)

    def _contrasts(self, kernel: Array) -> Array:
        """Return the covariance of the contrasts, from the similarity of all points."""
        half = self._project @ kernel[np.ix_(self._at, self._at)]
        return np.asarray(self._project @ half.T)

    def _fit(self, begin: Array | None) -> Array:
        """Return the variances of the components, the noise last."""
        project, score = self._project, self._score
        rank = project.shape[0]
        on_seen = [self._contrasts(one) for one in self._components()]
        parts = [*on_seen, np.eye(rank)]
        total = float(score @ score) / max(1, rank) or 1e-12
        traces = [max(float(np.trace(one)) / rank, 1e-9) for one in parts]
        shares = [0.5 / len(on_seen)] * len(on_seen) + [0.5]
        sizes = np.array([total * share / trace for share, trace in zip(shares, traces, strict=True)])
        sizes = sizes if begin is None else np.array(begin)
        for _ in range(_ROUNDS if begin is None else _ROUNDS_AGAIN):
            whole = sum(size * part for size, part in zip(sizes, parts, strict=True))
            inverse = np.linalg.inv(whole + 1e-9 * total * np.eye(rank))
            solved = inverse @ score
            for at, part in enumerate(parts):
                fits = float(solved @ part @ solved)
                expected = float(np.sum(inverse * part))
                sizes[at] *= math.sqrt(max(fits, 0.0) / max(expected, 1e-12)) if expected > 0 else 1.0
            sizes = np.maximum(sizes, _LEAST * total)
        return sizes

    def _solve(self) -> None:
        project = self._project
        whole = self._contrasts(self._kernel(self._rows, self._rows)) + self.noise * np.eye(project.shape[0])
        self._inverse = np.linalg.inv(whole)
        self._weights = self._inverse @ self._score

    @property
    def noise(self) -> float:
        """The variance of the score of one run."""
        return float(self._sizes[-1])

    def _kernel(self, left: Array, right: Array) -> Array:
        parts = kernels(self._space, left, right)
        return np.asarray(sum(size * part for size, part in zip(self._sizes, parts, strict=False)))

    def effects(self, points: Sequence[Point]) -> tuple[Array, Array]:
        """Return the mean and covariance of the effects of these points."""
        rows = np.vstack([encode(self._space, points), self._rows[:1]])
        cross = np.asarray((self._project @ self._kernel(rows, self._rows)[:, self._at].T).T)
        mean = cross @ self._weights
        covariance = self._kernel(rows, rows) - cross @ self._inverse @ cross.T
        contrast = np.hstack([np.eye(len(points)), -np.ones((len(points), 1))])
        return contrast @ mean, contrast @ covariance @ contrast.T

    def slice_of(self, dimension: Dimension, values: Sequence[float | int | str | bool]) -> Slice:
        """Return what the dimension does alone, with all other dimensions at their defaults."""
        control = self._space.control
        points = [{**control, dimension.name: value} for value in values]
        mean, covariance = self.effects(points)
        places = tuple(dimension.place(value) for value in values)
        errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return Slice(dimension.name, places, tuple(mean.tolist()), tuple(errors.tolist()))


def encode(space: Space, points: Sequence[Point]) -> Array:
    """Return a row for each point, with the place of its value in each dimension."""
    full = [space.settled(point) for point in points]
    return np.array([[one.place(point[one.name]) for one in space.dimensions] for point in full]).reshape(
        len(points), len(space.dimensions)
    )


def kernels(space: Space, left: Array, right: Array) -> list[Array]:
    """Return matrices of similarity between the points in `left` and `right`.

    The first matrices belong to one dimension each. The last two are a joint matrix, and 1 for equal points, 0 for
    different points.
    """
    each, apart = [], np.zeros((len(left), len(right)))
    for at, dimension in enumerate(space.dimensions):
        gap = np.abs(left[:, at][:, None] - right[:, at][None, :])
        if dimension.is_range:
            each.append(np.exp(-0.5 * (gap / _REACH) ** 2))
            apart += (gap / _REACH) ** 2
        else:
            each.append((gap == 0).astype(np.float64))
            apart += (gap != 0) * 1.0
    joint = np.exp(-0.5 * apart / max(1.0, len(space.dimensions) / 4))
    same = (apart < 1e-12).astype(np.float64)
    return [*each, joint, same]


def _within_blocks(score: Array, blocks: Array) -> tuple[Array, Any]:
    """Return the scores as contrasts within blocks, and the sparse matrix that makes them (orthonormal rows)."""
    rows = []
    for block in np.unique(blocks):
        inside = np.nonzero(blocks == block)[0]
        size = len(inside)
        if size < 2:
            continue
        # Helmert contrasts: orthonormal, each sums to zero.
        for step in range(1, size):
            row = np.zeros(len(score))
            row[inside[:step]] = 1.0
            row[inside[step]] = -step
            rows.append(row / math.sqrt(step * (step + 1)))
    project = sparse.csr_array(np.array(rows).reshape(-1, len(score)))
    return np.asarray(project @ score), project


def importance_of(surrogate: Surrogate, space: Space, draws: int = 200) -> Mapping[str, tuple[float, float, float]]:
    """Return how far each dimension alone moves the score: median, and a 90 % interval."""
    rng = np.random.default_rng(0)
    found = {}
    for one in space.dimensions:
        values = grid_of(one)
        points = [{**space.control, one.name: value} for value in values]
        mean, covariance = surrogate.effects(points)
        root = np.linalg.cholesky(covariance + 1e-12 * np.eye(len(values)) + 1e-9 * np.diag(np.diag(covariance)))
        drawn = np.hstack([np.zeros((draws, 1)), mean + rng.standard_normal((draws, len(values))) @ root.T])
        low, middle, high = np.quantile(drawn.max(axis=1) - drawn.min(axis=1), (0.05, 0.5, 0.95))
        found[one.name] = (float(middle), float(low), float(high))
    return found


def grid_of(dimension: Dimension, most: int = 9) -> list[float | int | str | bool]:
    """Return up to `most` values spread over a range, or all values of a list."""
    if not dimension.is_range:
        return list(dimension.values)
    assert dimension.low is not None, "a range has both ends"
    assert dimension.high is not None, "a range has both ends"
    low, high = float(dimension.low), float(dimension.high)
    scale = np.geomspace(low, high, most) if dimension.log else np.linspace(low, high, most)
    found = [round(value) if dimension.is_whole else float(value) for value in scale.tolist()]
    return list(dict.fromkeys(found))
