# SPDX-License-Identifier: Apache-2.0
"""Proposals of Optuna, by ask and tell.

Each call builds a study from everything known so far. The proposals therefore depend only on what the trials
measured and on the seed, and an interrupted search continues with the same proposals.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ktrial.kit.errors import KtrialError
from ktrial.kit.own_code import install_step
from ktrial.studies.search.space import Dimension, Point, Scalar, Space, key_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import Trial

#: Random points before the model of Optuna proposes.
STARTUP = 12
#: Proposals for each that is wanted, at most; the others are refused or known already.
_ASKS = 8


class KnownValue(NamedTuple):
    """A point, and the estimate of its effect; `value` is None if there is no estimate."""

    point: Point
    value: float | None


class ProposedPoints(NamedTuple):
    """Points to try, and the proposals that were refused, with the reason."""

    points: tuple[dict[str, Scalar], ...]
    refused: tuple[tuple[dict[str, Scalar], str], ...]


Refuse = Callable[[Point], str | None]


def check_optuna(sampler: str) -> None:
    """Raise KtrialError if a package that the sampler needs is not installed."""
    if importlib.util.find_spec("optuna") is None:
        raise KtrialError(
            "cannot search: Optuna is not installed",
            hint=install_step("optuna>=5,<6", "search"),
        )
    if sampler == "gp" and importlib.util.find_spec("torch") is None:
        raise KtrialError(
            "cannot use the sampler gp: PyTorch is not installed",
            hint="use --sampler tpe, or install torch where Optuna is installed",
        )


def propose(
    space: Space, known: Sequence[KnownValue], count: int, seed: int, refuse: Refuse, *, sampler: str = "tpe"
) -> ProposedPoints:
    """Return at most `count` new points that may be tried. `refuse` says why a point may not be tried."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = _study(space, known, seed, sampler)
        seen = {key_of(space.settled(one.point)) for one in known}
        points: list[dict[str, Scalar]] = []
        refused: list[tuple[dict[str, Scalar], str]] = []
        for _ in range(_ASKS * count):
            if len(points) == count:
                break
            asked = study.ask()
            point = _suggested(space, asked)
            settled = space.settled(point)
            why = space.problem(point) or refuse(settled)
            if why is not None:
                refused.append((settled, why))
                study.tell(asked, state=optuna.trial.TrialState.FAIL)
            elif (key := key_of(settled)) in seen:
                study.tell(asked, state=optuna.trial.TrialState.FAIL)
            else:
                seen.add(key)
                points.append(settled)
    return ProposedPoints(tuple(points), tuple(refused))


def _study(space: Space, known: Sequence[KnownValue], seed: int, sampler: str) -> Study:
    import optuna

    made: optuna.samplers.BaseSampler
    if sampler == "gp":
        made = optuna.samplers.GPSampler(seed=seed, n_startup_trials=STARTUP, deterministic_objective=False)
    elif sampler == "random":
        made = optuna.samplers.RandomSampler(seed=seed)
    else:
        made = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=STARTUP, multivariate=True, group=True, constant_liar=True
        )
    study = optuna.create_study(direction="maximize", sampler=made)
    for one in known:
        params, distributions = _params(space, one.point)
        state = optuna.trial.TrialState.FAIL if one.value is None else optuna.trial.TrialState.COMPLETE
        study.add_trial(
            optuna.trial.create_trial(state=state, value=one.value, params=params, distributions=distributions)
        )
    return study


def _params(space: Space, point: Point) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
    """Return the values that are within Optuna's distributions: a default may lie outside its range."""
    params: dict[str, Any] = {}
    distributions: dict[str, BaseDistribution] = {}
    for one in space.dimensions:
        value = point[one.name]
        if all(rule.holds(point) for rule in one.when) and _inside(one, value):
            params[one.name], distributions[one.name] = value, distribution(one)
    return params, distributions


def _inside(one: Dimension, value: Scalar) -> bool:
    if not one.is_range:
        return value in one.values
    assert one.low is not None, "a range has both ends"
    assert one.high is not None, "a range has both ends"
    return isinstance(value, int | float) and one.low <= value <= one.high


def distribution(one: Dimension) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not one.is_range:
        return CategoricalDistribution(one.values)
    assert one.low is not None, "a range has both ends"
    assert one.high is not None, "a range has both ends"
    if one.is_whole:
        step = 1 if one.log or one.step is None else int(one.step)
        return IntDistribution(int(one.low), int(one.high), log=one.log, step=step)
    return FloatDistribution(float(one.low), float(one.high), log=one.log, step=None if one.log else one.step)


def _suggested(space: Space, asked: Trial) -> dict[str, Scalar]:
    """Return the point that Optuna suggests; a dimension is asked only if its conditions hold."""
    point: dict[str, Scalar] = {}
    left = list(space.dimensions)
    while left:
        ready = [one for one in left if all(_is_known(rule_names, point) for rule_names in _names_of(one))] or left
        for one in ready:
            left.remove(one)
            here = {**space.control, **point}
            if all(rule.holds(here) for rule in one.when):
                point[one.name] = _rounded(one, asked._suggest(one.name, distribution(one)))
            else:
                point[one.name] = one.default
    return point


def _names_of(one: Dimension) -> list[tuple[str, ...]]:
    return [(rule.left, str(rule.right)) if rule.is_name else (rule.left,) for rule in one.when]


def _is_known(names: Sequence[str], point: Mapping[str, Scalar]) -> bool:
    return all(name in point for name in names)


def _rounded(one: Dimension, value: Any) -> Scalar:
    if one.is_range and not one.is_whole:
        return float(f"{float(value):.6g}")
    return int(value) if one.is_range else value
