# SPDX-License-Identifier: Apache-2.0
"""Plans of trials: what a trial will cost and which effects it can detect, given a noise profile."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from ktrial.judge.sequential import as_array, looks
from ktrial.judge.stats.critical import LOOKS
from ktrial.kit.errors import BadInput

#: Default numbers of blocks, by name.
BUDGETS = {"quick": 9, "default": 20, "thorough": 40}
FEWEST_BLOCKS = 7
#: A pilot is short and quieter than the trial, so its spread is multiplied by this.
_PILOT_FACTOR = 1.25
_MAD = 1.4826
#: Normal quantiles for 5 % two-sided and 90 % power, and for showing equivalence.
_DETECT_Z, _EQUIVALENT_Z = 3.24, 3.60
#: The price of early looks: the number of blocks times the factor, plus the extra blocks.
_LOOKING_FACTOR, _LOOKING_BLOCKS = 1.15, 3
_MOST_RUNS_PER_VISIT = 4
#: Warm-up: a run is warm if it lies within this many robust sd of the median of the next runs; at most six are dropped.
_WARM_SD, WARM_NEXT, WARM_MOST = 2.0, 3, 6
#: Runs that are dropped as warm-up if no profile exists yet.
WARM_WITHOUT_PROFILE = 2
#: Average length of simulated trials: the effect in sd of a block's difference, and the blocks.
_MEAN_BLOCKS = ((0.5, 35.0), (0.6, 23.0), (0.8, 15.0), (1.0, 10.5), (1.2, 8.4), (1.5, 7.5), (2.0, 7.0))


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The blocks that a trial needs, and the effect that it can detect.

    `needed` blocks detect the effect, `needed_equivalent` blocks show that no effect exceeds the margin. `cap` is
    `needed`, rounded up to the next cap of the tables, if the budget allows it. `smallest_effect` is the relative
    effect (0.05 is 5 %) that `cap` blocks detect with 90 % power.
    """

    sd: float
    needed: int
    needed_equivalent: int
    cap: int
    smallest_effect: float


def block_sd(differences: Sequence[float]) -> float:
    """Return the spread of block differences for planning, from at least two A/A blocks (both arms the same)."""
    values = as_array(differences)
    if len(values) < 2:
        raise BadInput("cannot estimate the noise from fewer than two blocks", hint="measure ten blocks")
    if not np.isfinite(values).all():
        raise BadInput(
            f"cannot estimate the noise from {len(values)} blocks: not every difference is a finite number",
            hint="leave out blocks with a value of 0 or less, which has no ratio",
        )
    return _PILOT_FACTOR * max(float(values.std(ddof=1)), _MAD * float(np.median(np.abs(values))))


def blocks_to_detect(sd: float, effect: float) -> int:
    """Return how many blocks detect a relative effect with 90 % power."""
    return _blocks(_DETECT_Z, sd, _log_of(effect, "effect to detect"))


def blocks_to_show_equivalence(sd: float, margin: float) -> int:
    """Return how many blocks show that equal arms differ by less than a relative margin."""
    return _blocks(_EQUIVALENT_Z, sd, _log_of(margin, "margin"))


def smallest_effect(sd: float, cap: int) -> float:
    """Return the relative effect that `cap` blocks detect with 90 % power; infinite for too few blocks."""
    if cap <= _LOOKING_BLOCKS:
        return math.inf
    return math.expm1(_DETECT_Z * sd / math.sqrt((cap - _LOOKING_BLOCKS) / _LOOKING_FACTOR))


def affordable_cap(needed: int, comparisons: int = 1) -> int | None:
    """Return the smallest cap of the tables with at least `needed` blocks; None if there is none."""
    return next((cap for cap in LOOKS if cap >= needed and _has_look(cap, comparisons)), None)


def expected_blocks(sd: float, effect: float, cap: int) -> int:
    """Return the approximate number of blocks that a trial takes if `effect` is the true relative effect."""
    if sd == 0:
        return min(cap, FEWEST_BLOCKS)
    sizes, blocks = zip(*_MEAN_BLOCKS, strict=True)
    size = _log_of(effect, "effect to detect") / sd
    # With an effect below the table's range, a trial runs to its cap.
    return cap if size < sizes[0] else min(cap, math.ceil(float(np.interp(size, sizes, blocks))))


