# SPDX-License-Identifier: Apache-2.0
"""In which order a report tells: what decides first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ktrial.judge.model.comparison import Comparison, OutcomeComparison, Role
from ktrial.judge.model.judgement import Screened
from ktrial.kit.finding import Finding, FindingLevel

_ROLES: Mapping[Role, int] = {"primary": 0, "secondary": 1, "guard": 2, "exploratory": 3}
_LEVELS: Mapping[FindingLevel, int] = {"refuse": 0, "suspect": 1, "note": 2}


def by_weight(outcomes: Iterable[OutcomeComparison]) -> list[OutcomeComparison]:
    """Return the primary outcome first, then secondary ones, guards, and what was only looked at."""
    return sorted(outcomes, key=lambda outcome: _ROLES[outcome.role])


def asked_only(comparison: Comparison) -> Comparison:
    """Return a trial without the outcomes that its protocol did not ask for: no verdict is given on these."""
    if comparison.trial is None:
        return comparison
    return replace(comparison, outcomes=tuple(one for one in comparison.outcomes if one.role != "exploratory"))


def explored(comparison: Comparison) -> list[OutcomeComparison]:
    """Return what a trial measured although its protocol did not ask for it."""
    return [] if comparison.trial is None else [one for one in comparison.outcomes if one.role == "exploratory"]


def short_names(outcomes: Iterable[OutcomeComparison]) -> Mapping[str, str]:
    """Return what outcomes are called: without their benchmark where all are of the same one."""
    found = list(outcomes)
    one = len({outcome.benchmark for outcome in found}) == 1
    return {outcome.name: outcome.outcome if one else outcome.name for outcome in found}


def by_level(findings: Iterable[Finding]) -> list[Finding]:
    """Return the gravest doubt first."""
    return sorted(findings, key=lambda finding: _LEVELS[finding.level])


def weightiest(screening: Iterable[Screened]) -> list[Screened]:
    """Return the primary outcome first; those that nobody asked for only where they suspect somebody."""
    shown = [one for one in screening if one.role != "exploratory" or one.named]
    return sorted(shown, key=lambda one: (_ROLES[one.role], one.outcome))
