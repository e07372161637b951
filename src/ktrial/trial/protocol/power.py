# SPDX-License-Identifier: Apache-2.0
"""Plans a trial from the noise of existing runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ktrial.compare.arms import Arm, ComparedRun, places
from ktrial.compare.series import ComparedSeries, margin_of, series_of
from ktrial.judge.model.power import Power, PowerAsked
from ktrial.judge.planning import (
    FEWEST_BLOCKS,
    block_sd,
    blocks_to_detect,
    blocks_to_show_equivalence,
    smallest_effect,
)
from ktrial.judge.stats.critical import LOOKS
from ktrial.kit.errors import BadInput
from ktrial.kit.percentile import MARGIN
from ktrial.kit.tables import paragraph, table

#: Number of pairs of equal runs from which to estimate the spread; an estimate from fewer pairs is a guess.
PROFILE_BLOCKS = 10


def power_of(arms: Sequence[Arm], asked: PowerAsked) -> tuple[Power, ...]:
    order = places(arms)
    return tuple(_power(arm, series, order, asked) for arm in arms for series in series_of([arm]).values())


def power_of_spread(run_sd: float, asked: PowerAsked) -> Power:
    """Return a plan from the relative spread of runs alone, as if each block were the difference of two runs."""
    spread = math.sqrt(2) * math.log1p(run_sd)
    margin = MARGIN if asked.margin is None else asked.margin
    return _planned(Power(arm="", outcome="any", pairs=0, margin=margin), spread, asked)


def _power(arm: Arm, series: ComparedSeries, order: Mapping[str, int], asked: PowerAsked) -> Power:
    found = series.independent(arm.name)
    runs = sorted(found, key=lambda one: order.get(one[0].name, 0))
    values = [value for _, value in runs]
    power = Power(arm=arm.name, outcome=series.name, pairs=len(runs) // 2, margin=margin_of(series, asked.margin))
    if series.mixed is not None:
        return _without(power, series.mixed)
    if min(values) <= 0:
        return _without(
            power, "some values are zero or negative and have no ratio; a trial of a count needs at least 20 blocks"
        )
    if power.pairs < 2:
        return _without(
            power, f"{len(runs)} runs are too few to estimate the noise: a plan needs 20, which make 10 pairs"
        )
    spread = block_sd(list(_differences(runs)))
    if spread == 0:
        return _without(power, "the runs show no spread: the tool's resolution may be coarser than the noise")
    planned = _planned(power, spread, asked)
    if power.pairs < PROFILE_BLOCKS:
        return _without(planned, f"only {power.pairs} pairs: the noise is a guess")
    return planned


def _without(power: Power, why: str) -> Power:
    return msgspec.structs.replace(power, why=why)


def _planned(power: Power, spread: float, asked: PowerAsked) -> Power:
    needed = blocks_to_detect(spread, asked.detect)
    affordable = [cap for cap in LOOKS if cap <= asked.budget]
    if not affordable:
        raise BadInput(
            f"{asked.budget} blocks are too few (minimum {FEWEST_BLOCKS})", hint="allow more blocks with --budget"
        )
    cap = next((cap for cap in affordable if cap >= needed), affordable[-1])
    return msgspec.structs.replace(
        power,
        block_sd=spread,
        needed=needed,
        needed_equivalent=blocks_to_show_equivalence(spread, power.margin),
        cap=cap,
        smallest_effect=smallest_effect(spread, cap),
    )


def _differences(runs: Sequence[tuple[ComparedRun, float]]) -> Iterator[float]:
    """Yield the differences of successive runs, which stand for blocks of two equal arms. Each run counts once."""
    for (_, one), (_, other) in zip(runs[::2], runs[1::2], strict=False):
        yield math.log(other / one)


def power_text(found: Sequence[Power], asked: PowerAsked, *, width: int) -> str:
    """Return how many blocks each outcome needs, and the smallest effect that the planned blocks detect."""
    detect = f"{100 * asked.detect:g} %"
    head = (
        f"Blocks that a trial needs to detect {detect} with 90 % power, and to show that no difference exceeds the "
        f"margin. The last column has the smallest effect that the planned blocks detect, at most {asked.budget} of "
        "them. A block is one visit to every arm."
    )
    several = len({one.arm for one in found}) > 1
    names = [f"{one.arm} {one.outcome}" if several else one.outcome for one in found]
    rows = [(name, *_row(one)) for name, one in zip(names, found, strict=True)]
    headers = ("outcome", "pairs", "noise", f"to find {detect}", "to show equal", "seen at least")
    parts = [paragraph(head, width=width), table(headers, rows, width=width)]
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.why:
            reasons.setdefault(one.why, []).append(one.outcome)
    parts += [
        paragraph(f"{'all' if len(told) == len(found) > 1 else ', '.join(told)}: {why}", width=width)
        for why, told in reasons.items()
    ]
    beyond = [one for one in found if one.needed is not None and one.cap is not None and one.needed > one.cap]
    if beyond:
        parts.append(
            paragraph(
                f"{asked.budget} blocks cannot detect {detect} in {len(beyond)} of {len(found)} outcomes. "
                "Longer runs, pinned CPUs, a quieter machine or another outcome have less noise.",
                width=width,
            )
        )
    return "\n\n".join(parts) + "\n"


def _row(one: Power) -> tuple[str, ...]:
    if one.block_sd is None or one.smallest_effect is None:
        return (str(one.pairs), "-", "-", "-", "-")
    return (
        str(one.pairs) if one.pairs else "-",
        f"{100 * one.block_sd:.2g} %",
        str(one.needed),
        f"{one.needed_equivalent} ({100 * one.margin:g} %)",
        f"{100 * one.smallest_effect:.2g} % in {one.cap}",
    )
