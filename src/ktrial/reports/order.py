# SPDX-License-Identifier: Apache-2.0
"""The order of a report's contents: what decides comes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ktrial.judge.model.comparison import Comparison, OutcomeComparison, Role
from ktrial.judge.model.judgement import Screened
from ktrial.kit.finding import Finding, FindingLevel

_ROLES: Mapping[Role, int] = {"primary": 0, "secondary": 1, "guard": 2, "exploratory": 3}
_LEVELS: Mapping[FindingLevel, int] = {"refuse": 0, "suspect": 1, "note": 2}


def by_weight(outcomes: Iterable[OutcomeComparison]) -> list[OutcomeComparison]:
    """Sort outcomes: primary, secondary, guards, exploratory."""
    return sorted(outcomes, key=lambda outcome: _ROLES[outcome.role])


def asked_only(comparison: Comparison) -> Comparison:
    """Return a trial without its exploratory outcomes, which get no verdict; other comparisons unchanged."""
    if comparison.trial is None:
        return comparison
    return replace(comparison, outcomes=tuple(one for one in comparison.outcomes if one.role != "exploratory"))


def explored(comparison: Comparison) -> list[OutcomeComparison]:
    """Return the exploratory outcomes of a trial."""
    return [] if comparison.trial is None else [one for one in comparison.outcomes if one.role == "exploratory"]


def short_names(outcomes: Iterable[OutcomeComparison]) -> Mapping[str, str]:
    """Return the names to show: without the benchmark if all outcomes belong to the same one."""
    every = list(outcomes)
    one = len({outcome.benchmark for outcome in every}) == 1
    return {outcome.name: outcome.outcome if one else outcome.name for outcome in every}


def by_level(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings, the gravest first."""
    return sorted(findings, key=lambda finding: _LEVELS[finding.level])


def weightiest(screening: Iterable[Screened]) -> list[Screened]:
    """Sort the outcomes of a blame by role; leave out exploratory outcomes unless they name a suspect."""
    shown = [one for one in screening if one.role != "exploratory" or one.named]
    return sorted(shown, key=lambda one: (_ROLES[one.role], one.outcome))
