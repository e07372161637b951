# SPDX-License-Identifier: Apache-2.0
"""Validity checks of a trial, each with a fixed limit. A finding of level `refuse` makes the trial `not comparable`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ktrial.judge.sequential import Array
from ktrial.judge.stats.modes import two_modes, within_blocks
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import ANOTHER
from ktrial.kit.startup import load_special
from ktrial.machine.gates import Readings

#: This many failures in one arm and none in the other decide the trial; chance gives a flaky tool fewer.
DECIDING_FAILURES = 6
_MOST_VOID = 0.20
#: This many blocks voided by a knob that changed make the trial not comparable.
_KNOB_VOIDS = 2
_P_VOIDS, _P_CARRY = 0.01, 0.01
_HOTTER_C = 5.0
_NOISIER = 2.0
_MAD = 1.4826


def fisher_p(first: int, of_first: int, second: int, of_second: int) -> float:
    """Return the two-sided p of Fisher's exact test that two shares are equal."""
    total, hits = of_first + of_second, first + second
    low, high = max(0, hits - of_second), min(hits, of_first)
    ways = [math.comb(of_first, k) * math.comb(of_second, hits - k) for k in range(low, high + 1)]
    seen = math.comb(of_first, first) * math.comb(of_second, second)
    # Integers compare exactly, so tables as likely as the observed one are counted.
    return sum(one for one in ways if one <= seen) / math.comb(total, hits)


def failures(arm: str, against: str, failed: Mapping[str, int]) -> Finding | None:
    ours, theirs = failed[arm], failed[against]
    if bool(ours) == bool(theirs):
        return None
    name = arm if ours else against
    count = max(ours, theirs)
    return Finding(
        kind="failures",
        level="suspect",
        sentence=f"{count} run{'s'[: count != 1]} of {name} gave no value, none of {against if ours else arm}",
        values={arm: float(ours), against: float(theirs)},
    )


def voids(
    by_arm: Mapping[str, int], visits: Mapping[str, int], drawn: int, cap: int | None, paused: int = 0
) -> list[Finding]:
    """Return findings on too many void blocks and on arms that cause them. `cap` is None once the trial is over.

    Blocks in which the user `paused` the trial are not the machine's fault, but must not fall on one arm more than
    others.
    """
    count = sum(by_arm.values()) - paused
    found = []
    share = count / (cap + count) if cap is not None else count / drawn if drawn else 0.0
    if share > _MOST_VOID:
        sentence = f"{count} of {drawn} blocks are void (limit {_MOST_VOID:.0%})"
        found.append(Finding(kind="voids", level="refuse", sentence=sentence, values=by_arm))
    names = sorted(visits)
    for name in names:
        rest = [other for other in names if other != name]
        others, other_visits = sum(by_arm.get(other, 0) for other in rest), sum(visits[other] for other in rest)
        ours = by_arm.get(name, 0)
        is_more = ours * other_visits > others * visits[name]
        if is_more and (p := fisher_p(ours, visits[name], others, other_visits)) < _P_VOIDS:
            sentence = f"visits to {name} voided their block more often than by chance (p = {p:.2g})"
            found.append(Finding(kind="voids-by-arm", level="refuse", sentence=sentence, values=by_arm))
    return found


def knob_voids(reasons: Sequence[str]) -> Finding | None:
    """Return a finding if settings changed in more than one block; `reasons` has a sentence for each such block."""
    if len(reasons) < _KNOB_VOIDS:
        return None
    sentence = f"settings changed in {len(reasons)} blocks (limit {_KNOB_VOIDS - 1}), the last: {reasons[-1]}"
    return Finding(kind="arm-not-in-force", level="refuse", sentence=sentence)


def identity(runs: Sequence[tuple[str, Mapping[str, str]]], varies: Sequence[str]) -> list[Finding]:
    """Return a finding for each identity that must be equal in all runs but differs. `runs` are (arm, identities)."""
    seen: dict[str, dict[str, set[str]]] = {}
    for arm, known in runs:
        for key, value in known.items():
            seen.setdefault(key, {}).setdefault(arm, set()).add(value)
    found = []
    for key in sorted(set(seen) - set(varies)):
        if len(set().union(*seen[key].values())) > 1:
            by_arm = {arm: ", ".join(sorted(values)) for arm, values in sorted(seen[key].items())}
            shown = "; ".join(f"{value} in {arm}" for arm, value in by_arm.items())
            found.append(Finding(kind="identity", level="refuse", sentence=f"{key} differs: {shown}", values=by_arm))
    return found


def another(failures_of: Sequence[tuple[str, str | None]]) -> Finding | None:
    """Return a finding if a tool reports that it measured something other than the requested work.

    `failures_of` has the arm of each run and why the run failed, None if it did not.
    """
    found = [(arm, why.partition(ANOTHER)[2]) for arm, why in failures_of if why is not None and ANOTHER in why]
    if not found:
        return None
    counts = Counter(arm for arm, _ in found)
    shown = "; ".join(f"{count} of {arm}" for arm, count in sorted(counts.items()))
    return Finding(
        kind="identity",
        level="refuse",
        sentence=f"runs measured something else ({shown}){found[0][1]}",
        values={arm: float(count) for arm, count in counts.items()},
    )


