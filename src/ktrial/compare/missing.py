# SPDX-License-Identifier: Apache-2.0
"""The rows of a comparison in which an arm has no value, shown between the other rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ktrial.judge.model.comparison import ArmSource, Comparison, OutcomeComparison

#: At most this many holes are named in an answer.
_NAMED = 3


class HoleRow(NamedTuple):
    """A row for an outcome that has no value in `arm` or in the control.

    For a benchmark without any value, `outcome` is None and `arm` names all arms that requested it.
    """

    benchmark: str
    outcome: str | None
    arm: str
    n_arm: int
    n_control: int
    why: str

    @property
    def name(self) -> str:
        return self.benchmark if self.outcome is None else f"{self.benchmark}.{self.outcome}"


def hole_rows(found: Comparison) -> tuple[HoleRow, ...]:
    """Return rows for outcomes that the control or an arm lacks, then rows for benchmarks that no arm has."""
    if not found.arms:
        return ()
    control, *arms = sorted(found.arms, key=lambda one: one.arm != found.control)
    rows = [row for outcome in found.outcomes for row in _of_outcome(outcome, control, arms)]
    shown = {outcome.benchmark for outcome in found.outcomes}
    wanted = dict.fromkeys(name for one in (control, *arms) for name in one.missing if name not in shown)
    return (*rows, *(_nowhere(name, (control, *arms)) for name in wanted))


def holes_sentence(rows: Iterable[HoleRow]) -> str:
    """Return a sentence on missing values, to end an answer; an empty text if no value is missing."""
    found = tuple(rows)
    some = dict.fromkeys(row.name for row in found if row.outcome is not None)
    none = dict.fromkeys(row.name for row in found if row.outcome is None)
    counted = (("measured on one side only", some, "outcome"), ("requested and measured nowhere", none, "benchmark"))
    parts = [f"{what}: {_count_with_names(list(names), kind)}" for what, names, kind in counted if names]
    told = "; ".join(parts)
    return f" {told[0].upper()}{told[1:]}." if told else ""


def _count_with_names(names: list[str], kind: str) -> str:
    """Return text like `2 outcomes (a, b)`; many are counted without names."""
    named = f" ({', '.join(names)})" if len(names) <= _NAMED else ""
    return f"{len(names)} {kind}{'s'[: len(names) != 1]}{named}"


def _of_outcome(outcome: OutcomeComparison, control: ArmSource, arms: list[ArmSource]) -> Iterator[HoleRow]:
    counts = {values.arm: values.n for values in outcome.arms}
    told = {contrast.arm for contrast in outcome.contrasts}
    for arm in arms:
        lacking = [one for one in (control, arm) if one.arm not in counts]
        if counts and lacking and arm.arm not in told:
            yield HoleRow(
                benchmark=outcome.benchmark,
                outcome=outcome.outcome,
                arm=arm.arm,
                n_arm=counts.get(arm.arm, 0),
                n_control=counts.get(control.arm, 0),
                why=f"not measured in {_reasons(outcome.benchmark, lacking)}",
            )


def _nowhere(benchmark: str, arms: tuple[ArmSource, ...]) -> HoleRow:
    wanted = [one for one in arms if benchmark in one.missing]
    return HoleRow(
        benchmark=benchmark,
        outcome=None,
        arm=", ".join(one.arm for one in wanted),
        n_arm=0,
        n_control=0,
        why=f"not measured in {_reasons(benchmark, wanted)}",
    )


def _reasons(benchmark: str, lacking: list[ArmSource]) -> str:
    """Return text like `stock and tuned (perf is not installed)`, arms with the same reason together."""
    by_reason: dict[str | None, list[str]] = {}
    for one in lacking:
        by_reason.setdefault(one.missing.get(benchmark), []).append(one.arm)
    return "; ".join(
        " and ".join(names) + (f" ({reason})" if reason is not None else "") for reason, names in by_reason.items()
    )
