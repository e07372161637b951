# SPDX-License-Identifier: Apache-2.0
"""Comparisons as `ktrial compare` makes them: small ones, large ones, and one with hostile texts everywhere."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ktrial.judge.model.comparison import (
    Anova,
    AnovaRow,
    ArmSource,
    ArmValues,
    Check,
    Comparison,
    Contrast,
    Exclusion,
    OutcomeComparison,
    Pair,
    Pairwise,
    Point,
    Role,
    StateChange,
    TestResult,
)
from ktrial.judge.model.verdict import Effect, Verdict, WorthIt
from ktrial.kit.finding import Finding
from ktrial.kit.outcome import Direction, Unit

#: Text that would end markup, scripts, attributes, tables, shell words and terminal sequences if it were not escaped.
HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;]]>-->"
    "\x1b[31m\x07\x00\x9b2J\u202e|\n`$(id)`\\[x](javascript:1)"
)


def arm_values(arm: str, points: Sequence[Point]) -> ArmValues:
    values = [point.value for point in points]
    sd = statistics.stdev(values) if len(values) > 1 else None
    mean = statistics.fmean(values)
    return ArmValues(
        arm=arm,
        n=len(values),
        mean=mean,
        median=statistics.median(values),
        sd=sd,
        cv=None if sd is None or mean == 0 else sd / abs(mean),
        minimum=min(values),
        maximum=max(values),
        points=tuple(points),
    )


def contrast(
    arm: str, control: str, estimate: float, half: float, *, margin: float, n: int, blocks: int | None, **more: Any
) -> Contrast:
    """Return a contrast whose verdict follows from the interval, as in statistics.md section 5."""
    low, high, room = estimate - half, estimate + half, math.log1p(margin)
    verdict: Verdict = "inconclusive"
    worth: WorthIt | None = None
    if -room < low and high < room:
        verdict = "equivalent"
    elif low > 0 or high < 0:
        verdict = "better" if low > 0 else "worse"
        worth = "yes" if min(abs(low), abs(high)) > room else "likely" if abs(estimate) > room else "unclear"
    told: dict[str, Any] = {
        "arm": arm,
        "control": control,
        "verdict": verdict,
        "why": {
            "better": "the interval lies above zero",
            "worse": "the interval lies below zero",
            "equivalent": "the whole interval lies inside the margin",
        }.get(verdict, "the interval holds both no effect and effects beyond the margin"),
        "effect": Effect(estimate=estimate, low=low, high=high, method="Hodges-Lehmann"),
        "worth": worth,
        "n_arm": n,
        "n_control": n,
        "blocks": blocks,
        "test": TestResult(
            name="Wilcoxon signed-rank, exact",
            statistic="W",
            value=12.0,
            p=0.0009765625,
            floor=0.00048828125,
            p_adjusted=0.0039,
            floor_adjusted=0.00195,
            checks=(Check(name="drift", holds=True, value=0.41, sentence="No drift over the order of runs (p 0.41)."),),
        ),
        "sentence": f"{arm} is {verdict} than {control}.",
    }
    return Contrast(**(told | more))


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """An outcome to make up: `typical` of the control, and by arm the improvement (logarithm)."""

    outcome: str
    unit: Unit = "s"
    direction: Direction = "lower"
    role: Role = "exploratory"
    typical: float = 0.0125
    noise: float = 0.02
    margin: float = 0.02
    better_by: Mapping[str, float] = {}


def outcome(wanted: Wanted, arms: Sequence[str], blocks: int, seed: int) -> OutcomeComparison:
    """Return blocked runs with drift and with a warmer machine towards the end."""
    draw = random.Random(f"{seed} {wanted.outcome}")
    points: dict[str, list[Point]] = {arm: [] for arm in arms}
    place = 0
    for block in range(1, blocks + 1):
        order = list(arms)
        random.Random(f"{seed} {block}").shuffle(order)
        for arm in order:
            place += 1
            change = draw.gauss(wanted.better_by.get(arm, 0.0) - 0.03 * block / blocks, wanted.noise)
            value = wanted.typical * math.exp(-change if wanted.direction == "lower" else change)
            points[arm].append(
                Point(
                    value=value,
                    run=f"20261121T214239Z-1f2e3d/{place}",
                    place=place,
                    block=str(block),
                    temperature_c=round(44 + 6 * block / blocks + draw.gauss(0, 0.5), 1),
                )
            )
    half = 2.2 * wanted.noise * math.sqrt(2 / blocks)
    return OutcomeComparison(
        benchmark="memory-pressure",
        outcome=wanted.outcome,
        unit=wanted.unit,
        direction=wanted.direction,
        role=wanted.role,
        margin=wanted.margin,
        arms=tuple(arm_values(arm, points[arm]) for arm in arms),
        contrasts=tuple(
            contrast(
                arm,
                arms[0],
                wanted.better_by.get(arm, 0.0) + draw.gauss(0, half / 4),
                half,
                margin=wanted.margin,
                n=blocks,
                blocks=blocks,
            )
            for arm in arms[1:]
        ),
        better="Windows open with less delay while memory is short.",
        worse="Windows open later while memory is short.",
        blind_spots="Says nothing of machines with more memory than the load needs.",
    )


def _sources(arms: Sequence[str], runs: int) -> tuple[ArmSource, ...]:
    return tuple(
        ArmSource(
            arm=arm,
            sources=("20261121T214239Z-1f2e3d",),
            runs=runs,
            failed=int(place == 1),
            void=0,
            boots=1,
            machines=1,
            known={
                "kernel": "6.12.48+deb13-amd64",
                "cpu": "AMD Ryzen 7 5800X, 16 CPUs",
                "governor": "performance",
                "tool": "schbench 1.0",
                "start temperature": f"{44 + 3 * place} °C",
            }
            | ({"battery": "none"} if place == 0 else {}),
        )
        for place, arm in enumerate(arms)
    )


TRADE = (
    Wanted(outcome="latency.p50", role="primary", typical=0.0041, noise=0.015, better_by={"wsf500": 0.128}),
    Wanted(outcome="latency.p90", role="secondary", typical=0.0093, noise=0.03, better_by={"wsf500": 0.055}),
    Wanted(
        outcome="latency.p99", role="secondary", typical=0.021, noise=0.05, margin=0.1, better_by={"wsf500": -0.212}
    ),
    Wanted(
        outcome="load.throughput",
        role="guard",
        unit="1/s",
        direction="higher",
        typical=48200.0,
        noise=0.01,
        margin=0.05,
        better_by={"wsf500": -0.004},
    ),
    Wanted(outcome="energy", unit="J", typical=212.0, noise=0.06, better_by={"wsf500": 0.012}),
)


def two_arms(blocks: int = 20) -> Comparison:
    """Return a trade-off: the median is better, the tail worse, throughput equivalent, energy open."""
    arms = ("stock", "wsf500")
    whole = Comparison(
        title="vm.watermark_scale_factor 500 against stock",
        answer="On this boot, wsf500 has 12 % less p50 latency than stock (95 % interval 11 % to 13 % less), and 24 % "
        "more p99 latency.",
        scope="this boot of this machine, 20 blocks in random order",
        control="stock",
        arms=_sources(arms, blocks),
        outcomes=tuple(outcome(wanted, arms, blocks, 7) for wanted in TRADE),
        findings=(
            Finding(
                kind="replication",
                level="note",
                sentence="All runs are of one boot: nothing is said of other boots.",
            ),
            Finding(
                kind="temperature",
                level="suspect",
                sentence="wsf500 began its runs 3 °C warmer than stock.",
                values={"stock": 44.2, "wsf500": 47.3},
            ),
        ),
        state_changes=(
            StateChange(
                arm="wsf500", name="vm.watermark_scale_factor", control_value="10", arm_value="500", declared="protocol"
            ),
            StateChange(
                arm="wsf500", name="vm.min_free_kbytes", control_value="67584", arm_value="90112", declared=None
            ),
        ),
        reproduce=(
            "ktrial bench --suite memory-pressure --label stock",
            "ktrial apply vm.watermark_scale_factor=500",
            "ktrial compare stock wsf500 --primary memory-pressure.latency.p50",
        ),
        versions={"ktrial": "0.1.0", "schbench": "1.0", "protocol": "sha256:4a1f0e"},
    )
    excluded = Exclusion(
        what="run 20261121T214239Z-1f2e3d/7",
        reason="a backup ran at that time",
        runs=("20261121T214239Z-1f2e3d/7",),
        changed=("memory-pressure.latency.p90",),
    )
    before = msgspec.structs.replace(whole, answer="Without the exclusion p90 is inconclusive.")
    return msgspec.structs.replace(whole, exclusions=(excluded,), without=before)


def four_arms(blocks: int = 12) -> Comparison:
    """Return stock and three arms, with all pairs and an analysis of variance."""
    arms = ("stock", "swappiness10", "mglru", "micro-stutter")
    gains = {"swappiness10": 0.004, "mglru": 0.075, "micro-stutter": 0.11}
    made = []
    for wanted in (
        Wanted(outcome="frames.late", unit="1/s", role="primary", typical=2.4, noise=0.05, better_by=gains),
        Wanted(outcome="frames.p99", role="secondary", typical=0.031, noise=0.06, margin=0.1, better_by=gains),
        Wanted(outcome="compile", typical=61.0, noise=0.01, better_by={"micro-stutter": -0.06}),
    ):
        one = outcome(wanted, arms, blocks, 11)
        made.append(msgspec.structs.replace(one, pairwise=(_pairwise(arms, gains),), anova=(_anova(),)))
    return Comparison(
        title="Four ways to keep frames on time",
        answer="Across 12 blocks of this boot, mglru and micro-stutter have fewer late frames than stock; "
        "micro-stutter compiles 6 % slower.",
        scope="this boot of this machine, 12 blocks in random order",
        control="stock",
        arms=_sources(arms, blocks),
        outcomes=tuple(made),
        findings=(),
        versions={"ktrial": "0.1.0"},
    )


def _pairwise(arms: Sequence[str], gains: Mapping[str, float]) -> Pairwise:
    pairs = []
    for place, first in enumerate(arms):
        for second in arms[place + 1 :]:
            change = gains.get(second, 0.0) - gains.get(first, 0.0)
            effect = Effect(estimate=change, low=change - 0.045, high=change + 0.045, method="Tukey HSD")
            pairs.append(
                Pair(
                    first=first,
                    second=second,
                    effect=effect,
                    statistic=abs(change) / 0.012,
                    p_adjusted=0.0007 if abs(change) > 0.045 else 0.41,
                    differs=abs(change) > 0.045,
                )
            )
    return Pairwise(method="Tukey HSD", statistic="Q", pairs=tuple(pairs))


def _anova() -> Anova:
    return Anova(
        name="Two-way analysis of variance, arm and block",
        rows=(
            AnovaRow(source="arm", df=3, sum_of_squares=0.0941, mean_square=0.03137, f=12.55, p=0.000013),
            AnovaRow(source="block", df=11, sum_of_squares=0.0312, mean_square=0.00284, f=1.13, p=0.37),
            AnovaRow(source="residual", df=33, sum_of_squares=0.0825, mean_square=0.0025, f=None, p=None),
        ),
        note="On the logarithm of values.",
    )


def large(blocks: int, outcomes: int, arms: Sequence[str] = ("stock", "tuned")) -> Comparison:
    """Return `blocks` runs of each arm, each with `outcomes` outcomes."""
    roles: tuple[Role, ...] = ("primary", "secondary", "secondary", "guard")
    wanted = [
        Wanted(
            outcome=f"outcome-{number:03}",
            role=roles[number] if number < len(roles) else "exploratory",
            typical=0.001 * (number + 1),
            better_by={arms[1]: 0.02 * (number % 5 - 2)},
        )
        for number in range(outcomes)
    ]
    return Comparison(
        title=f"{blocks * len(arms)} runs",
        answer="tuned has 4 % more latency than stock.",
        scope="this boot",
        control=arms[0],
        arms=_sources(arms, blocks),
        outcomes=tuple(outcome(one, arms, blocks, 3) for one in wanted),
        findings=(),
        versions={"ktrial": "0.1.0"},
    )


def hostile() -> Comparison:
    """Return a whole comparison with HOSTILE in every text that can come from a file."""
    document = msgspec.to_builtins(two_arms(4))
    document["outcomes"] = [*document["outcomes"], *msgspec.to_builtins(four_arms(3))["outcomes"]]
    for one in document["outcomes"]:
        one["steps"] = [contrast | {"control": "before"} for contrast in one["contrasts"]]
    document["protocol"] = {"name": "watermarks", "design": {"cap": "20"}, "secondary": ["p99"]}
    document["protocol_sha256"] = "4a1f0e"
    made: Comparison = msgspec.convert(_poisoned(document, ""), Comparison)
    return made


#: Fields that contain one word of a fixed list.
_FIXED = {"schema", "verdict", "worth", "level", "role", "unit", "direction", "scale"}
#: Names that other fields refer to. Each of them gets the hostile text at its end.
_NAMES = {"arm", "control", "first", "second"}


def _poisoned(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        fixed = {name: _poisoned(inner, name) for name, inner in value.items()}
        return (
            {name + HOSTILE: inner for name, inner in fixed.items()}
            if key in {"known", "versions", "values", "protocol"}
            else fixed
        )
    if isinstance(value, list | tuple):
        return [_poisoned(inner, key) for inner in value]
    if isinstance(value, str) and key not in _FIXED:
        return value + HOSTILE if key in _NAMES or key not in {"block"} else HOSTILE
    return value


def measured(runs: int, outcomes: int) -> Comparison:
    """Return runs in which the n-th run of either arm waited n per mille of its time for the CPU, and was throttled."""

    def known(point: Point, at: int) -> Point:
        conditions = {"pressure_cpu_share": at / 1000, "throttled_share": 0.25, "frequency_hz": 3e9}
        return msgspec.structs.replace(point, temperature_c=50 + at % 7, conditions=conditions)

    made = large(runs, outcomes)
    told = tuple(
        msgspec.structs.replace(
            outcome,
            arms=tuple(
                msgspec.structs.replace(arm, points=tuple(known(point, at) for at, point in enumerate(arm.points)))
                for arm in outcome.arms
            ),
        )
        for outcome in made.outcomes
    )
    return msgspec.structs.replace(made, outcomes=told)