def temperature(readings: Mapping[str, Sequence[Readings]]) -> Finding | None:
    """Return a finding if runs of one arm start hotter. Because arms alternate, the cause is the arm itself."""
    medians = {}
    for arm, rows in readings.items():
        known = [float(value) for row in rows if isinstance(value := row.get("temperature_c"), int | float)]
        if known:
            medians[arm] = float(np.median(known))
    if len(medians) < 2:
        return None
    low, high = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
    apart = medians[high] - medians[low]
    if apart <= _HOTTER_C:
        return None
    sentence = f"runs of {high} start {apart:.1f} °C hotter than those of {low}: the arm changes the temperature"
    return Finding(kind="heat", level="suspect", sentence=sentence, values=medians)


class CarryOverFit(NamedTuple):
    """The part of an arm's effect that lasts into the next run, on the scale of the scores, with its standard error."""

    estimate: float
    error: float
    freedom: int

    @property
    def t(self) -> float:
        return self.estimate / self.error

    @property
    def p(self) -> float:
        return 2 * float(load_special().stdtr(self.freedom, -abs(self.t)))


def fit_carry_over(
    scores: Array, arms: Sequence[str], arm: str, control: str, *, others_stay: bool = False
) -> CarryOverFit | None:
    """Return how much of an arm's effect the next run still shows; None if there are too few runs.

    The result comes from a least-squares fit of each change of score on the changes of arm at this and the previous
    run. With `others_stay`, the effects of other arms may last too, which takes more runs.
    """
    others = sorted(set(arms) - {control, arm})
    states = np.array([[name == one for one in (arm, *others)] for name in arms], dtype=np.float64)
    if len(scores) < 3 or arm not in arms or control not in arms:
        return None
    changes = np.diff(states, axis=0)
    rivals = changes[:-1, 1:] if others_stay else changes[:-1, :0]
    design = np.column_stack((changes[1:, 0], changes[:-1, 0], changes[1:, 1:], rivals, np.ones(len(changes) - 1)))
    answer = np.diff(scores)[1:]
    free = len(answer) - design.shape[1]
    if free < 4 or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    inverse = np.linalg.inv(design.T @ design)
    fitted = inverse @ (design.T @ answer)
    rest = answer - design @ fitted
    variance = float(rest @ rest) / free * float(inverse[1, 1])
    if variance <= 0:
        return None
    return CarryOverFit(float(fitted[1]), math.sqrt(variance), free)


def carry_over_p(scores: Array, arms: Sequence[str], arm: str, control: str) -> float | None:
    """Return the p of the hypothesis that an arm's effect ends with its run; None if there are too few runs."""
    found = fit_carry_over(scores, arms, arm, control)
    return None if found is None else found.p


def carry_over(scores: Array, arms: Sequence[str], arm: str, control: str) -> Finding | None:
    """Return a finding if the effect of an arm lasts into the next run."""
    p = carry_over_p(scores, arms, arm, control)
    if p is None or p >= _P_CARRY:
        return None
    return Finding(
        kind="carry-over",
        level="suspect",
        sentence=f"runs after a run of {arm} still show its effect (p = {p:.2g}), so the estimate is too close to "
        "zero: double the settle time and repeat the trial",
        values={"p": p},
    )


def noise(differences: Array, profile: Sequence[float] | None) -> Finding | None:
    """Return a finding if the trial is much noisier than its noise profile."""
    if not profile or not len(differences):
        return None
    now = robust_sd(differences - np.median(differences))
    before = robust_sd(np.asarray(profile, dtype=np.float64))
    if now <= _NOISIER * before:
        return None
    sentence = (
        f"blocks differ by {now:.1%} (robust sd), but by {before:.1%} in the noise profile: measure the profile again"
    )
    return Finding(kind="noise", level="suspect", sentence=sentence, values={"trial": now, "profile": before})


def robust_sd(centred: Array) -> float:
    """Return 1.4826 times the median absolute value, which estimates the sd of normal values around zero."""
    return _MAD * float(np.median(np.abs(centred)))


def modes(logs_by_arm: Mapping[str, Array], blocks: Mapping[str, Sequence[int]]) -> Finding | None:
    """Return a finding if values of an arm form two groups that blocks do not explain."""
    logs_by_arm = within_blocks(logs_by_arm, blocks)
    found = {arm: seen for arm, logs in logs_by_arm.items() if (seen := two_modes(logs)) is not None and seen.clear}
    if not found:
        return None
    clearest = max(found, key=lambda arm: found[arm].gain)
    cut = (found[clearest].low + found[clearest].high) / 2
    shares = {arm: float((logs < cut).mean()) for arm, logs in logs_by_arm.items() if len(logs)}
    listed = ", ".join(f"{share:.0%} in {arm}" for arm, share in shares.items())
    factor = math.exp(found[clearest].high - found[clearest].low)
    sentence = f"values fall into two groups, {factor:.3g} times apart (in the lower one: {listed}): pin the CPUs"
    return Finding(kind="two-modes", level="suspect", sentence=sentence, values=shares)