def forecast(
    differences: Sequence[float],
    *,
    detect: float,
    margin: float,
    budget: int = BUDGETS["default"],
    comparisons: int = 1,
) -> Forecast:
    """Return the forecast of a trial. Raise BadInput if the budget is too small for any verdict."""
    sd = block_sd(differences)
    needed = blocks_to_detect(sd, detect)
    able = _deciding_caps(budget, comparisons)
    cap = next((cap for cap in able if cap >= needed), able[-1])
    return Forecast(
        sd=sd,
        needed=needed,
        needed_equivalent=blocks_to_show_equivalence(sd, margin),
        cap=cap,
        smallest_effect=smallest_effect(sd, cap),
    )


def largest_cap(budget: int, comparisons: int = 1) -> int:
    """Return the largest cap within a budget. Raise BadInput if the budget is too small for any verdict."""
    return _deciding_caps(budget, comparisons)[-1]


def _deciding_caps(budget: int, comparisons: int) -> list[int]:
    """Return the caps within a budget that allow a verdict. Raise BadInput if there is none."""
    affordable = [cap for cap in LOOKS if cap <= budget]
    if not affordable:
        raise BadInput(f"{budget} blocks are too few (minimum {FEWEST_BLOCKS})", hint="allow more blocks with --budget")
    able = [cap for cap in affordable if _has_look(cap, comparisons)]
    if not able:
        looks(affordable[-1], comparisons)
    return able


def cap_from_first_blocks(first: Sequence[Sequence[float]], detect: float, budget: int, comparisons: int = 1) -> int:
    """Return the cap of a stored trial whose protocol fixes none, from the first blocks of each comparison.

    ktrial no longer starts such trials: without a noise profile, the cap is the budget. Only the sizes of the
    differences count, never their signs, so the choice cannot favour a claim.
    """
    spread = max(math.sqrt(float(np.mean(as_array(values) ** 2))) for values in first)
    needed = blocks_to_detect(_PILOT_FACTOR * spread, detect)
    able = _deciding_caps(budget, comparisons)
    return next((cap for cap in able if cap >= needed), able[-1])


def _has_look(cap: int, comparisons: int) -> bool:
    try:
        looks(cap, comparisons)
    except BadInput:
        return False
    return True


def runs_per_visit(switch_s: float, run_s: float, run_sd: float | None = None, visit_sd: float | None = None) -> int:
    """Return the most efficient number of runs per visit, given what a change and a run cost.

    `run_sd` and `visit_sd` count as equal if one of them is unknown. Raise BadInput for impossible times.
    """
    if switch_s < 0 or run_s <= 0:
        raise BadInput(
            f"cannot plan a trial with {switch_s:g} s for a change and {run_s:g} s for a run",
            hint="give the change 0 s or more, and the run more than 0 s",
        )
    ratio = 1.0 if run_sd is None or visit_sd is None else math.inf if visit_sd == 0 else run_sd / visit_sd
    wanted = math.sqrt(switch_s / run_s) * ratio
    return _MOST_RUNS_PER_VISIT if wanted >= _MOST_RUNS_PER_VISIT else max(1, round(wanted))


def is_warm(score: float, following: Sequence[float], robust_sd: float) -> bool:
    """Return whether the score of a warm-up run is close to the scores that followed."""
    return abs(score - float(np.median(as_array(following)))) <= _WARM_SD * robust_sd


def _blocks(z: float, sd: float, log_effect: float) -> int:
    if not math.isfinite(sd) or sd < 0:
        raise BadInput(f"cannot plan a trial: the spread of its blocks is {sd}", hint="measure the noise again")
    # Slightly less, so that rounding alone never costs a block.
    return max(FEWEST_BLOCKS, math.ceil(_LOOKING_FACTOR * (z * sd / log_effect) ** 2 + _LOOKING_BLOCKS - 1e-9))


def _log_of(relative: float, what: str) -> float:
    if not relative > 0 or not math.isfinite(relative):
        raise BadInput(f"{what}: expected a value above 0, got {relative:g}", hint="for example 5%")
    return math.log1p(relative)
